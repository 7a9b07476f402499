package openapitest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
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

// Checker compares HTTP exchanges with the OpenAPI document.
type Checker struct {
	document *openapi3.T
	router   routers.Router
	coverage coverage
}

// New parses the document of the service. It returns an error unless it is valid OpenAPI 3.1 and its examples match
// their schemas.
func New() (*Checker, error) {
	text, err := queryapi.Description()
	if err != nil {
		return nil, err
	}
	document, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, fmt.Errorf("read OpenAPI document: %w", err)
	}
	if err := document.Validate(context.Background(), openapi3.IsOpenAPI31OrLater()); err != nil {
		return nil, fmt.Errorf("invalid OpenAPI document: %w", err)
	}
	router, err := gorillamux.NewRouter(document)
	if err != nil {
		return nil, fmt.Errorf("route by OpenAPI document: %w", err)
	}
	return &Checker{document: document, router: router, coverage: coverage{seen: make(map[string]struct{})}}, nil
}

// Document returns the parsed document.
func (c *Checker) Document() *openapi3.T { return c.document }

// Transport checks the exchanges of base. Differences from the document are passed to report; if that is nil, the call
// fails.
func (c *Checker) Transport(base http.RoundTripper, report func(error)) *Transport {
	return &Transport{checker: c, base: base, report: report}
}

// Transport is an [http.RoundTripper].
type Transport struct {
	checker *Checker
	base    http.RoundTripper
	report  func(error)
}

// CloseIdleConnections supports http.Client.
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
		err = fmt.Errorf("%s %s: %d: does not match the OpenAPI document: %w", req.Method, req.URL.Path,
			resp.StatusCode, err)
		if t.report == nil {
			return nil, err
		}
		t.report(err)
	}
	return resp, nil
}

// Check compares one exchange with the document. The bodies are passed separately.
func (c *Checker) Check(req *http.Request, sent []byte, resp *http.Response, body []byte) error {
	if resp.Header.Get("X-Request-Id") == "" {
		return errors.New("no X-Request-Id")
	}
	if req.URL.Path == "/" || strings.HasPrefix(req.URL.Path, "/docs/") {
		return nil // the redirect to /docs, and pages below it
	}
	plain, err := unpack(resp.Header.Get("Content-Encoding"), body)
	if err != nil {
		return err
	}
	copied := req.Clone(context.Background())
	copied.Body = io.NopCloser(bytes.NewReader(sent))
	route, parameters, err := c.router.FindRoute(copied)
	if err != nil {
		return errors.Join(checkUndocumented(resp.StatusCode, plain), named(resp.Header, c.undocumentedHeaders()))
	}
	options := &openapi3filter.Options{
		IncludeResponseStatus: true, MultiError: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
	}
	options.WithCustomSchemaErrorFunc(func(err *openapi3.SchemaError) string { // without the whole value
		return "/" + strings.Join(err.JSONPointer(), "/") + ": " + err.Reason
	})
	input := &openapi3filter.RequestValidationInput{Request: copied, PathParams: parameters, Route: route,
		Options: options}
	options.ExcludeRequestBody = isRows(req.Header)
	if resp.StatusCode < http.StatusMultipleChoices {
		if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
			return fmt.Errorf("request: %w", err)
		}
	}
	options.ExcludeResponseBody = strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") || // a page
		isRows(resp.Header)
	if err := checkRows(resp.Header, plain); err != nil {
		return err
	}
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
	return c.note(route.Operation, parameters, req, sent, resp, plain)
}

// isRows reports whether a body is rows of a bulk job, which have no schema.
func isRows(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return kind == "application/x-ndjson" || kind == "text/csv"
}

// checkRows checks a response with rows: each has its reference.
func checkRows(h http.Header, body []byte) error {
	switch kind, _, _ := strings.Cut(h.Get("Content-Type"), ";"); kind {
	case "text/csv":
		records, err := csv.NewReader(bytes.NewReader(body)).ReadAll()
		if err == nil && (len(records) == 0 || !slices.Contains(records[0], "reference")) {
			err = errors.New("no column reference")
		}
		if err != nil {
			return fmt.Errorf("CSV: %w", err)
		}
	case "application/x-ndjson":
		for line := range bytes.Lines(body) {
			var row struct {
				Reference *string `json:"reference"`
			}
			if err := json.Unmarshal(line, &row); err != nil || row.Reference == nil {
				return fmt.Errorf("not an object with a reference: %.300s", line)
			}
		}
	}
	return nil
}

// undocumentedHeaders are the response headers of paths and methods that are not in the document, which describes
// them in prose.
func (c *Checker) undocumentedHeaders() openapi3.Headers {
	return openapi3.Headers{"X-Request-Id": c.document.Components.Headers["X-Request-Id"]}
}

// named checks that the document has the headers of a response, apart from standard ones.
func named(got http.Header, described openapi3.Headers) error {
	own := []string{
		"Allow", "Cache-Control", "Content-Encoding", "Content-Length", "Content-Security-Policy", "Content-Type",
		"Cross-Origin-Opener-Policy",
		"Cross-Origin-Resource-Policy", "Date", "Etag", "Referrer-Policy", "Vary", "X-Content-Type-Options",
	}
	for name := range got {
		found := slices.Contains(own, name)
		for header := range described {
			found = found || http.CanonicalHeaderKey(header) == name
		}
		if !found {
			return fmt.Errorf("undocumented response header %s", name)
		}
	}
	return nil
}

// checkUndocumented checks the response to a path or method that is not in the document.
func checkUndocumented(status int, body []byte) error {
	if status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
		return errors.New("undocumented path or method")
	}
	var e struct {
		Detail string `json:"detail"`
	}
	if err := json.Unmarshal(body, &e, json.RejectUnknownMembers(true)); err != nil || e.Detail == "" {
		return fmt.Errorf("not an error body: %.300s", body)
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
		return nil, fmt.Errorf("undocumented Content-Encoding %s", strconv.Quote(coding))
	}
	plain, err := io.ReadAll(from)
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", coding, err)
	}
	return plain, nil
}
