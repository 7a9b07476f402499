package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Options configures a client. The zero value has the defaults.
type Options struct {
	// HTTP sends the requests; default [http.DefaultClient].
	HTTP HttpRequestDoer
	// Retries is the maximum number of retries of a call; default 4, negative: none.
	Retries int
	// MaxWait is the longest wait before a retry; default a minute. A response that asks for more is returned.
	MaxWait time.Duration
}

// New returns a client of the service at a base address, such as http://127.0.0.1:8080, with an API key.
//
// It retries a call after a broken connection, and after a response of 409, 429, 500 or 503 with Retry-After once that
// time has passed. Every POST has an Idempotency-Key, so that a retry is not charged again.
func New(server, key string, options Options) (*ClientWithResponses, error) {
	r := &retrier{next: options.HTTP, retries: options.Retries, maxWait: options.MaxWait}
	if r.next == nil {
		r.next = http.DefaultClient
	}
	if r.retries == 0 {
		r.retries = 4
	}
	if r.maxWait == 0 {
		r.maxWait = time.Minute
	}
	return NewClientWithResponses(server, WithHTTPClient(r),
		WithRequestEditorFn(func(_ context.Context, req *http.Request) error {
			req.Header.Set("Authorization", "Bearer "+key)
			if req.Method == http.MethodPost && req.Header.Get("Idempotency-Key") == "" {
				req.Header.Set("Idempotency-Key", rand.Text())
			}
			return nil
		}))
}

// retrier sends requests and retries them.
type retrier struct {
	next    HttpRequestDoer
	retries int
	maxWait time.Duration
}

// firstPause is the wait after the first broken connection; it doubles with each retry.
const firstPause = 250 * time.Millisecond

// Do implements HttpRequestDoer.
func (r *retrier) Do(req *http.Request) (*http.Response, error) {
	for attempt := 0; ; attempt++ {
		if attempt > 0 && req.GetBody != nil {
			body, err := req.GetBody()
			if err != nil {
				return nil, fmt.Errorf("resend body: %w", err)
			}
			req.Body = body
		}
		resp, err := r.next.Do(req)
		var wait time.Duration
		switch {
		case err != nil:
			wait = min(r.maxWait, firstPause<<min(attempt, 10))
		default:
			asked, again := retryAfter(resp)
			if !again || asked > r.maxWait {
				return resp, nil
			}
			wait = asked
		}
		if attempt >= r.retries || req.Context().Err() != nil || req.Body != nil && req.Body != http.NoBody &&
			req.GetBody == nil {
			return resp, err
		}
		if resp != nil {
			// Drain the body, so that the connection can be reused.
			_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
			_ = resp.Body.Close()
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-req.Context().Done():
			timer.Stop()
			return nil, context.Cause(req.Context())
		}
	}
}

// retryAfter returns how long a response asks to wait; again is false if it is final.
func retryAfter(resp *http.Response) (wait time.Duration, again bool) {
	switch resp.StatusCode {
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable:
	default:
		return 0, false
	}
	seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 31)
	return time.Duration(seconds) * time.Second, err == nil
}

// APIError is an error response.
type APIError struct {
	Status int
	// Detail describes the problem and how to fix it.
	Detail string
	// RequestID identifies the call in support requests.
	RequestID string
}

// Error implements error.
func (e *APIError) Error() string { return fmt.Sprintf("%d: %s", e.Status, e.Detail) }

// AsError converts a response with a status other than 2xx to an error.
func AsError(resp *http.Response, body []byte) error {
	if resp.StatusCode/100 == 2 {
		return nil
	}
	e := &APIError{Status: resp.StatusCode, RequestID: resp.Header.Get("X-Request-Id")}
	var told Error
	if err := json.Unmarshal(body, &told); err != nil || told.Detail == "" {
		told.Detail = http.StatusText(resp.StatusCode)
	}
	e.Detail = told.Detail
	return e
}

// People iterates over all results of a search, page by page. Size is the page size; a result is charged when its
// page is fetched. An error ends the iteration.
func People(
	ctx context.Context, api ClientWithResponsesInterface, search SearchRequest,
) iter.Seq2[EnrichedNetwork, error] {
	return func(yield func(EnrichedNetwork, error) bool) {
		for {
			answer, err := api.SearchPeopleWithResponse(ctx, nil, search)
			if err == nil {
				err = AsError(answer.HTTPResponse, answer.Body)
			}
			if err == nil && answer.JSON200 == nil {
				err = errors.New("response is not JSON")
			}
			if err != nil {
				yield(EnrichedNetwork{}, fmt.Errorf("search people: %w", err))
				return
			}
			if answer.JSON200.Results != nil {
				for _, person := range *answer.JSON200.Results {
					if !yield(person, nil) {
						return
					}
				}
			}
			next := answer.JSON200.NextCursor
			// Pages of size 0 do not advance.
			if next == nil || search.Cursor != nil && *next == *search.Cursor {
				return
			}
			search.Cursor = next
		}
	}
}

// Delivery is the payload of a webhook: a profile, or why it failed.
type Delivery struct {
	// RequestID is the ID of the context call, the same for every attempt.
	RequestID string
	Profile   *ContextProfile
	// Failure is the detail of a failed task.
	Failure string
}

// VerifyWebhook verifies the signature and the age of a delivery (Standard Webhooks 1.0.0) and decodes it. body is the
// unparsed request body; secrets are the webhook secrets of the organization, two during a rotation.
func VerifyWebhook(header http.Header, body []byte, secrets ...string) (*Delivery, error) {
	refusal := errors.New("no secret")
	for _, secret := range secrets {
		w, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return nil, fmt.Errorf("parse webhook secret: %w", err)
		}
		if refusal = w.Verify(body, header); refusal == nil {
			break
		}
	}
	if refusal != nil {
		return nil, fmt.Errorf("verify webhook: %w", refusal)
	}
	d := &Delivery{RequestID: header.Get(standardwebhooks.HeaderWebhookID)}
	var failed Error
	if err := json.Unmarshal(body, &failed); err == nil && failed.Detail != "" {
		d.Failure = failed.Detail
		return d, nil
	}
	d.Profile = &ContextProfile{}
	if err := json.Unmarshal(body, d.Profile); err != nil {
		return nil, fmt.Errorf("decode webhook: %w", err)
	}
	return d, nil
}
