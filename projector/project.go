package projector

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"muster/platform/breaker"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Rejection codes of the projector, in addition to those of record.ValidationError.
const (
	// CodeKeyMismatch means that the message key is not the record's identity, so compaction and ordering
	// would apply to another identity.
	CodeKeyMismatch = "key_mismatch"
	// CodeBadPair means that a message of event.TopicVersionBump is not a pair of identity and version.
	CodeBadPair = "bad_seen_pair"
	// CodeBadRevision means that the message's mapping revision is not a 32-bit number.
	CodeBadRevision = "bad_revision"
	// CodeRefused means that ClickHouse rejects the record's data.
	CodeRefused = "refused_by_store"
)

// worker decodes and renders a share of a batch.
type worker struct {
	renderer *readmodel.Renderer
	batch    readmodel.Batch
	rejected []rejection
	counts   map[record.Kind]*count
	// suppressed is the suppression set; erased are the records of erased people in the batch.
	suppressed *suppress.Set
	erased     []erasedRecord
}

// rejection is a message that cannot be projected. Its event takes over a kilobyte, so it is built at
// publication.
type rejection struct {
	message *kafka.Message
	kind    record.Kind
	err     error
}

func (r *rejection) event(at time.Time) event.Rejected {
	return event.NewRejected(r.kind, sourceOf(r.message), r.message.Value, r.err, at)
}

type count struct{ records, tombstones, erased, bytes int }

func newWorker(platforms *identity.Platforms, suppressed *suppress.Set) *worker {
	return &worker{renderer: readmodel.NewRenderer(platforms), counts: make(map[record.Kind]*count),
		suppressed: suppressed}
}

func (w *worker) reset() {
	w.batch.Reset()
	w.rejected, w.erased = nil, nil
	clear(w.counts)
}

// handle makes one batch durable: it inserts rows, writes tombstones, publishes the accounts whose answers
// must be rebuilt, and publishes rejections. Calls must not overlap.
func (p *Projector) handle(ctx context.Context, b bus.Batch) (err error) {
	ctx, span := p.tracer.Start(ctx, "project batch", trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(attribute.Int("messaging.batch.message_count", len(b.Messages))))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, "failed") // The error may quote personal data of a record.
		}
		span.End()
	}()
	p.erased, p.touched = nil, make(touched)
	rejected, err := p.project(ctx, b.Messages, b.Token())
	if err != nil {
		return err
	}
	if err := p.writeBatchTombstones(ctx); err != nil {
		return err
	}
	if err := p.touch(ctx, p.touched); err != nil {
		return err
	}
	return p.reject(ctx, rejected)
}

// project renders and inserts messages. If ClickHouse rejects their data, it bisects them until the rejected
// record is isolated, and returns it with the other rejections.
func (p *Projector) project(ctx context.Context, messages []kafka.Message, token string) ([]rejection, error) {
	rejected, err := p.insert(ctx, messages, token)
	if err == nil || !isDataError(err) {
		return rejected, err
	}
	if len(messages) == 1 {
		m := &messages[0]
		bad := &record.ValidationError{Kind: p.kinds[m.Topic], Code: CodeRefused, Reason: "is rejected by the store: " +
			codeName(err)}
		p.deps.Logger.LogAttrs(ctx, slog.LevelError, "projector: ClickHouse rejects a record",
			slog.String("source", sourceOf(m).String()), slog.String("error", codeName(err)))
		return append(rejected, rejection{m, bad.Kind, bad}), nil
	}
	p.metrics.halved.Inc()
	middle := len(messages) / 2
	first, err := p.project(ctx, messages[:middle], token+"/0")
	if err != nil {
		return nil, err
	}
	second, err := p.project(ctx, messages[middle:], token+"/1")
	if err != nil {
		return nil, err
	}
	return append(first, second...), nil
}

// isDataError reports whether ClickHouse, the client or a proxy accepts the statement but not these rows.
// Errors of the statement itself are retried like an outage: they would reject every record.
func isDataError(err error) bool {
	if clickhouse.IsTransient(err) {
		return false
	}
	code, ok := clickhouse.CodeOf(err)
	if !ok {
		return true // A value that the client cannot convert, or a body too large for a proxy.
	}
	switch code {
	case proto.ErrTypeMismatch, proto.ErrCannotConvertType, proto.ErrValueIsOutOfRangeOfDataType,
		proto.ErrArgumentOutOfBound, proto.ErrTooLargeStringSize, proto.ErrTooLargeArraySize,
		proto.ErrViolatedConstraint, proto.ErrIncorrectData, proto.ErrFunctionThrowIfValueIsNonZero:
		return true
	}
	return false
}

// codeName returns the name of the error code. Error texts quote data and are left out.
func codeName(err error) string {
	if code, ok := clickhouse.CodeOf(err); ok {
		return code.String()
	}
	return "conversion failed"
}

// insert renders messages on all workers and inserts the rows. It returns the messages that cannot be
// rendered even if the insert fails.
func (p *Projector) insert(ctx context.Context, messages []kafka.Message, token string) ([]rejection, error) {
	begin := p.deps.Now()
	var wg sync.WaitGroup
	share := (len(messages) + len(p.workers) - 1) / len(p.workers)
	batches := make([]*readmodel.Batch, len(p.workers))
	for i, w := range p.workers {
		w.reset()
		batches[i] = &w.batch
		part := messages[min(i*share, len(messages)):min((i+1)*share, len(messages))]
		wg.Go(func() { w.render(part, p.kinds) })
	}
	wg.Wait()
	var rejected []rejection
	for _, w := range p.workers {
		rejected = append(rejected, w.rejected...)
		w.rejected = nil // Releases the messages.
	}
	p.metrics.decode.Observe(p.deps.Now().Sub(begin).Seconds())

	// While the breaker is open the batch waits here, uncommitted. The consumer waits too; its buffers are
	// bounded. Waiting does not count as an attempt.
	_, err := breaker.DoWhenClosed(ctx, p.breaker, breakerKey, func(ctx context.Context) (struct{}, error) {
		begin := p.deps.Now()
		err := readmodel.InsertInto(ctx, p.deps.Conn, p.tables, token, batches...)
		outcome := "ok"
		if err != nil {
			outcome = "error"
		}
		p.metrics.insert.WithLabelValues(outcome).Observe(p.deps.Now().Sub(begin).Seconds())
		return struct{}{}, err
	})
	if err != nil {
		return rejected, err
	}
	for _, w := range p.workers {
		w.batch.TouchedAccounts(p.touched)
		p.erased = append(p.erased, w.erased...)
		for kind, c := range w.counts {
			p.metrics.records.WithLabelValues(string(kind)).Add(float64(c.records))
			p.metrics.tombstones.WithLabelValues(string(kind)).Add(float64(c.tombstones))
			p.metrics.erased.WithLabelValues(string(kind)).Add(float64(c.erased))
			p.metrics.bytes.WithLabelValues(string(kind)).Add(float64(c.bytes))
		}
	}
	return rejected, nil
}

// render converts messages to rows and rejections.
func (w *worker) render(messages []kafka.Message, kinds map[string]record.Kind) {
	for i := range messages {
		m := &messages[i]
		kind := kinds[m.Topic]
		c := w.count(kind)
		c.bytes += len(m.Value)
		if m.Value == nil {
			// Tombstones serve compaction. They have no version and delete no rows; a record with "deleted"
			// does.
			c.tombstones++
			continue
		}
		at := readmodel.Position{Topic: m.Topic, Partition: int32(m.Partition), Offset: m.Offset} //nolint:gosec // Kafka's partitions are int32.
		if kind == kindVersionBump {
			if err := w.addVersionBump(m, at); err != nil {
				w.reject(m, kind, err)
			} else {
				c.records++
			}
			continue
		}
		rec, err := record.Decode(kind, m.Value)
		if err == nil && string(m.Key) != rec.Key {
			err = &record.ValidationError{Kind: kind, Code: CodeKeyMismatch,
				Reason: "has a message key that is not its identity"}
		}
		if err != nil {
			if rec != nil && w.erase(m, rec) { // Not published as rejected.
				if !w.mayTombstone(kind, m.Key) {
					w.erased[len(w.erased)-1].key = nil
				}
				continue
			}
			w.reject(m, kind, err)
			continue
		}
		if rec.Revision, err = revisionOf(m); err != nil {
			w.reject(m, kind, &record.ValidationError{Kind: kind, Code: CodeBadRevision, Reason: err.Error()})
			continue
		}
		// Records that other producers wrote to the topic may embed lists.
		parts, rejected := rec.SplitEmbedded()
		for _, bad := range rejected {
			w.reject(m, kind, bad)
		}
		if w.erase(m, rec) {
			continue // With its embedded records.
		}
		for _, r := range append(parts, rec) {
			if r != rec && w.isErased(r) { // A commit by another author.
				w.count(r.Kind).erased++
				continue
			}
			if err := w.renderer.Rows(&w.batch, r, at); err != nil {
				w.reject(m, kind, err)
				continue
			}
			w.count(r.Kind).records++
		}
	}
}

// revisionOf returns the mapping revision of a message, 0 if it has none.
func revisionOf(m *kafka.Message) (uint32, error) {
	for i := range m.Headers {
		if m.Headers[i].Key == event.HeaderRevision {
			return event.ParseRevision(m.Headers[i].Value)
		}
	}
	return 0, nil
}

// seen adds the row of a version bump: a newer version of a record with unchanged content.
func (w *worker) addVersionBump(m *kafka.Message, at readmodel.Position) error {
	s, version, err := event.ParseVersionBump(m.Value)
	if err != nil {
		return &record.ValidationError{Kind: kindVersionBump, Code: CodeBadPair, Reason: err.Error()}
	}
	if string(m.Key) != s.MessageKey() {
		return &record.ValidationError{Kind: kindVersionBump, Code: CodeKeyMismatch,
			Reason: "has a message key that is not its identity"}
	}
	if w.eraseVersionBump(m, s) {
		return nil
	}
	if err := w.batch.VersionBump(s, version, at); err != nil {
		return &record.ValidationError{Kind: kindVersionBump, Code: CodeBadPair, Reason: err.Error()}
	}
	return nil
}

func (w *worker) count(kind record.Kind) *count {
	c := w.counts[kind]
	if c == nil {
		c = &count{}
		w.counts[kind] = c
	}
	return c
}

func (w *worker) reject(m *kafka.Message, kind record.Kind, err error) {
	w.rejected = append(w.rejected, rejection{m, kind, err})
}

// rejectedBatchSize is the number of rejections published at a time. Each event takes kilobytes, even for a
// tiny record.
const rejectedBatchSize = 1000

// reject publishes rejections. If the batch is repeated, the events have the same ids.
func (p *Projector) reject(ctx context.Context, rejected []rejection) error {
	if p.writer == nil || len(rejected) == 0 {
		return nil
	}
	at := p.deps.Now()
	reasons := make(map[string]int)
	events := make([]event.Rejected, 0, min(len(rejected), rejectedBatchSize))
	for some := range slices.Chunk(rejected, rejectedBatchSize) {
		events = events[:0]
		for i := range some {
			e := some[i].event(at)
			reasons[e.Code]++
			events = append(events, e)
		}
		if err := p.publishRejected(ctx, events); err != nil {
			return err
		}
	}
	p.logRejected(ctx, sourceOf(rejected[0].message), reasons)
	return nil
}

func (p *Projector) publishRejected(ctx context.Context, rejected []event.Rejected) error {
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
	var refused *bus.RejectedError
	if errors.As(err, &refused) {
		// The brokers will never accept these, so the log keeps their positions.
		for _, m := range refused.Messages {
			p.deps.Logger.LogAttrs(ctx, slog.LevelError, "projector: brokers refused a rejected record",
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
		p.metrics.rejected.WithLabelValues(string(rejected[i].Kind), rejected[i].Code).Inc()
	}
	return nil
}

// logRejected logs the number of rejections of a batch by code. Details are in the events.
func (p *Projector) logRejected(ctx context.Context, first event.Source, reasons map[string]int) {
	records := 0
	attrs := make([]slog.Attr, 0, len(reasons))
	for _, code := range slices.Sorted(maps.Keys(reasons)) {
		records += reasons[code]
		attrs = append(attrs, slog.Int(code, reasons[code]))
	}
	p.deps.Logger.LogAttrs(ctx, slog.LevelWarn, "projector: records rejected", slog.Int("records", records),
		slog.String("first", first.String()), slog.GroupAttrs("reasons", attrs...))
}

func sourceOf(m *kafka.Message) event.Source {
	return event.Source{Topic: m.Topic, Partition: m.Partition, Offset: m.Offset}
}
