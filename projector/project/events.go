package project

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"muster/platform/bus"
	"muster/projector/erasure"
	"muster/projector/internal/rejected"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// Consumer groups of the projections of events.
const (
	UsageGroup     = readmodel.UsageGroup
	WebhookGroup   = "muster.projector.webhook"
	DiscoveryGroup = "muster.projector.discovery"
	ContextGroup   = "muster.projector.context"
	FeedbackGroup  = "muster.projector.feedback"
)

// Projection is a consumer and the name of what it projects.
type Projection struct {
	Name string
	*bus.BatchConsumer
}

// NewEvents returns the projections of the events of usage, webhooks, discovery, context and feedback calls. Events of
// erased people are not stored; of webhook attempts, only the response is left out. They publish rejected messages to
// rejects, and notifications with writer. They do not connect.
func NewEvents(cfg Config, deps Deps, writer *bus.Writer, rejects *rejected.Publisher) ([]Projection, error) {
	cfg, deps, err := WithDefaults(cfg, deps)
	if err != nil {
		return nil, err
	}
	set := deps.Suppressed
	var out []Projection
	for _, e := range []struct {
		name, group, topic string
		maxAge             time.Duration
		handle             func(context.Context, bus.Batch) error
	}{
		{"usage", UsageGroup, event.TopicUsage, usageMaxBatchAge, projectEvents(deps, rejects, "usage",
			func(rows *usageRows, u *event.Usage, at readmodel.Position) error {
				rows.add(deps, u, at)
				return nil
			}, insertUsage(cfg, deps, writer))},
		{"webhooks", WebhookGroup, event.TopicWebhook, webhookMaxBatchAge, projectEvents(deps, rejects, "webhook",
			func(rows *readmodel.WebhookBatch, a *event.WebhookAttempt, at readmodel.Position) error {
				if _, hit := set.FindInDocument(deps.Platforms, []byte(a.Response)); hit {
					a.Response = "" // As the eraser does for stored rows.
				}
				rows.Add(a, at)
				return nil
			}, readmodel.InsertWebhooks)},
		{"discovery", DiscoveryGroup, event.TopicDiscovery, cfg.MaxAge, projectEvents(deps, rejects, "discovery",
			func(rows *readmodel.DiscoveryBatch, d *event.Discovery, at readmodel.Position) error {
				// An incomplete result is valid for its own call only. A result that was in flight at the time of an
				// erasure can name the person.
				if !d.Complete() || set.Discovery(d) {
					return nil
				}
				return rows.Add(d, at)
			}, readmodel.InsertDiscoveries)},
		{"contexts", ContextGroup, event.TopicContext, cfg.MaxAge, projectEvents(deps, rejects, "context",
			func(rows *readmodel.ContextBatch, c *event.Context, at readmodel.Position) error {
				if set.Context(deps.Platforms, c) {
					return nil // The call was running at the time of the erasure, or the topic is replayed.
				}
				return rows.Add(c, at)
			}, readmodel.InsertContexts)},
		{"feedback", FeedbackGroup, event.TopicFeedback, cfg.MaxAge, projectEvents(deps, rejects, "feedback",
			func(rows *readmodel.FeedbackBatch, f *event.Feedback, at readmodel.Position) error {
				if set.Feedback(f) {
					return nil
				}
				return rows.Add(f, at)
			}, readmodel.InsertFeedback)},
	} {
		c := Consumer(cfg, deps)
		c.Group, c.Topics, c.Handle = e.group, []string{e.topic}, e.handle
		c.MaxAge, c.MaxIdle = e.maxAge, batchIdleTimeout
		consumer, err := bus.NewBatchConsumer(c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		out = append(out, Projection{e.name, consumer})
	}
	return out, nil
}

// usageRows are the rows of events of the ledger.
type usageRows struct {
	usage       readmodel.UsageBatch
	disclosures readmodel.DisclosureBatch
	people      []event.Disclosure
}

// add adds the rows of an event. What an event with an unreadable disclosure says otherwise counts nevertheless.
func (r *usageRows) add(deps Deps, u *event.Usage, at readmodel.Position) {
	r.usage.Add(u, at)
	if deps.Disclosures == nil {
		return
	}
	for _, sealed := range u.Returned {
		d, err := deps.Disclosures.Open(sealed)
		if err != nil {
			deps.Logger.Warn("projector: unreadable disclosure skipped", slog.String("request_id", u.RequestID))
			continue
		}
		r.disclosures.Add(u, d)
		r.people = append(r.people, d)
	}
}

// insertUsage returns a function that writes the rows. A call may return a person just before the person is erased, and
// reach the ledger after the eraser has notified the receivers: those are notified here. The erasures are looked up
// after the insert, so that either this or the eraser finds the row.
func insertUsage(
	cfg Config, deps Deps, writer *bus.Writer,
) func(context.Context, driver.Conn, string, *usageRows) error {
	n := erasure.Notifier{Kafka: cfg.Kafka, Conn: deps.Conn, Suppressed: deps.Suppressed, Writer: writer, Now: deps.Now}
	return func(ctx context.Context, conn driver.Conn, token string, rows *usageRows) error {
		if err := readmodel.InsertUsage(ctx, conn, token, &rows.usage); err != nil {
			return err
		}
		if err := readmodel.InsertDisclosures(ctx, conn, token, &rows.disclosures); err != nil {
			return err
		}
		_, err := n.Notify(ctx, rows.people)
		return err
	}
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
	deps Deps, rejects *rejected.Publisher, kind record.Kind,
	add func(*R, P, readmodel.Position) error,
	insert func(ctx context.Context, conn driver.Conn, token string, rows *R) error,
) func(context.Context, bus.Batch) error {
	tracer := Tracer(deps)
	return func(ctx context.Context, b bus.Batch) (err error) {
		ctx, span := tracer.Start(ctx, "project "+string(kind), trace.WithSpanKind(trace.SpanKindConsumer))
		defer func() {
			if err != nil {
				span.SetStatus(codes.Error, "failed") // The error may quote personal data of the event.
			}
			span.End()
		}()
		var rows R
		var invalid []rejected.Message
		for i := range b.Messages {
			m := &b.Messages[i]
			// Nothing is stored of identifications: only their callers read them.
			if attributes, err := bus.GetEvent(m.Headers); err == nil && attributes.Type == event.TypeIdentification {
				continue
			}
			e := P(new(E))
			err := json.Unmarshal(m.Value, e)
			if err == nil {
				err = e.Validate()
			}
			if err == nil {
				err = add(&rows, e, positionOf(m))
			}
			if err != nil {
				invalid = append(invalid, rejected.Message{Message: m, Kind: kind, Err: err})
			}
		}
		if err := insert(ctx, deps.Conn, b.Token(), &rows); err != nil {
			return err
		}
		return rejects.Publish(ctx, invalid)
	}
}
