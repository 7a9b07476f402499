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

// maxBody bounds the bytes that are read of an answer.
const maxBody = 2 << 20

// NewClient returns the HTTP client of providers. It follows no redirects: a key
// goes only where it was configured to go.
func NewClient() *http.Client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 8, IdleConnTimeout: 90 * time.Second,
		TLSHandshakeTimeout: 5 * time.Second, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// StatusError is an answer that is none.
type StatusError struct{ Status int }

// Error names the status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("answered with status %d %s", e.Status, http.StatusText(e.Status))
}

// ErrMalformed is an answer that is not what its server's documentation says.
var ErrMalformed = errors.New("the answer is malformed")

// Head is what an answer has beside its body.
type Head struct {
	Status int
	Header http.Header
}

// Fetch sends a request and reads its answer into out, which may be nil for
// statuses that have none. Only the statuses of accept are answers, the first of
// them with a body. 429 and 503 with Retry-After are a [RetryError].
func Fetch(ctx context.Context, client *http.Client, req *http.Request, out any, accept ...int) (*Head, error) {
	res, err := client.Do(req.WithContext(ctx)) //nolint:gosec // the operator says where to
	if err != nil {
		// The URL in it may hold a query, which is somebody's name.
		if inner := (*url.Error)(nil); errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, fmt.Errorf("no answer: %w", err)
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
			return nil, fmt.Errorf("read answer: %w", err)
		}
		if len(body) > maxBody {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrMalformed, maxBody)
		}
		if json.Unmarshal(body, out, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
			return nil, ErrMalformed // what is in it is not for logs
		}
		return head, nil
	}
	err = &StatusError{res.StatusCode}
	if after, ok := RetryAfter(res.Header, time.Now()); ok && (res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable) {
		return nil, &RetryError{After: after, Err: err}
	}
	return head, err
}

// RetryAfter reads the header Retry-After: seconds or a date (RFC 9110, 10.2.3).
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
