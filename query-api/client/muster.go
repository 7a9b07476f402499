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

// Options of a client; the zero value is the usual one.
type Options struct {
	// HTTP sends the requests; [http.DefaultClient] if nil.
	HTTP HttpRequestDoer
	// Retries is how many times a call is sent again: 4 if it is 0, none if it is negative.
	Retries int
	// MaxWait is the longest wait that is waited, a minute if it is 0. An answer
	// that asks for more is returned.
	MaxWait time.Duration
}

// New makes a client of the service at a base address such as
// http://127.0.0.1:8080, with an API key.
//
// A call is sent again after a broken connection, and after an answer of 409, 429,
// 500 or 503 with Retry-After, when that long has passed. Every POST carries an
// Idempotency-Key, so that what was sent twice is not charged twice.
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
	return NewClientWithResponses(server, WithHTTPClient(r), WithRequestEditorFn(func(_ context.Context, req *http.Request) error {
		req.Header.Set("Authorization", "Bearer "+key)
		if req.Method == http.MethodPost && req.Header.Get("Idempotency-Key") == "" {
			req.Header.Set("Idempotency-Key", rand.Text())
		}
		return nil
	}))
}

// retrier sends requests, and again what may be sent again.
type retrier struct {
	next    HttpRequestDoer
	retries int
	maxWait time.Duration
}

// firstPause is the wait after the first broken connection; it doubles.
const firstPause = 250 * time.Millisecond

// Do implements HttpRequestDoer.
func (r *retrier) Do(req *http.Request) (*http.Response, error) {
	for attempt := 0; ; attempt++ {
		if attempt > 0 && req.GetBody != nil {
			body, err := req.GetBody()
			if err != nil {
				return nil, fmt.Errorf("send the body again: %w", err)
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
		if attempt >= r.retries || req.Context().Err() != nil || req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
			return resp, err
		}
		if resp != nil {
			// So that the connection can be used again; what is left of the answer is of no interest.
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

// retryAfter is how long an answer asks to wait; again is false when it is final.
func retryAfter(resp *http.Response) (wait time.Duration, again bool) {
	switch resp.StatusCode {
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable:
	default:
		return 0, false
	}
	seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 31)
	return time.Duration(seconds) * time.Second, err == nil
}

// APIError is an answer that is an error.
type APIError struct {
	Status int
	// Detail says what is wrong and how to mend it.
	Detail string
	// RequestID is to be quoted when the operator is asked for help.
	RequestID string
}

// Error returns status and detail.
func (e *APIError) Error() string { return fmt.Sprintf("%d: %s", e.Status, e.Detail) }

// AsError makes an error of an answer that is none of the 2xx.
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

// People are all whom a search finds, page by page: Size is that of a page, and
// each result is charged when its page is fetched. An error ends the walk.
func People(ctx context.Context, api ClientWithResponsesInterface, search SearchRequest) iter.Seq2[EnrichedNetwork, error] {
	return func(yield func(EnrichedNetwork, error) bool) {
		for {
			answer, err := api.SearchPeopleWithResponse(ctx, nil, search)
			if err == nil {
				err = AsError(answer.HTTPResponse, answer.Body)
			}
			if err == nil && answer.JSON200 == nil {
				err = errors.New("the search was not answered with JSON")
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
			if next == nil || search.Cursor != nil && *next == *search.Cursor { // pages of size 0 lead nowhere
				return
			}
			search.Cursor = next
		}
	}
}

// Delivery is what a webhook carries: a profile, or why there is none.
type Delivery struct {
	// RequestID is that of the context call; it is the same on every try.
	RequestID string
	Profile   *ContextProfile
	// Failure is the detail of a task that failed.
	Failure string
}

// VerifyWebhook checks the signature and the age of a delivery (Standard Webhooks
// 1.0.0) and reads it. body is what came, before anything parsed it; secrets are
// the organization's, two while one is rotated.
func VerifyWebhook(header http.Header, body []byte, secrets ...string) (*Delivery, error) {
	refusal := errors.New("no secret is given")
	for _, secret := range secrets {
		w, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return nil, fmt.Errorf("read the webhook secret: %w", err)
		}
		if refusal = w.Verify(body, header); refusal == nil {
			break
		}
	}
	if refusal != nil {
		return nil, fmt.Errorf("verify the webhook: %w", refusal)
	}
	d := &Delivery{RequestID: header.Get(standardwebhooks.HeaderWebhookID)}
	var failed Error
	if err := json.Unmarshal(body, &failed); err == nil && failed.Detail != "" {
		d.Failure = failed.Detail
		return d, nil
	}
	d.Profile = &ContextProfile{}
	if err := json.Unmarshal(body, d.Profile); err != nil {
		return nil, fmt.Errorf("read the webhook: %w", err)
	}
	return d, nil
}
