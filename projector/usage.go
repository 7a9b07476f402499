package projector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// UsageGroup is the consumer group of the ledger's projection.
const UsageGroup = "muster.projector.usage"

// usageKind stands where a rejected record's kind does.
const usageKind record.Kind = "usage"

// usageAge is how old a batch of the ledger may get: nobody waits for its rows,
// since callers ask the balances.
const usageAge = 500 * time.Millisecond

func (p *Projector) newUsageConsumer() (*bus.BatchConsumer, error) {
	return bus.NewBatchConsumer(bus.BatchConsumerConfig{
		Config: p.cfg.Kafka, Group: p.cfg.UsageGroup, Topics: []string{event.TopicUsage},
		MaxMessages: p.cfg.MaxMessages, MaxBytes: p.cfg.MaxBytes, MaxAge: usageAge,
		Handle: p.handleUsage, RetryMin: p.cfg.RetryMin, RetryMax: p.cfg.RetryMax,
		Timing: p.cfg.Timing, Logger: p.deps.Logger, Registerer: p.deps.Registerer,
	})
}

// handleUsage makes one batch of the ledger durable.
func (p *Projector) handleUsage(ctx context.Context, b bus.Batch) (err error) {
	ctx, span := p.tracer.Start(ctx, "project usage", trace.WithSpanKind(trace.SpanKindConsumer))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}()
	var rows readmodel.UsageBatch
	var rejected []event.Rejected
	for i := range b.Messages {
		m := &b.Messages[i]
		var u event.Usage
		err := json.Unmarshal(m.Value, &u)
		if err == nil {
			err = u.Validate()
		}
		if err != nil {
			rejected = append(rejected, event.NewRejected(usageKind, sourceOf(m), m.Value, err, p.deps.Now()))
			continue
		}
		rows.Add(&u, readmodel.Position{Topic: m.Topic, Partition: int32(m.Partition), Offset: m.Offset}) //nolint:gosec // Kafka's partitions are int32.
	}
	if err := readmodel.InsertUsage(ctx, p.deps.Conn, b.Token(), &rows); err != nil {
		return err
	}
	return p.reject(ctx, rejected)
}

// runAll runs the projections of records, of the ledger, of webhooks and of
// discovery's results; the end of one ends the others.
func (p *Projector) runAll(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	names := []string{"records", "usage", "webhooks", "discovery"}
	consumers := []*bus.BatchConsumer{p.consumer, p.usage, p.webhooks, p.discovery}
	ended := make([]error, len(consumers))
	var running sync.WaitGroup
	for i, c := range consumers {
		if c == nil { // a replay has none of events
			continue
		}
		running.Go(func() {
			defer stop()
			if err := c.Run(ctx); err != nil {
				ended[i] = fmt.Errorf("projection of %s: %w", names[i], err)
			}
		})
	}
	running.Wait()
	return errors.Join(ended...)
}
