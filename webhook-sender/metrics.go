package webhook

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"muster/webhook-sender/internal/delivery"
)

// metrics are those of one sender:
//
//	muster_webhook_attempts_total{result}     calls: delivered, or the class of the failure
//	muster_webhook_attempt_seconds            how long calls took
//	muster_webhook_refused_total              sends that a breaker put off
//	muster_webhook_dead_total{code}           deliveries given up
//	muster_webhook_waiting                    deliveries of the partitions owned here that have not ended
//	muster_webhook_running                    calls under way
type metrics struct {
	attempts         *prometheus.CounterVec
	delivered        prometheus.Counter // of attempts
	seconds          prometheus.Histogram
	refused          prometheus.Counter
	dead             *prometheus.CounterVec
	waiting, running prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "muster_webhook_attempts_total",
			Help: "Calls to endpoints, by what came of them."}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "muster_webhook_attempt_seconds",
			Help: "Time that calls to endpoints took.", Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12)}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "muster_webhook_refused_total",
			Help: "Deliveries that an open circuit breaker put off without an attempt."}),
		dead: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "muster_webhook_dead_total",
			Help: "Deliveries that were given up."}, []string{"code"}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{Name: "muster_webhook_waiting",
			Help: "Deliveries of the partitions owned here that have not ended."}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "muster_webhook_running", Help: "Calls to endpoints under way."}),
	}
	m.delivered = m.attempts.WithLabelValues("delivered")
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.attempts, m.seconds, m.refused, m.dead, m.waiting, m.running} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

func (m *metrics) outcome(o delivery.Outcome) {
	switch {
	case o.Refused:
		m.refused.Inc()
	case o.Abandoned:
	case o.OK:
		m.delivered.Inc()
		m.seconds.Observe(o.Duration.Seconds())
	default:
		m.attempts.WithLabelValues(o.Error).Inc()
		m.seconds.Observe(o.Duration.Seconds())
	}
}
