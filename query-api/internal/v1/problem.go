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
	"muster/query-api/internal/contexts"
	"muster/query-api/internal/discovery"
	"muster/query-api/internal/metering"
	"muster/query-api/internal/readstore"
	"muster/query-api/internal/search"
	"muster/query-api/internal/search/clause"
	"muster/query-api/internal/search/cursor"
)

// retryAfter is how many seconds a caller is asked to wait for the store.
const retryAfter = 2

// problem is an answer that is an error.
type problem struct {
	status     int
	detail     string
	retryAfter int // seconds; 0: no such header
	allow      string
	cause      error // for the log; nil when the caller is to blame
}

func (p *problem) Error() string { return p.detail }

// invalid is wrong input. Its status depends on the operation: 422 on the
// enrich endpoints, 400 elsewhere (rulings.md, Errors).
type invalid struct{ detail string }

func (e *invalid) Error() string { return e.detail }

func invalidf(format string, args ...any) *invalid { return &invalid{fmt.Sprintf(format, args...)} }

// problemOf turns what an operation failed with into an answer.
func problemOf(op *operation, err error) *problem {
	var p *problem
	var in *invalid
	var unauthorized *account.Unauthorized
	var refused *metering.Refused
	var query *clause.Error
	var budget *search.Budget
	var busy *search.Busy
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &in):
		return &problem{status: op.invalid, detail: in.detail}
	case errors.As(err, &query), errors.As(err, &budget),
		errors.Is(err, cursor.ErrInvalid), errors.Is(err, cursor.ErrExpired), errors.Is(err, cursor.ErrForeign):
		return &problem{status: op.invalid, detail: err.Error()}
	case errors.As(err, &busy):
		return &problem{
			status: op.unavailable, retryAfter: retryAfter, cause: err,
			detail: fmt.Sprintf("%v: call again in %d seconds, or narrow the query", busy, retryAfter),
		}
	case errors.Is(err, errFull):
		return &problem{
			status: op.unavailable, retryAfter: retryAfter, cause: err,
			detail: fmt.Sprintf("%v, and nothing was charged: call again in %d seconds, or ask for fewer records at a time", errFull, retryAfter),
		}
	case errors.As(err, &unauthorized):
		return &problem{status: http.StatusUnauthorized, detail: unauthorized.Reason}
	case errors.Is(err, account.ErrLoading):
		return &problem{
			status: op.unavailable, retryAfter: retryAfter, cause: err,
			detail: fmt.Sprintf("this service is starting, and API keys cannot be checked yet: call again in %d seconds", retryAfter),
		}
	case errors.As(err, &refused):
		return &problem{
			status: http.StatusTooManyRequests, detail: refused.Detail,
			retryAfter: max(1, int((refused.RetryAfter+time.Second-1)/time.Second)),
		}
	case errors.Is(err, metering.ErrRunning):
		return &problem{
			status: http.StatusConflict, retryAfter: 1,
			detail: "a call with this Idempotency-Key is still running: wait for its answer, or call again in 1 second",
		}
	case errors.Is(err, metering.ErrOtherBody):
		return &problem{
			status: http.StatusUnprocessableEntity,
			detail: "this Idempotency-Key was used with another body: send the same body, or another key",
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
			detail: fmt.Sprintf("the balances of this service cannot be read at present, and nothing was charged: call again in %d seconds", retryAfter),
		}
	case errors.Is(err, discovery.ErrUnavailable):
		return &problem{
			status: op.unavailable, retryAfter: retryAfter, cause: err,
			detail: fmt.Sprintf("discovery cannot be asked at present: call again in %d seconds", retryAfter),
		}
	case errors.Is(err, contexts.ErrUnavailable):
		return &problem{
			status: op.unavailable, retryAfter: retryAfter, cause: err,
			detail: fmt.Sprintf("context calls cannot be accepted at present, and nothing was charged: call again in %d seconds", retryAfter),
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
		detail: "something unexpected went wrong here: call again, and if it stays so, give the operator of this service the X-Request-Id of this answer",
	}
}

// write sends the problem.
func (p *problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(api.Error{Detail: p.detail}, json.Deterministic(true))
	if err != nil { // detail is not UTF-8
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
	// The caller may be gone; there is nobody else to tell.
	_, _ = w.Write(body)
}
