package webhook

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"muster/webhook-sender/internal/delivery"
)

type metrics struct {
	attempts         *prometheus.CounterVec
	delivered        prometheus.Counter // attempts with result "delivered"
	seconds          prometheus.Histogram
	deferred         prometheus.Counter
	deadLettered     *prometheus.CounterVec
	pending, running prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "muster_webhook_attempts_total",
			Help: "Calls to endpoints, by result."}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "muster_webhook_attempt_duration_seconds",
			Help:    "Duration of calls to endpoints, in seconds.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12)}),
		deferred: prometheus.NewCounter(prometheus.CounterOpts{Name: "muster_webhook_deliveries_deferred_total",
			Help: "Deliveries deferred by an open circuit breaker, without an attempt."}),
		deadLettered: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "muster_webhook_deliveries_dead_lettered_total",
				Help: "Dead-lettered deliveries, by code."},
			[]string{"code"},
		),
		pending: prometheus.NewGauge(prometheus.GaugeOpts{Name: "muster_webhook_deliveries_pending",
			Help: "Pending deliveries of the partitions owned by this process."}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "muster_webhook_attempts_in_flight",
			Help: "Calls to endpoints in flight."}),
	}
	m.delivered = m.attempts.WithLabelValues("delivered")
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.attempts, m.seconds, m.deferred, m.deadLettered, m.pending, m.running} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

func (m *metrics) observe(o delivery.Outcome) {
	switch {
	case o.BreakerOpen:
		m.deferred.Inc()
	case o.Abandoned:
	case o.OK:
		m.delivered.Inc()
		m.seconds.Observe(o.Duration.Seconds())
	default:
		m.attempts.WithLabelValues(o.Error).Inc()
		m.seconds.Observe(o.Duration.Seconds())
	}
}
