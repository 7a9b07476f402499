package page

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"muster/deploy/internal/status"
	"muster/ingest"
	"muster/platform/bus"
	"muster/projector"
	"muster/projector/erasure"
	"muster/schemas/event"
)

const (
	// shownRuns is the number of newest ingest runs that are shown.
	shownRuns = 10
	// maxCounted is the number of retained rejected records and dead letters that are read to count unresolved ones.
	maxCounted = 50_000
)

// metrics reads the metrics of this process.
func (p *Page) metrics(_ context.Context, d *Document) error {
	families, err := p.src.Gatherer.Gather()
	if err != nil {
		return fmt.Errorf("read the metrics: %w", err)
	}
	d.Counters, d.Breakers = Counters{}, nil
	published := map[string]bool{}
	for _, t := range d.Topics {
		if t.Group == projector.Group && !published[t.Topic] {
			published[t.Topic] = true
			d.Counters.Published += float64(t.End)
		}
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			d.take(family.GetName(), labelsOf(m), m)
		}
	}
	return nil
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := make(map[string]string, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

func (d *Document) take(name string, labels map[string]string, m *dto.Metric) {
	switch name {
	case "muster_consumer_batch_records":
		if labels["group"] == projector.Group {
			d.Counters.Projected += m.GetHistogram().GetSampleSum()
		}
	case "muster_http_requests_total":
		d.Counters.Requests += m.GetCounter().GetValue()
		if strings.HasPrefix(labels["status"], "5") {
			d.Counters.Errors += m.GetCounter().GetValue()
		}
	case "muster_consumer_records_lost_total":
		for i := range d.Topics {
			if t := &d.Topics[i]; t.Group == labels["group"] && t.Topic == labels["topic"] {
				t.Lost += int64(m.GetCounter().GetValue())
			}
		}
	case "muster_breaker_state":
		states := []string{"closed", "half-open", "open"}
		if state := int(m.GetGauge().GetValue()); state >= 0 && state < len(states) {
			d.Breakers = append(d.Breakers, Breaker{Set: labels["set"], Key: labels["key"], State: states[state]})
		}
	}
}

// lag reads the lag of the consumers.
func (p *Page) lag(ctx context.Context, d *Document) (err error) {
	topics, err := status.Topics(ctx, p.src.Kafka, consumers(p.src.Search), p.src.Now())
	if err == nil {
		d.Topics = topics
	}
	return err
}

// scanned is the result of reading whole topics. It is read again when their ends change, at most every 15 s.
type scanned[T any] struct {
	at    time.Time
	ends  []bus.PartitionOffsets
	value T
}

// update reads the topics if they changed.
func (s *scanned[T]) update(now time.Time, ends []bus.PartitionOffsets, read func() (T, error)) error {
	if !s.at.IsZero() && (now.Sub(s.at) < heavy || slices.Equal(s.ends, ends)) {
		return nil
	}
	value, err := read()
	if err == nil {
		s.at, s.ends, s.value = now, ends, value
	}
	return err
}

// letters counts the retained rejected records and dead letters, and, unless they are very many, the unresolved ones.
func (p *Page) letters(ctx context.Context, d *Document) error {
	rejected, dead, err := ingest.DeadLetterTopics(ctx, p.src.Kafka)
	if err != nil {
		return err
	}
	ends, err := bus.EndOffsets(ctx, p.src.Kafka, append(append([]string{}, rejected...), dead...))
	if err != nil {
		return err
	}
	kept := map[string]int64{}
	var all int64
	for _, e := range ends {
		kept[e.Topic] += e.End - e.First
		all += e.End - e.First
	}
	count := func() (map[string]int64, error) {
		counts := make(map[string]int64)
		for _, isDead := range []bool{false, true} {
			err := ingest.EachDeadLetter(ctx, ingest.Config{Bus: p.src.Kafka}, isDead, ingest.DeadLetterFilter{},
				func(l ingest.DeadLetter) error { counts[l.Message.Topic]++; return nil })
			if err != nil {
				return nil, err
			}
		}
		return counts, nil
	}
	countable := all <= maxCounted
	if countable {
		if err := p.letterCounts.update(d.At, ends, count); err != nil {
			return err
		}
	}
	d.Letters = nil
	for i, topics := range [][]string{rejected, dead} {
		for _, topic := range topics {
			l := Letters{Topic: topic, Dead: i == 1, Kept: kept[topic]}
			if n := p.letterCounts.value[topic]; countable {
				l.Unresolved = &n
			}
			d.Letters = append(d.Letters, l)
		}
	}
	return nil
}

// erasures counts the erasure requests.
func (p *Page) erasures(ctx context.Context, d *Document) error {
	ends, err := bus.EndOffsets(ctx, p.src.Kafka, []string{event.TopicErasureRequest})
	if err != nil {
		return err
	}
	err = p.requests.update(d.At, ends, func() ([]erasure.Status, error) {
		all, err := erasure.Requests(ctx, p.src.Kafka)
		for i := range all { // only what is counted stays in memory
			all[i].Erasure, all[i].Found = event.Erasure{At: all[i].At}, nil
		}
		return all, err
	})
	if err != nil {
		return err
	}
	d.Erasures = countErasures(p.requests.value, d.At.Add(-p.src.EraseWithin))
	return nil
}

// countErasures counts requests. Those that were made before due and are not deleted are overdue.
func countErasures(requests []erasure.Status, due time.Time) (e Erasures) {
	for _, r := range requests {
		switch r.State {
		case erasure.Requested:
			e.Requested++
		case erasure.Suppressed:
			e.InForce++
		case erasure.Deleted:
			e.Deleted++
			continue
		case erasure.Withdrawn:
			e.Withdrawn++
			continue
		}
		if r.At.Before(due) {
			e.Overdue++
		}
	}
	return e
}

// runs reads the newest ingest runs on this machine.
func (p *Page) runs(_ context.Context, d *Document) error {
	if p.src.StateDir == "" {
		return nil
	}
	runs, err := ingest.Runs(p.src.StateDir, shownRuns)
	if err != nil {
		return fmt.Errorf("read the ingest runs: %w", err)
	}
	d.Runs = nil
	for _, run := range runs {
		one := Run{
			ID: run.ID, Kind: string(run.Kind), State: string(run.State), Began: run.Began, Files: len(run.Files),
			Rejected: run.Rejected(), Error: run.Error,
		}
		var done, all int64
		known := true
		for _, f := range run.Files {
			one.Lines += f.Line
			if f.Complete {
				done += f.Size
			} else {
				// The offset in an uncompressed file; in a compressed one it is more than was read.
				done += min(f.Offset, f.Size)
			}
			all += f.Size
			known = known && f.Absolute != ""
		}
		if known && all > 0 {
			percent := 100 * float64(done) / float64(all)
			one.Percent = &percent
		}
		d.Runs = append(d.Runs, one)
	}
	return nil
}
