package rejected

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
)

// Message is a message that cannot be processed, with the kind under which it is counted. Its event takes over a
// kilobyte, so it is built at publication.
type Message struct {
	Message *kafka.Message
	Kind    record.Kind
	Err     error
}

// Source returns the position of a message.
func Source(m *kafka.Message) event.Source {
	return event.Source{Topic: m.Topic, Partition: m.Partition, Offset: m.Offset}
}

// Publisher publishes rejected messages. A nil Publisher publishes nothing, as in a replay: the live projector has
// published them.
type Publisher struct {
	writer  *bus.Writer
	logger  *slog.Logger
	now     func() time.Time
	counter *prometheus.CounterVec // kind, code
}

// NewPublisher returns a Publisher. Its metrics are registered with reg, unless that is nil.
func NewPublisher(
	writer *bus.Writer, logger *slog.Logger, now func() time.Time, reg prometheus.Registerer,
) (*Publisher, error) {
	p := &Publisher{writer: writer, logger: logger, now: now, counter: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "muster", Subsystem: "projector", Name: "rejected_total",
		Help: "Records sent to the topic of rejected records.",
	}, []string{"kind", "code"})}
	if reg != nil {
		if err := reg.Register(p.counter); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return p, nil
}

// rejectedBatchSize is the number of rejections published at a time. Each event takes kilobytes, even for a
// tiny record.
const rejectedBatchSize = 1000

// Publish publishes the rejected messages of a batch, and logs their number by reason.
func (p *Publisher) Publish(ctx context.Context, rejected []Message) error {
	if p == nil || len(rejected) == 0 {
		return nil
	}
	at := p.now()
	reasons := make(map[string]int)
	events := make([]event.Rejected, 0, min(len(rejected), rejectedBatchSize))
	for some := range slices.Chunk(rejected, rejectedBatchSize) {
		events = events[:0]
		for i := range some {
			e := event.NewRejected(some[i].Kind, Source(some[i].Message), some[i].Message.Value, some[i].Err, at)
			reasons[e.Code]++
			events = append(events, e)
		}
		if err := p.publish(ctx, events); err != nil {
			return err
		}
	}
	p.log(ctx, Source(rejected[0].Message), reasons)
	return nil
}

func (p *Publisher) publish(ctx context.Context, rejected []event.Rejected) error {
	messages := make([]kafka.Message, 0, len(rejected))
	for i := range rejected {
		r := &rejected[i]
		value, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("encode rejected record %s: %w", r.Source, err)
		}
		id := sha256.Sum256([]byte(r.Source.String() + "\x00" + r.Code + "\x00" + r.Path + "\x00" + r.Reason))
		messages = append(messages, kafka.Message{
			Topic: event.TopicRejected, Key: []byte(r.Source.Name()), Value: value,
			Headers: bus.SetTrace(ctx, bus.SetEvent(nil, bus.Event{
				ID: hex.EncodeToString(id[:16]), Type: event.TypeRejected, Source: "muster/projector",
				Subject: r.Source.String(), Time: r.At, ContentType: "application/json",
			})),
		})
	}
	err := bus.WriteAll(ctx, p.writer, messages)
	if refused, ok := errors.AsType[*bus.RejectedError](err); ok {
		// The brokers will never accept these, so the log keeps their positions.
		for _, m := range refused.Messages {
			p.logger.LogAttrs(ctx, slog.LevelError, "projector: brokers refused a rejected record",
				slog.String("source", rejected[m.Index].Source.String()),
				slog.String("code", rejected[m.Index].Code), slog.String("sha256", rejected[m.Index].SHA256),
				slog.Any("error", m.Err))
		}
		err = nil
	}
	if err != nil {
		return fmt.Errorf("publish rejected records: %w", err)
	}
	for i := range rejected {
		p.counter.WithLabelValues(string(rejected[i].Kind), rejected[i].Code).Inc()
	}
	return nil
}

// log logs the number of rejections of a batch by code. Details are in the events.
func (p *Publisher) log(ctx context.Context, first event.Source, reasons map[string]int) {
	records := 0
	attrs := make([]slog.Attr, 0, len(reasons))
	for _, code := range slices.Sorted(maps.Keys(reasons)) {
		records += reasons[code]
		attrs = append(attrs, slog.Int(code, reasons[code]))
	}
	p.logger.LogAttrs(ctx, slog.LevelWarn, "projector: records rejected", slog.Int("records", records),
		slog.String("first", first.String()), slog.GroupAttrs("reasons", attrs...))
}
