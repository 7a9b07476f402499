package projector

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// WebhookGroup is the consumer group of the projection of webhook attempts.
const WebhookGroup = "muster.projector.webhook"

// webhookKind stands where a rejected record's kind does.
const webhookKind record.Kind = "webhook"

// webhookAge is how old a batch of attempts may get: only operators look at them.
const webhookAge = 500 * time.Millisecond

func (p *Projector) newWebhookConsumer() (*bus.BatchConsumer, error) {
	return bus.NewBatchConsumer(bus.BatchConsumerConfig{
		Config: p.cfg.Kafka, Group: WebhookGroup, Topics: []string{event.TopicWebhook},
		MaxMessages: p.cfg.MaxMessages, MaxBytes: p.cfg.MaxBytes, MaxAge: webhookAge,
		Handle: p.handleWebhooks, RetryMin: p.cfg.RetryMin, RetryMax: p.cfg.RetryMax,
		Timing: p.cfg.Timing, Logger: p.deps.Logger, Registerer: p.deps.Registerer,
	})
}

// handleWebhooks makes one batch of attempts durable.
func (p *Projector) handleWebhooks(ctx context.Context, b bus.Batch) (err error) {
	ctx, span := p.tracer.Start(ctx, "project webhooks", trace.WithSpanKind(trace.SpanKindConsumer))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}()
	var rows readmodel.WebhookBatch
	var rejected []event.Rejected
	for i := range b.Messages {
		m := &b.Messages[i]
		var a event.WebhookAttempt
		err := json.Unmarshal(m.Value, &a)
		if err == nil {
			err = a.Validate()
		}
		if err != nil {
			rejected = append(rejected, event.NewRejected(webhookKind, sourceOf(m), m.Value, err, p.deps.Now()))
			continue
		}
		rows.Add(&a, readmodel.Position{Topic: m.Topic, Partition: int32(m.Partition), Offset: m.Offset}) //nolint:gosec // Kafka's partitions are int32.
	}
	if err := readmodel.InsertWebhooks(ctx, p.deps.Conn, b.Token(), &rows); err != nil {
		return err
	}
	return p.reject(ctx, rejected)
}
