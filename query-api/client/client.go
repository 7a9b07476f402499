package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Version is the version of muster that the client was generated for.
const Version = "0.1.0"

// Options configures a client. The zero value has the defaults.
//
// A call is retried after a broken connection or a truncated response, and after a status of 409, 429, 500 or 503 with
// Retry-After once that time has passed. Only calls that are safe to repeat are: every GET, and every POST with an
// Idempotency-Key. A POST has a random one unless the caller sets another; see [IdempotencyKey].
type Options struct {
	// HTTPClient sends the requests. The default is [http.DefaultClient].
	HTTPClient *http.Client
	// UserAgent is sent with every request. The default is muster-go/ and [Version].
	UserAgent string
	// Retries is the maximum number of retries of a call. The default is 4; a negative number means none.
	Retries int
	// MaxWait is the longest wait before a retry. The default is a minute. An error that requires a longer wait is
	// returned immediately.
	MaxWait time.Duration
}

// Client calls the API of one service with one API key. It is safe for concurrent use.
type Client struct {
	base    *url.URL
	key     string
	options Options
}

// New returns a client of the service at a base URL, such as http://127.0.0.1:8080, with an API key.
func New(baseURL, key string, options Options) (*Client, error) {
	base, err := url.Parse(baseURL)
	if err != nil {
		return nil, fmt.Errorf("parse base URL: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("invalid base URL %q: it must start with http:// or https:// and a host", baseURL)
	}
	if options.HTTPClient == nil {
		options.HTTPClient = http.DefaultClient
	}
	if options.UserAgent == "" {
		options.UserAgent = "muster-go/" + Version
	}
	if options.Retries == 0 {
		options.Retries = 4
	}
	if options.MaxWait == 0 {
		options.MaxWait = time.Minute
	}
	return &Client{base: base, key: key, options: options}, nil
}

// CallOption changes one call.
type CallOption func(*request)

// IdempotencyKey sets the Idempotency-Key of a POST, 1 to 255 visible ASCII characters. For 24 hours, a call with the
// same key, operation and body returns the stored response without another charge: save the key before the call to
// repeat it after a crash. With an empty key the header is not sent and the call is not retried. GET ignores it.
func IdempotencyKey(key string) CallOption {
	return func(r *request) { r.idempotencyKey = key }
}

// Response is the response to a call.
type Response[T any] struct {
	// Value is the decoded body. It is the zero value after a dry run.
	Value T
	// DryRun is the maximum cost of a call whose request has DryRun set, else nil.
	DryRun *DryRun
	Metadata
}

// Metadata is the status of a response and its headers. Values of absent headers are zero.
type Metadata struct {
	Status int
	Header http.Header
	// RequestID identifies the call in support requests (X-Request-Id).
	RequestID string
	// CreditsCharged is the number of credits charged for the call (X-Credits-Charged).
	CreditsCharged int64
	// RateLimit is the state of the key's rate limit (X-RateLimit-*).
	RateLimit RateLimit
	// Quota is the state of the plan's credits, in responses to a search (X-Quota-*).
	Quota Quota
	// MissReason is why the response has no record: "not_found", "below_confidence", or "must_have: " and the fields
	// that the record lacks (X-Miss-Reason). It is empty for lists.
	MissReason string
	// AsOf is the time as of which the data has every published record (X-Data-As-Of); zero if it is unknown.
	AsOf time.Time
	// Degraded lists the stages without a complete result (X-Degraded).
	Degraded []string
	// Age is the age of a stored result of [Client.DiscoverPerson].
	Age time.Duration
	// Replayed reports whether the response was stored for the Idempotency-Key and not charged (Idempotent-Replayed).
	Replayed bool
}

// RateLimit is the state of the rate limit of a key.
type RateLimit struct {
	// Limit is the number of requests per minute of the plan, Remaining the number allowed now.
	Limit, Remaining int64
	// Reset is the time when the full limit is available again.
	Reset time.Time
}

// Quota is the number of credits of the plan in this month (UTC).
type Quota struct{ Used, Limit, Remaining int64 }

// newMetadata returns the metadata of a response.
func newMetadata(resp *http.Response) Metadata {
	h := resp.Header
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(h.Get(name), 10, 64)
		return n
	}
	m := Metadata{
		Status: resp.StatusCode, Header: h, RequestID: h.Get("X-Request-Id"),
		CreditsCharged: number("X-Credits-Charged"),
		MissReason:     h.Get("X-Miss-Reason"),
		RateLimit:      RateLimit{Limit: number("X-RateLimit-Limit"), Remaining: number("X-RateLimit-Remaining")},
		Quota:          Quota{number("X-Quota-Used"), number("X-Quota-Limit"), number("X-Quota-Remaining")},
		Age:            time.Duration(number("Age")) * time.Second,
		Replayed:       h.Get("Idempotent-Replayed") == "true",
	}
	if reset := number("X-RateLimit-Reset"); reset > 0 {
		m.RateLimit.Reset = time.Unix(reset, 0)
	}
	asOf, _, _ := strings.Cut(h.Get("X-Data-As-Of"), ";")
	m.AsOf, _ = time.Parse(time.RFC3339, asOf)
	for stage := range strings.SplitSeq(h.Get("X-Degraded"), ",") {
		if stage = strings.TrimSpace(stage); stage != "" {
			m.Degraded = append(m.Degraded, stage)
		}
	}
	return m
}

// Error is a response with a status other than 2xx.
type Error struct {
	// Detail describes the problem and how to fix it.
	Detail string `json:"detail"`
	// RetryAfter is the wait before a retry that the service requests, 0 if none.
	RetryAfter time.Duration `json:"-"`
	Metadata   `json:"-"`
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%d: %s", e.Status, e.Detail) }

// newError returns the error of a response.
func newError(m Metadata, body []byte) *Error {
	e := &Error{}
	if json.Unmarshal(body, e) != nil || e.Detail == "" { // from a proxy, not the service
		e.Detail = http.StatusText(m.Status)
	}
	e.Metadata = m
	if seconds, err := strconv.ParseUint(m.Header.Get("Retry-After"), 10, 31); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// isTransient reports whether the service asks to repeat the call.
func (e *Error) isTransient() bool {
	switch e.Status {
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable:
		return e.Header.Get("Retry-After") != ""
	}
	return false
}

// request is a call to be sent.
type request struct {
	method, path   string
	query          url.Values
	body           []byte
	contentType    string // of body; empty: JSON
	idempotencyKey string
	// stream leaves the body of a successful response to the caller, in opened.
	stream bool
	opened io.ReadCloser
}

// newGet returns a GET request.
func newGet(path string, query url.Values) *request {
	return &request{method: http.MethodGet, path: path, query: query}
}

// newPost returns a POST request with a body and an Idempotency-Key.
func newPost(path string, body any, options []CallOption) (*request, error) {
	encoded, err := json.Marshal(body, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	r := &request{method: http.MethodPost, path: path, body: encoded, idempotencyKey: rand.Text()}
	for _, option := range options {
		option(r)
	}
	return r, nil
}

// call sends a request until there is a final response, and decodes it.
func call[T any](ctx context.Context, c *Client, r *request, dryRun bool) (*Response[T], error) {
	metadata, body, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	out := &Response[T]{Metadata: metadata}
	var value any = &out.Value
	if dryRun {
		out.DryRun = &DryRun{}
		value = out.DryRun
	}
	if err := json.Unmarshal(body, value); err != nil {
		return nil, fmt.Errorf("decode response to %s %s: %w", r.method, r.path, err)
	}
	return out, nil
}

// callPost sends a POST request like call.
func callPost[T any](
	ctx context.Context, c *Client, path string, body any, dryRun bool, options []CallOption,
) (*Response[T], error) {
	r, err := newPost(path, body, options)
	if err != nil {
		return nil, err
	}
	return call[T](ctx, c, r, dryRun)
}

// firstPause is the wait after the first broken connection. It doubles with each retry.
const firstPause = 250 * time.Millisecond

// send sends a request, and repeats it if that is safe and can help.
func (c *Client) send(ctx context.Context, r *request) (Metadata, []byte, error) {
	for attempt := 0; ; attempt++ {
		metadata, body, err := c.attempt(ctx, r)
		if err == nil || ctx.Err() != nil {
			return metadata, body, err
		}
		wait := min(c.options.MaxWait, firstPause<<min(attempt, 10))
		if problem, ok := errors.AsType[*Error](err); ok {
			if !problem.isTransient() || problem.RetryAfter > c.options.MaxWait {
				return metadata, nil, err
			}
			wait = problem.RetryAfter
		}
		if attempt >= c.options.Retries || r.method == http.MethodPost && r.idempotencyKey == "" {
			return metadata, nil, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return metadata, nil, fmt.Errorf("wait for retry: %w; last error: %w", context.Cause(ctx), err)
		}
	}
}

// attempt sends a request once and reads the response. It returns an [*Error] if the status is not 2xx.
func (c *Client) attempt(ctx context.Context, r *request) (Metadata, []byte, error) {
	address := c.base.JoinPath(r.path)
	address.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, address.String(), bytes.NewReader(r.body))
	if err != nil {
		return Metadata{}, nil, fmt.Errorf("create request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("User-Agent", c.options.UserAgent)
	if r.body != nil {
		req.Header.Set("Content-Type", cmp.Or(r.contentType, "application/json"))
		if r.idempotencyKey != "" {
			req.Header.Set("Idempotency-Key", r.idempotencyKey)
		}
	}
	resp, err := c.options.HTTPClient.Do(req)
	if err != nil {
		return Metadata{}, nil, err
	}
	metadata := newMetadata(resp)
	if r.stream && resp.StatusCode/100 == 2 {
		r.opened = resp.Body
		return metadata, nil, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return metadata, nil, fmt.Errorf("read response: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return metadata, nil, newError(metadata, body)
	}
	return metadata, body, nil
}
