package v1

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"muster/platform/clickhouse"
	"muster/query-api/internal/account"
	"muster/query-api/internal/api"
	"muster/query-api/internal/bulk"
	"muster/query-api/internal/contexts"
	"muster/query-api/internal/discovery"
	"muster/query-api/internal/metering"
	"muster/query-api/internal/readstore"
	"muster/query-api/internal/search"
	"muster/query-api/internal/search/clause"
	"muster/query-api/internal/search/cursor"
)

// retryAfter is the Retry-After of outages, in seconds.
const retryAfter = 2

// problem is an error response.
type problem struct {
	status     int
	detail     string
	retryAfter int // seconds; 0: no header
	allow      string
	cause      error // for the log; nil if the client caused the error
}

func (p *problem) Error() string { return p.detail }

// invalid is an input error. Its status depends on the operation: 422 for the enrich endpoints, 400 otherwise
// (rulings.md, Errors).
type invalid struct{ detail string }

func (e *invalid) Error() string { return e.detail }

func invalidf(format string, args ...any) *invalid { return &invalid{fmt.Sprintf(format, args...)} }

// problemOf returns the response for the error of an operation.
func problemOf(op *operation, err error) *problem {
	var p *problem
	var in *invalid
	var unauthorized *account.Unauthorized
	var limit *metering.LimitError
	var query *clause.Error
	var tooExpensive *search.TooExpensiveError
	var overloaded *search.OverloadedError
	var unavailable *search.Unavailable
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &in):
		return &problem{status: op.invalid, detail: in.detail}
	case errors.As(err, &query), errors.As(err, &tooExpensive),
		errors.Is(err, cursor.ErrInvalid), errors.Is(err, cursor.ErrExpired), errors.Is(err, cursor.ErrForeign):
		return &problem{status: op.invalid, detail: err.Error()}
	case errors.As(err, &overloaded):
		return &problem{
			status: op.unavailable, retryAfter: retryAfter, cause: err,
			detail: fmt.Sprintf("%v: call again in %d seconds, or narrow the query", overloaded, retryAfter),
		}
	case errors.As(err, &unavailable):
		return &problem{status: op.unavailable, retryAfter: retryAfter, cause: err, detail: unavailable.Reason}
	case errors.Is(err, errFull):
		return &problem{
			status: op.unavailable, retryAfter: retryAfter, cause: err,
			detail: fmt.Sprintf("%v, and nothing was charged: call again in %d seconds, or ask for fewer records at "+
				"a time",
				errFull, retryAfter),
		}
	case errors.As(err, &unauthorized):
		return &problem{status: http.StatusUnauthorized, detail: unauthorized.Reason}
	case errors.Is(err, account.ErrLoading):
		return &problem{
			status: op.unavailable, retryAfter: retryAfter, cause: err,
			detail: fmt.Sprintf(
				"this service is starting, and API keys cannot be checked yet: call again in %d seconds", retryAfter,
			),
		}
	case errors.As(err, &limit):
		return &problem{
			status: http.StatusTooManyRequests, detail: limit.Detail,
			retryAfter: max(1, int((limit.RetryAfter+time.Second-1)/time.Second)),
		}
	case errors.Is(err, metering.ErrRunning):
		return &problem{
			status: http.StatusConflict, retryAfter: 1,
			detail: "a call with this Idempotency-Key is still running: wait for its answer, or call again in 1 second",
		}
	case errors.Is(err, metering.ErrOtherBody):
		return &problem{
			status: http.StatusUnprocessableEntity,
			detail: "this Idempotency-Key was used with another body or other parameters: repeat the same call, or use " +
				"another key",
		}
	case isDamaged(err):
		return &problem{
			status: http.StatusInternalServerError, cause: err,
			detail: "data that this call needs is damaged on the disk of this service, and nothing was charged: " +
				"calling again does not help until its operator has repaired it",
		}
	case errors.Is(err, metering.ErrUnavailable):
		return &problem{
			status: op.unavailable, retryAfter: retryAfter, cause: err,
			detail: fmt.Sprintf("the balances of this service cannot be read at present, and nothing was charged: "+
				"call again in %d seconds", retryAfter),
		}
	case errors.Is(err, discovery.ErrUnavailable):
		return &problem{
			status: op.unavailable, retryAfter: retryAfter, cause: err,
			detail: fmt.Sprintf("discovery is unavailable: call again in %d seconds", retryAfter),
		}
	case errors.Is(err, ErrSettingsUnavailable):
		return &problem{
			status: op.unavailable, retryAfter: retryAfter, cause: err,
			detail: fmt.Sprintf("settings cannot be changed at present, and it is uncertain whether this change was "+
				"made: call again in %d seconds", retryAfter),
		}
	case errors.Is(err, bulk.ErrUnavailable):
		return &problem{
			status: op.unavailable, retryAfter: retryAfter, cause: err,
			detail: fmt.Sprintf("bulk jobs are unavailable, and nothing was charged: call again in %d seconds",
				retryAfter),
		}
	case errors.Is(err, contexts.ErrUnavailable):
		return &problem{
			status: op.unavailable, retryAfter: retryAfter, cause: err,
			detail: fmt.Sprintf("context calls cannot be accepted at present, and nothing was charged: "+
				"call again in %d seconds", retryAfter),
		}
	case errors.Is(err, readstore.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return &problem{
			status: op.unavailable, retryAfter: retryAfter, cause: err,
			detail: fmt.Sprintf("the data store cannot answer at present: call again in %d seconds", retryAfter),
		}
	}
	return unexpected(err)
}

func isDamaged(err error) bool {
	_, ok := clickhouse.DamageOf(err)
	return ok
}

func unexpected(cause error) *problem {
	return &problem{
		status: http.StatusInternalServerError, cause: cause,
		detail: "unexpected error: call again, and if it persists, " +
			"give the operator of this service the X-Request-Id of this response",
	}
}

// write sends the problem.
func (p *problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(api.Error{Detail: p.detail}, json.Deterministic(true))
	if err != nil { // detail is not valid UTF-8
		body = []byte(`{"detail":"the request is not valid"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	if p.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="muster"`)
	}
	w.WriteHeader(p.status)
	// The client may have disconnected.
	_, _ = w.Write(body)
}
