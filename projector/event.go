package projector

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"muster/platform/bus"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// batchIdleTimeout is how long a batch of events waits for the next one. Publishers batch usage events for up
// to a second. A longer gap means that no calls are running, so waiting would only delay readers of the rows.
const batchIdleTimeout = 1500 * time.Millisecond

// newEventConsumer returns the consumer of one event topic. Batches are handled at age at the latest.
func (p *Projector) newEventConsumer(
	group, topic string, age time.Duration, handle func(context.Context, bus.Batch) error,
) (*bus.BatchConsumer, error) {
	return bus.NewBatchConsumer(bus.BatchConsumerConfig{
		Config: p.cfg.Kafka, Group: group, Topics: []string{topic},
		MaxMessages: p.cfg.MaxMessages, MaxBytes: p.cfg.MaxBytes, MaxAge: age, MaxIdle: batchIdleTimeout,
		Handle: handle, RetryMin: p.cfg.RetryMin, RetryMax: p.cfg.RetryMax,
		Timing: p.cfg.Timing, Logger: p.deps.Logger, Registerer: p.deps.Registerer,
	})
}

// validator is a pointer to an event that can validate itself.
type validator[E any] interface {
	*E
	Validate() error
}

// projectEvents returns a batch handler for events of type E: add collects their rows in an R and insert
// writes them. Events that are invalid or that add rejects are published as rejected under kind, in place of
// a record kind.
func projectEvents[E, R any, P validator[E]](
	p *Projector, kind record.Kind,
	add func(*R, P, readmodel.Position) error,
	insert func(ctx context.Context, conn driver.Conn, token string, rows *R) error,
) func(context.Context, bus.Batch) error {
	return func(ctx context.Context, b bus.Batch) (err error) {
		ctx, span := p.tracer.Start(ctx, "project "+string(kind), trace.WithSpanKind(trace.SpanKindConsumer))
		defer func() {
			if err != nil {
				span.SetStatus(codes.Error, "failed") // The error may quote personal data of the event.
			}
			span.End()
		}()
		var rows R
		var rejected []rejection
		for i := range b.Messages {
			m := &b.Messages[i]
			e := P(new(E))
			err := json.Unmarshal(m.Value, e)
			if err == nil {
				err = e.Validate()
			}
			if err == nil {
				err = add(&rows, e, readmodel.Position{Topic: m.Topic, Partition: int32(m.Partition), Offset: m.Offset}) //nolint:gosec // Kafka's partitions are int32.
			}
			if err != nil {
				rejected = append(rejected, rejection{m, kind, err})
			}
		}
		if err := insert(ctx, p.deps.Conn, b.Token(), &rows); err != nil {
			return err
		}
		return p.reject(ctx, rejected)
	}
}
