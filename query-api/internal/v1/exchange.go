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
	"muster/query-api/internal/redisguard"
	"muster/query-api/internal/search"
)

// exchange is what is known of one request and its answer, for log, metrics and
// trace.
type exchange struct {
	id        string
	operation *operation // nil: no such endpoint
	principal account.Principal
	call      *metering.Call // nil: not authenticated
	cause     error          // of a 5xx
	answer    share
	recorder  *recorder
	sending   *chargedWriter // nil: the call is not charged
	// starts are the offsets in the body at which what is charged one by one begins; nil: the answer has one price.
	starts []int
}

// take adds bytes to the memory of the call's answer.
func (x *exchange) take(n int) error { return x.answer.take(x.principal.Organization.ID, n) }

type exchangeKey struct{}

// exchangeOf returns the request's exchange.
func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// fail answers a problem.
func (x *exchange) fail(w http.ResponseWriter, p *problem) {
	x.cause = p.cause
	p.write(w)
}

// recorder notes what is written.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
	failed error // of a write
}

// WriteHeader notes the status.
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

// Flush sends what is buffered, and notes whether that failed. It makes the compressing writer before this one flush
// through it.
func (r *recorder) Flush() {
	err := http.NewResponseController(r.ResponseWriter).Flush()
	if err != nil && !errors.Is(err, http.ErrNotSupported) { // a test's writer, which keeps everything
		r.failed = err
	}
}

// Unwrap serves http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// observe names each request, sees to it that a panic is answered, and records
// what came of it.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		rec := &recorder{ResponseWriter: w}
		x := &exchange{id: newRequestID(), answer: share{room: s.room}, recorder: rec}
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := s.tracer.Start(context.WithValue(ctx, exchangeKey{}, x), r.Method, trace.WithSpanKind(trace.SpanKindServer))
		w.Header().Set("X-Request-Id", x.id)
		s.metrics.inFlight.Inc()
		defer func() {
			s.metrics.inFlight.Dec()
			defer x.answer.leave()
			p := recover()
			if p == http.ErrAbortHandler { //nolint:errorlint // a panic's value, compared as net/http does
				span.End()
				panic(p)
			}
			if p != nil {
				x.cause = panicked(p)
				if rec.status == 0 {
					unexpected(x.cause).write(rec)
				}
			}
			s.record(ctx, r, x, rec, span, time.Since(start))
			if err := x.end(ctx); err != nil {
				s.logger.LogAttrs(ctx, slog.LevelError, "a call was not counted as it ended", slog.String("request_id", x.id), slog.Any("error", err))
			}
			if p != nil && rec.bytes > 0 && rec.status < http.StatusInternalServerError {
				// A half-written answer must not look like a whole one.
				panic(http.ErrAbortHandler)
			}
		}()
		next.ServeHTTP(rec, r.WithContext(ctx))
	})
}

// panicError carries a stack. The panic's own value may hold personal data, so
// only the runtime's errors are repeated.
type panicError struct {
	what  string
	stack []byte
}

func (e *panicError) Error() string { return "panic: " + e.what }

func panicked(p any) error {
	e := &panicError{what: fmt.Sprintf("%T", p), stack: debug.Stack()}
	if err, ok := p.(runtime.Error); ok {
		e.what = err.Error()
	}
	return e
}

func newRequestID() string {
	id, err := uuid.NewV7()
	if err != nil { // no randomness: never on a running system
		id = uuid.Nil
	}
	return id.String()
}

func (s *Server) record(ctx context.Context, r *http.Request, x *exchange, rec *recorder, span trace.Span, took time.Duration) {
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
		if broken(rec.status) {
			span.SetStatus(codes.Error, http.StatusText(rec.status))
		}
	}
	span.End()

	level := slog.LevelDebug
	gone := r.Context().Err() != nil && errors.Is(x.cause, context.Canceled)
	// The log has an outage of Redis already, and need not tell of it call by call.
	if broken(rec.status) && !gone && !errors.Is(x.cause, redisguard.ErrAway) {
		level = slog.LevelError
		if errors.As(x.cause, new(*search.Busy)) || errors.Is(x.cause, errFull) { // there is nothing to mend but the load
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
		attrs = append(attrs, slog.String("organization", x.principal.Organization.ID), slog.String("key", x.principal.Key.ID))
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
			Name: "muster_http_requests_total", Help: "Answered API requests.",
		}, labels),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "muster_http_request_seconds", Help: "Time from a request's headers to the end of its answer.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
		}, labels),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "muster_http_requests_in_flight", Help: "API requests being answered.",
		}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.seconds, m.inFlight} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register request metrics: %w", err)
		}
	}
	return m, nil
}

// broken reports whether an answer says that something is wrong here. A 504 does
// not: a context call took longer than its caller wanted to wait.
func broken(status int) bool {
	return status >= http.StatusInternalServerError && status != http.StatusGatewayTimeout
}
