package descriptiontest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/zstd"

	queryapi "muster/query-api"
)

// Checker compares exchanges with the API description.
type Checker struct {
	document *openapi3.T
	router   routers.Router
	met      met
}

// New reads the description that the service serves; it must be valid OpenAPI 3.1,
// with examples that fit their schemas.
func New() (*Checker, error) {
	text, err := queryapi.Description()
	if err != nil {
		return nil, err
	}
	document, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, fmt.Errorf("read the API description: %w", err)
	}
	if err := document.Validate(context.Background(), openapi3.IsOpenAPI31OrLater()); err != nil {
		return nil, fmt.Errorf("the API description is not valid: %w", err)
	}
	router, err := gorillamux.NewRouter(document)
	if err != nil {
		return nil, fmt.Errorf("route by the API description: %w", err)
	}
	return &Checker{document: document, router: router, met: met{seen: make(map[string]struct{})}}, nil
}

// Document is the parsed description.
func (c *Checker) Document() *openapi3.T { return c.document }

// Transport checks what passes through base. What the description disagrees with
// goes to report; without one it is the call's error.
func (c *Checker) Transport(base http.RoundTripper, report func(error)) *Transport {
	return &Transport{checker: c, base: base, report: report}
}

// Transport is an [http.RoundTripper].
type Transport struct {
	checker *Checker
	base    http.RoundTripper
	report  func(error)
}

// CloseIdleConnections serves http.Client.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var sent []byte
	if req.Body != nil {
		var err error
		if sent, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(sent))
	}
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if err := t.checker.Check(req, sent, resp, body); err != nil {
		err = fmt.Errorf("%s %s: %d: the description disagrees: %w", req.Method, req.URL.Path, resp.StatusCode, err)
		if t.report == nil {
			return nil, err
		}
		t.report(err)
	}
	return resp, nil
}

// Check compares one exchange, whose bodies were read, with the description.
func (c *Checker) Check(req *http.Request, sent []byte, resp *http.Response, body []byte) error {
	if resp.Header.Get("X-Request-Id") == "" {
		return errors.New("no X-Request-Id")
	}
	if strings.HasPrefix(req.URL.Path, "/docs/") {
		return nil // what /docs leads to
	}
	plain, err := unpack(resp.Header.Get("Content-Encoding"), body)
	if err != nil {
		return err
	}
	copied := req.Clone(context.Background())
	copied.Body = io.NopCloser(bytes.NewReader(sent))
	route, parameters, err := c.router.FindRoute(copied)
	if err != nil {
		return errors.Join(stranger(resp.StatusCode, plain), named(resp.Header, c.strangers()))
	}
	options := &openapi3filter.Options{
		IncludeResponseStatus: true, MultiError: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
	}
	options.WithCustomSchemaErrorFunc(func(err *openapi3.SchemaError) string { // without the whole value
		return "/" + strings.Join(err.JSONPointer(), "/") + ": " + err.Reason
	})
	input := &openapi3filter.RequestValidationInput{Request: copied, PathParams: parameters, Route: route, Options: options}
	if resp.StatusCode < http.StatusMultipleChoices {
		if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
			return fmt.Errorf("request: %w", err)
		}
	}
	options.ExcludeResponseBody = strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") // a page
	err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: resp.StatusCode, Header: resp.Header.Clone(),
		Body: io.NopCloser(bytes.NewReader(plain)), Options: options,
	})
	if err != nil {
		return err
	}
	status := route.Operation.Responses.Value(strconv.Itoa(resp.StatusCode))
	if err := named(resp.Header, status.Value.Headers); err != nil {
		return err
	}
	return c.note(route.Operation, req, sent, resp, plain)
}

// strangers are the headers of answers to paths and methods that the description does not
// have, which it tells of in prose.
func (c *Checker) strangers() openapi3.Headers {
	return openapi3.Headers{"X-Request-Id": c.document.Components.Headers["X-Request-Id"]}
}

// named checks that the description names an answer's headers, besides HTTP's own.
func named(got http.Header, described openapi3.Headers) error {
	own := []string{
		"Allow", "Cache-Control", "Content-Encoding", "Content-Length", "Content-Security-Policy", "Content-Type", "Cross-Origin-Opener-Policy",
		"Cross-Origin-Resource-Policy", "Date", "Etag", "Referrer-Policy", "Vary", "X-Content-Type-Options",
	}
	for name := range got {
		found := slices.Contains(own, name)
		for header := range described {
			found = found || http.CanonicalHeaderKey(header) == name
		}
		if !found {
			return fmt.Errorf("it names no header %s of this answer", name)
		}
	}
	return nil
}

// stranger is the answer to a path or a method that the description does not have.
func stranger(status int, body []byte) error {
	if status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
		return errors.New("it has no such path or method")
	}
	var e struct {
		Detail string `json:"detail"`
	}
	if err := json.Unmarshal(body, &e, json.RejectUnknownMembers(true)); err != nil || e.Detail == "" {
		return fmt.Errorf("not an error's body: %.300s", body)
	}
	return nil
}

func unpack(coding string, body []byte) ([]byte, error) {
	var from io.Reader
	switch coding {
	case "":
		return body, nil
	case "gzip":
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		from = r
	case "zstd":
		r, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		defer r.Close()
		from = r
	default:
		return nil, fmt.Errorf("Content-Encoding %s is not one that the description names", strconv.Quote(coding))
	}
	plain, err := io.ReadAll(from)
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", coding, err)
	}
	return plain, nil
}
