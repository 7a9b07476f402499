package breaker

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
)

// metrics collects the state of a set on each scrape.
type metrics struct {
	set         *Set
	count       *prometheus.Desc
	state       *prometheus.Desc
	transitions *prometheus.CounterVec
	refused     prometheus.Counter
	evicted     *prometheus.CounterVec
}

func newMetrics(s *Set) *metrics {
	labels := prometheus.Labels{"set": s.cfg.Name}
	return &metrics{
		set: s,
		count: prometheus.NewDesc("muster_breakers", "Circuit breakers in each state.",
			[]string{"state"}, labels),
		state: prometheus.NewDesc("muster_breaker_state", "State of a circuit breaker: 0 closed, 1 half-open, 2 open.",
			[]string{"key"}, labels),
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "muster_breaker_transitions_total",
			Help: "Changes of state of circuit breakers.", ConstLabels: labels}, []string{"to"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "muster_breaker_rejections_total",
			Help: "Calls that a circuit breaker rejected.", ConstLabels: labels}),
		evicted: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "muster_breaker_evicted_total",
			Help: "Circuit breakers evicted to limit their number.", ConstLabels: labels}, []string{"state"}),
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.count
	ch <- m.state
	m.transitions.Describe(ch)
	m.refused.Describe(ch)
	m.evicted.Describe(ch)
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	counts := map[string]int{"closed": 0, "half-open": 0, "open": 0}
	values := map[string]float64{
		"closed":    float64(gobreaker.StateClosed),
		"half-open": float64(gobreaker.StateHalfOpen),
		"open":      float64(gobreaker.StateOpen),
	}
	for key, state := range m.set.States() {
		counts[state]++
		if m.set.cfg.KeyMetrics {
			ch <- prometheus.MustNewConstMetric(m.state, prometheus.GaugeValue, values[state], key)
		}
	}
	for state, n := range counts {
		ch <- prometheus.MustNewConstMetric(m.count, prometheus.GaugeValue, float64(n), state)
	}
	m.transitions.Collect(ch)
	m.refused.Collect(ch)
	m.evicted.Collect(ch)
}
