package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxBody limits the bytes read of a response.
const maxBody = 2 << 20

// NewClient returns the HTTP client of providers. It follows no redirects, so that keys go only
// where they are configured to.
func NewClient() *http.Client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 8, IdleConnTimeout: 90 * time.Second,
		TLSHandshakeTimeout: 5 * time.Second, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// StatusError is an unsuccessful HTTP status.
type StatusError struct{ Status int }

func (e *StatusError) Error() string {
	return fmt.Sprintf("unexpected status %d %s", e.Status, http.StatusText(e.Status))
}

// ErrMalformed is returned for a response that does not match the server's documentation.
var ErrMalformed = errors.New("malformed response")

// Head is the status and header of a response.
type Head struct {
	Status int
	Header http.Header
}

// Fetch sends a request and decodes the response into out, which may be nil. Only the statuses in
// accept are successful, and only the first of them has a body. It returns a [RetryError] for 429
// and 503 with Retry-After.
func Fetch(ctx context.Context, client *http.Client, req *http.Request, out any, accept ...int) (*Head, error) {
	res, err := client.Do(req.WithContext(ctx)) //nolint:gosec // the operator configures the URL
	if err != nil {
		// Its URL may contain a query with a person's name.
		if inner := (*url.Error)(nil); errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, fmt.Errorf("request failed: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	head := &Head{res.StatusCode, res.Header}
	for i, status := range accept {
		if res.StatusCode != status {
			continue
		}
		if i > 0 || out == nil {
			return head, nil
		}
		body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
		if err != nil {
			return nil, fmt.Errorf("read response: %w", err)
		}
		if len(body) > maxBody {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrMalformed, maxBody)
		}
		if json.Unmarshal(body, out, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
			return nil, ErrMalformed // the response must not be logged
		}
		return head, nil
	}
	err = &StatusError{res.StatusCode}
	if after, ok := RetryAfter(res.Header, time.Now()); ok &&
		(res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable) {
		return nil, &RetryError{After: after, Err: err}
	}
	return head, err
}

// RetryAfter parses a Retry-After header: seconds or a date (RFC 9110, section 10.2.3).
func RetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseUint(value, 10, 31); err == nil {
		return max(time.Duration(n)*time.Second, time.Second), true
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), time.Second), true
	}
	return 0, false
}
