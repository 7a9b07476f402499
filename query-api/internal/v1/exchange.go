package v1

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"muster/query-api/internal/account"
	"muster/query-api/internal/metering"
	"muster/query-api/internal/redisbreaker"
	"muster/query-api/internal/search"
)

// exchange is the state of one request and its response, for logs, metrics and traces.
type exchange struct {
	id        string
	operation *operation // nil: unknown endpoint
	principal account.Principal
	call      *metering.Call // nil: not authenticated
	cause     error          // cause of a 5xx
	answer    share
	recorder  *recorder
	sending   *chargedWriter // nil: the call is not metered
	upload    *upload        // nil: none
	// release gives up the processor on which a large body is parsed; nil: none.
	release func()
	// missReason is the value of X-Miss-Reason; empty if the response has a record.
	missReason string
	// asOf is the time that X-Data-As-Of states; zero if it is unknown.
	asOf time.Time
	// starts are the body offsets of individually charged items; nil if the response has one price.
	starts []int
}

// take reserves n bytes of response memory for the call.
func (x *exchange) take(n int) error { return x.answer.take(x.principal.Organization.ID, n) }

// parsed states that the body was parsed.
func (x *exchange) parsed() {
	if x.release != nil {
		x.release()
		x.release = nil
	}
}

type exchangeKey struct{}

// Values of X-Miss-Reason: no record matches, or only some whose confidence is too low.
const (
	reasonNotFound        = "not_found"
	reasonBelowConfidence = "below_confidence"
)

// exchangeOf returns the exchange of the request.
func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// fail responds with a problem.
func (x *exchange) fail(w http.ResponseWriter, p *problem) {
	x.cause = p.cause
	p.write(w)
}

// recorder records status, size and write errors of a response.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
	failed error // the last write error
}

// WriteHeader records the status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	if err != nil {
		r.failed = err
	}
	return n, err
}

// Flush sends buffered data and records a failure. It makes the compressor above this writer flush through it.
func (r *recorder) Flush() {
	err := http.NewResponseController(r.ResponseWriter).Flush()
	// Writers in tests may not support flushing.
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		r.failed = err
	}
}

// Unwrap supports http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// observe assigns the request ID, turns panics into responses, and records logs, metrics and traces.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		rec := &recorder{ResponseWriter: w}
		x := &exchange{id: newRequestID(), answer: share{room: s.room}, recorder: rec}
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := s.tracer.Start(context.WithValue(ctx, exchangeKey{}, x), r.Method,
			trace.WithSpanKind(trace.SpanKindServer))
		w.Header().Set("X-Request-Id", x.id)
		s.metrics.inFlight.Inc()
		defer func() {
			s.metrics.inFlight.Dec()
			defer x.answer.free()
			p := recover()
			if p == http.ErrAbortHandler { //nolint:errorlint // a panic's value, compared as net/http does
				span.End()
				panic(p)
			}
			if p != nil {
				x.cause = newPanicError(p)
				if rec.status == 0 {
					unexpected(x.cause).write(rec)
				}
			}
			s.record(ctx, r, x, rec, span, time.Since(start))
			if err := x.end(ctx); err != nil {
				s.logger.LogAttrs(ctx, slog.LevelError, "http: call not metered",
					slog.String("request_id", x.id), slog.Any("error", err))
			}
			if p != nil && rec.bytes > 0 && rec.status < http.StatusInternalServerError {
				// Abort the connection: a truncated response must not look complete.
				panic(http.ErrAbortHandler)
			}
		}()
		next.ServeHTTP(rec, r.WithContext(ctx))
	})
}

// panicError is a panic with its stack. Only runtime errors are repeated: other panic values may contain personal data.
type panicError struct {
	what  string
	stack []byte
}

func (e *panicError) Error() string { return "panic: " + e.what }

func newPanicError(p any) error {
	e := &panicError{what: fmt.Sprintf("%T", p), stack: debug.Stack()}
	if err, ok := p.(runtime.Error); ok {
		e.what = err.Error()
	}
	return e
}

func newRequestID() string {
	id, err := uuid.NewV7()
	if err != nil { // no randomness: does not happen on a running system
		id = uuid.Nil
	}
	return id.String()
}

func (s *Server) record(
	ctx context.Context, r *http.Request, x *exchange, rec *recorder, span trace.Span, took time.Duration,
) {
	route, method := "unmatched", "other"
	if op := x.operation; op != nil {
		route, method = op.path, op.method
	}
	status := strconv.Itoa(rec.status)
	s.metrics.requests.WithLabelValues(method, route, status).Inc()
	s.metrics.seconds.WithLabelValues(method, route, status).Observe(took.Seconds())
	if span.IsRecording() {
		span.SetName(method + " " + route)
		span.SetAttributes(attribute.String("http.request.method", method), attribute.String("http.route", route),
			attribute.Int("http.response.status_code", rec.status), attribute.String("muster.request_id", x.id))
		if isServerFault(rec.status) {
			span.SetStatus(codes.Error, http.StatusText(rec.status))
		}
	}
	span.End()

	level := slog.LevelDebug
	gone := r.Context().Err() != nil && errors.Is(x.cause, context.Canceled)
	// The Redis breaker logs an outage once; do not log it for each call.
	if isServerFault(rec.status) && !gone && !errors.Is(x.cause, redisbreaker.ErrUnavailable) {
		level = slog.LevelError
		// Overload needs no fix except less load.
		if errors.As(x.cause, new(*search.OverloadedError)) || errors.Is(x.cause, errFull) {
			level = slog.LevelWarn
		}
	}
	if !s.logger.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", x.id), slog.String("method", method), slog.String("route", route),
		slog.Int("status", rec.status), slog.Int64("bytes", rec.bytes), slog.Duration("took", took),
	}
	if x.principal.Key.ID != "" {
		attrs = append(attrs, slog.String("organization", x.principal.Organization.ID),
			slog.String("key", x.principal.Key.ID))
	}
	if x.cause != nil {
		attrs = append(attrs, slog.Any("error", x.cause))
		var p *panicError
		if errors.As(x.cause, &p) {
			attrs = append(attrs, slog.String("stack", string(p.stack)))
		}
	}
	s.logger.LogAttrs(ctx, level, "request", attrs...)
}

type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	labels := []string{"method", "route", "status"}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_http_requests_total", Help: "API requests by method, route and status.",
		}, labels),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "muster_http_request_duration_seconds", Help: "Time from the request headers to the end of the response.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
		}, labels),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "muster_http_requests_in_flight", Help: "API requests in flight.",
		}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.seconds, m.inFlight} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register request metrics: %w", err)
		}
	}
	return m, nil
}

// isServerFault reports whether a status indicates a fault of the server. A 504 does not: a context call took longer
// than its client wanted to wait.
func isServerFault(status int) bool {
	return status >= http.StatusInternalServerError && status != http.StatusGatewayTimeout
}
