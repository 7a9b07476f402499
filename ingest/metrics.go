package ingest

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"muster/ingest/internal/convert"
)

// metrics are the counters over all runs of a process.
type metrics struct {
	records *prometheus.CounterVec
	blank   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		records: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_ingest_records_total",
			Help: "Records by kind and outcome: read, extracted (from others, or by a mapping), " +
				"published, seen (newer version, same content), unchanged, stale, " +
				"conflicting (same version, different content), rejected; " +
				"source objects: mapped, dropped; suppressed (of erased people).",
		}, []string{"kind", "outcome"}),
		blank: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muster_ingest_blank_lines_total",
			Help: "Blank lines skipped.",
		}),
	}
	if reg == nil {
		return m, nil
	}
	if err := errors.Join(registerOrReuse(reg, &m.records), registerOrReuse(reg, &m.blank)); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

// registerOrReuse registers a collector, or replaces it by the one that an earlier run of this
// process registered.
func registerOrReuse[C prometheus.Collector](reg prometheus.Registerer, c *C) error {
	err := reg.Register(*c)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if existing, ok := already.ExistingCollector.(C); ok {
			*c = existing
			return nil
		}
	}
	return err
}

func (m *metrics) add(t convert.CountsByKind) {
	for kind, c := range t {
		for outcome, n := range map[string]int64{
			"read": c.Read, "extracted": c.Split, "published": c.Published, "seen": c.Seen, "unchanged": c.Unchanged,
			"stale": c.Stale - c.Conflicting, "conflicting": c.Conflicting, "rejected": c.Rejected,
			"mapped": c.Mapped, "dropped": c.Dropped - c.Suppressed, "suppressed": c.Suppressed,
		} {
			if n > 0 {
				m.records.WithLabelValues(string(kind), outcome).Add(float64(n))
			}
		}
	}
}
