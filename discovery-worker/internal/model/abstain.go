package model

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muster/platform/breaker"
)

// Reason is why there is no answer.
type Reason string

// Reasons to abstain.
const (
	Unavailable Reason = "unavailable" // the server is unreachable, overloaded or failing, or rejects the call
	Open        Reason = "open"        // the circuit breaker is open
	Timeout     Reason = "timeout"
	Busy        Reason = "busy"      // no call slot became free
	Refused     Reason = "refused"   // the model refused to answer
	TooLarge    Reason = "too_large" // the answer is too large
	Invalid     Reason = "invalid"   // the answer is invalid, also after a repair
)

// AbstainError reports that there is no usable answer. The caller can continue without one. Every
// reason is transient.
type AbstainError struct {
	Reason Reason
	Err    error
}

// Error says why.
func (e *AbstainError) Error() string { return fmt.Sprintf("language model: %s: %v", e.Reason, e.Err) }

// Unwrap returns the cause.
func (e *AbstainError) Unwrap() error { return e.Err }

var (
	errTimeout    = errors.New("request timed out")
	errBusy       = errors.New("timed out waiting for a free request slot")
	errConnection = errors.New("request failed")
	errRedirect   = errors.New("unexpected redirect")
	// errUnusableAnswer does not count as a failure of the server.
	errUnusableAnswer = errors.New("unusable answer")
)

// answerError is an unusable answer.
type answerError struct {
	reason Reason
	text   string
}

func (e answerError) Error() string { return e.text }

// Is reports whether target is errUnusableAnswer.
func (answerError) Is(target error) bool { return target == errUnusableAnswer }

// statusError is an unsuccessful HTTP status.
type statusError struct {
	code        int
	busy        bool
	after       time.Duration
	unsupported string // the parameter that the server does not support, or ""
}

func (e *statusError) Error() string {
	return fmt.Sprintf("unexpected status %d %s", e.code, http.StatusText(e.code))
}

// Is reports an unsupported parameter as errUnusableAnswer: the next call omits it.
func (e *statusError) Is(target error) bool {
	return target == errUnusableAnswer && e.unsupported != ""
}

func abstain(err error) *AbstainError {
	var answer answerError
	switch {
	case errors.Is(err, breaker.ErrOpen):
		return &AbstainError{Reason: Open, Err: err}
	case errors.Is(err, errTimeout):
		return &AbstainError{Reason: Timeout, Err: err}
	case errors.As(err, &answer):
		return &AbstainError{Reason: answer.reason, Err: err}
	}
	return &AbstainError{Reason: Unavailable, Err: err}
}

type metrics struct {
	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	tokens  *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_language_model_requests_total",
			Help: "Requests to the language model by task and outcome (answered, unavailable, open, timeout, busy, " +
				"refused, too_large, invalid, cancelled).",
		}, []string{"task", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "muster_language_model_request_duration_seconds",
			Help:    "Time of a request to the language model, including its repair, in seconds.",
			Buckets: prometheus.ExponentialBuckets(0.05, 2, 12),
		}, []string{"task"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_language_model_tokens_total",
			Help: "Tokens reported by the language model, by direction (prompt, completion).",
		}, []string{"direction"}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.calls, m.seconds, m.tokens} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("language model: register metrics: %w", err)
		}
	}
	return m, nil
}
