package search

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
)

// fieldStats are the statistics of a field at a point in time.
type fieldStats struct {
	planner.FieldStats
	at       time.Time
	age      time.Duration // how long they are valid
	snapshot uint64        // they are also valid while this is the newest snapshot of the index
}

// longCount is the maximum duration of counting that is not cached longer than StatsAge.
const longCount = 20 * time.Millisecond

// age returns how long counts are valid whose reading began at a time: those that take long are cached longer.
func (s *Searcher) age(began time.Time) time.Duration {
	took := s.deps.Now().Sub(began)
	return time.Duration(float64(s.cfg.StatsAge) * max(1, took.Seconds()/longCount.Seconds()))
}

// countFields counts the fields that scores need, except those counted recently or for the same snapshot.
func (s *Searcher) countFields(
	ctx context.Context, n algebra.Node, filters []algebra.Node, stats *planner.Stats, snapshot uint64,
) error {
	known := func(name string) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		f, ok := s.fields[name]
		if !ok || s.deps.Now().Sub(f.at) > f.age && f.snapshot != snapshot {
			return false
		}
		stats.Fields[name] = f.FieldStats
		return true
	}
	for _, c := range planner.FieldStatements(n, filters, stats, known) {
		began := s.deps.Now()
		var counts []int64
		scan := func(rows driver.Rows) error { return rows.Scan(&counts) }
		if err := s.query(ctx, stepFields, c.Statement, scan); err != nil {
			return err
		}
		if len(counts) != 2*len(c.Names) {
			return fmt.Errorf("search: %d counts of %d fields", len(counts), len(c.Names))
		}
		age := s.age(began)
		s.mu.Lock()
		for i, name := range c.Names {
			f := planner.FieldStats{Documents: counts[2*i], Terms: counts[2*i+1]}
			stats.Fields[name] = f
			s.fields[name] = fieldStats{FieldStats: f, at: began, age: age, snapshot: snapshot}
		}
		s.mu.Unlock()
	}
	return nil
}

// stepFields is the step that counts fields.
const stepFields = "fields"
