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

// eventIdle is how long a batch of events waits for more when none come. Usage events
// gather for a second before they are published: where none has come for longer, nobody
// is calling, and whoever looks for rows need not wait for the batch to get old.
const eventIdle = 1500 * time.Millisecond

// newEventConsumer returns the consumer of one topic of events, whose batches get
// no older than age.
func (p *Projector) newEventConsumer(group, topic string, age time.Duration, handle func(context.Context, bus.Batch) error) (*bus.BatchConsumer, error) {
	return bus.NewBatchConsumer(bus.BatchConsumerConfig{
		Config: p.cfg.Kafka, Group: group, Topics: []string{topic},
		MaxMessages: p.cfg.MaxMessages, MaxBytes: p.cfg.MaxBytes, MaxAge: age, MaxIdle: eventIdle,
		Handle: handle, RetryMin: p.cfg.RetryMin, RetryMax: p.cfg.RetryMax,
		Timing: p.cfg.Timing, Logger: p.deps.Logger, Registerer: p.deps.Registerer,
	})
}

// validated is an event that can say what is wrong with it.
type validated[E any] interface {
	*E
	Validate() error
}

// handleEvents makes batches of events E durable: add collects their rows in an R,
// insert writes them. What is no such event, or cannot be added, is rejected under
// kind, which stands where a rejected record's kind does.
func handleEvents[E, R any, P validated[E]](
	p *Projector, kind record.Kind,
	add func(*R, P, readmodel.Position) error,
	insert func(ctx context.Context, conn driver.Conn, token string, rows *R) error,
) func(context.Context, bus.Batch) error {
	return func(ctx context.Context, b bus.Batch) (err error) {
		ctx, span := p.tracer.Start(ctx, "project "+string(kind), trace.WithSpanKind(trace.SpanKindConsumer))
		defer func() {
			if err != nil {
				span.SetStatus(codes.Error, "failed") // the error may hold what the event says
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
