package searchsink

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Results of writing a document.
const (
	resultIndexed    = "indexed"
	resultDeleted    = "deleted"
	resultSuperseded = "superseded"
	resultRefused    = "refused"
)

// metrics are those of the sink. platform/bus exports lag, batch sizes, handling time and retries.
type metrics struct {
	documents *prometheus.CounterVec   // result
	bulk      *prometheus.HistogramVec // outcome
	retries   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	const ns, sub = "muster", "projector"
	m := &metrics{
		documents: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "search_documents_total",
			Help: "Documents written to OpenSearch, by result: indexed, deleted, superseded by a newer one, or refused.",
		}, []string{"result"}),
		bulk: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: ns, Subsystem: sub, Name: "search_bulk_duration_seconds",
			Help: "Duration of bulk requests to OpenSearch.", Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12),
		}, []string{"outcome"}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "search_documents_retried_total",
			Help: "Documents that were sent again because OpenSearch was overloaded.",
		}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.documents, m.bulk, m.retries} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) observe(err error, took time.Duration) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	m.bulk.WithLabelValues(outcome).Observe(took.Seconds())
}
