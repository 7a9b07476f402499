package page

import (
	"context"
	"fmt"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"muster/deploy/internal/status"
	"muster/ingest"
	"muster/platform/bus"
	"muster/projector"
)

// shownRuns is the number of newest ingest runs that are shown.
const shownRuns = 10

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
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			d.take(family.GetName(), labels, m)
		}
	}
	return nil
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
	topics, err := status.Topics(ctx, p.src.Kafka, consumers(), p.src.Now())
	if err == nil {
		d.Topics = topics
	}
	return err
}

// letters counts the retained rejected records and dead letters.
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
	for _, e := range ends {
		kept[e.Topic] += e.End - e.First
	}
	d.Letters = nil
	for i, topics := range [][]string{rejected, dead} {
		for _, topic := range topics {
			d.Letters = append(d.Letters, Letters{Topic: topic, Dead: i == 1, Kept: kept[topic]})
		}
	}
	return nil
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
