package projector

import (
	"context"

	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// DiscoveryGroup is the consumer group of the projection of discovery's results.
const DiscoveryGroup = "muster.projector.discovery"

// discoveryKind stands where a rejected record's kind does.
const discoveryKind record.Kind = "discovery"

func (p *Projector) newDiscoveryConsumer() (*bus.BatchConsumer, error) {
	return bus.NewBatchConsumer(bus.BatchConsumerConfig{
		Config: p.cfg.Kafka, Group: DiscoveryGroup, Topics: []string{event.TopicDiscovery},
		MaxMessages: p.cfg.MaxMessages, MaxBytes: p.cfg.MaxBytes, MaxAge: p.cfg.MaxAge,
		Handle: p.handleDiscoveries, RetryMin: p.cfg.RetryMin, RetryMax: p.cfg.RetryMax,
		Timing: p.cfg.Timing, Logger: p.deps.Logger, Registerer: p.deps.Registerer,
	})
}

// handleDiscoveries makes one batch of results durable.
func (p *Projector) handleDiscoveries(ctx context.Context, b bus.Batch) (err error) {
	ctx, span := p.tracer.Start(ctx, "project discoveries", trace.WithSpanKind(trace.SpanKindConsumer))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, "failed")
		}
		span.End()
	}()
	var rows readmodel.DiscoveryBatch
	var rejected []event.Rejected
	for i := range b.Messages {
		m := &b.Messages[i]
		var d event.Discovery
		err := json.Unmarshal(m.Value, &d)
		if err == nil {
			err = d.Validate()
		}
		// A result that lacks a stage is the answer to one call and not worth keeping.
		if err == nil && d.Complete() {
			err = rows.Add(&d, readmodel.Position{Topic: m.Topic, Partition: int32(m.Partition), Offset: m.Offset}) //nolint:gosec // Kafka's partitions are int32.
		}
		if err != nil {
			rejected = append(rejected, event.NewRejected(discoveryKind, sourceOf(m), m.Value, err, p.deps.Now()))
		}
	}
	if err := readmodel.InsertDiscoveries(ctx, p.deps.Conn, b.Token(), &rows); err != nil {
		return err
	}
	return p.reject(ctx, rejected)
}
