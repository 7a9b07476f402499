package project

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of the projection of records. platform/bus exports lag, batch sizes, handling time and retries.
type metrics struct {
	records    *prometheus.CounterVec   // kind
	tombstones *prometheus.CounterVec   // kind
	erased     *prometheus.CounterVec   // kind
	halved     prometheus.Counter       //
	decode     prometheus.Histogram     //
	insert     *prometheus.HistogramVec // outcome
	bytes      *prometheus.CounterVec   // kind
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	const ns, sub = "muster", "projector"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help},
			labels)
	}
	seconds := prometheus.ExponentialBuckets(0.001, 2.5, 12)
	m := &metrics{
		records: counter("records_total", "Records projected, including embedded records that were split off; "+
			"retries count again.", "kind"),
		tombstones: counter("tombstones_total", "Messages without a value, which are skipped.", "kind"),
		erased:     counter("records_suppressed_total", "Records of erased people, which are not stored.", "kind"),
		bytes:      counter("bytes_total", "Bytes of message values read.", "kind"),
		halved: prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Subsystem: sub,
			Name: "batch_bisections_total", Help: "Batches bisected to find a record whose data ClickHouse rejects."}),
		decode: prometheus.NewHistogram(
			prometheus.HistogramOpts{Namespace: ns, Subsystem: sub, Name: "render_duration_seconds",
				Help: "Time to decode and render a batch.", Buckets: seconds},
		),
		insert: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: ns, Subsystem: sub,
			Name: "insert_duration_seconds", Help: "Time to insert a batch into all of its tables.", Buckets: seconds},
			[]string{"outcome"}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.records, m.tombstones, m.erased, m.bytes, m.halved, m.decode, m.insert} {
		var already prometheus.AlreadyRegisteredError
		if err := reg.Register(c); errors.As(err, &already) {
			return nil, fmt.Errorf("register metrics: registry already used by another projector: %w", err)
		} else if err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}
