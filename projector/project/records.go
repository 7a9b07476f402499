package project

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/segmentio/kafka-go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"muster/platform/breaker"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/projector/answers"
	"muster/projector/erasure"
	"muster/projector/internal/rejected"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// Group is the default consumer group of the projection of records.
const Group = readmodel.RecordsGroup

// Topics returns the topics of records and version bumps.
func Topics() []string { return readmodel.RecordTopics() }

// breakerKey is the only key of the breaker.
const breakerKey = "clickhouse"

// Records projects records and version bumps. Create it with NewRecords or NewReplay and start it with Run.
type Records struct {
	*bus.BatchConsumer

	deps    Deps
	tracer  trace.Tracer
	metrics *metrics
	breaker *breaker.Set
	tables  readmodel.Names        // zero: the live tables
	writer  *bus.Writer            // nil in a replay, which publishes nothing
	rejects *rejected.Publisher    // nil in a replay
	index   bool                   // documents of the search index are touched
	kinds   map[string]record.Kind // by topic
	workers []*worker
}

// NewRecords returns the projection of all topics into the live tables. It writes tombstones and touches to w, which
// needs bus.WithFixedPartition, and rejected messages to rejects. It does not connect.
func NewRecords(cfg Config, deps Deps, w *bus.Writer, rejects *rejected.Publisher) (*Records, error) {
	r, err := newRecords(cfg, deps, Topics(), nil, nil)
	if err != nil {
		return nil, err
	}
	r.writer, r.rejects, r.index = w, rejects, cfg.TouchDocuments
	return r, nil
}

// NewReplay returns a projection of some topics into other tables. It publishes nothing: the live projection does. It
// calls done with each batch whose rows are durable and whose offsets are committed.
func NewReplay(
	cfg Config, deps Deps, topics []string, tables readmodel.Names, done func(bus.Batch),
) (*Records, error) {
	return newRecords(cfg, deps, topics, tables, done)
}

func newRecords(
	cfg Config, deps Deps, topics []string, tables readmodel.Names, done func(bus.Batch),
) (*Records, error) {
	cfg, deps, err := WithDefaults(cfg, deps)
	if err != nil {
		return nil, err
	}
	r := &Records{deps: deps, tracer: Tracer(deps), tables: tables, kinds: make(map[string]record.Kind)}
	if r.metrics, err = newMetrics(deps.Registerer); err != nil {
		return nil, err
	}
	for _, d := range record.Definitions() {
		r.kinds[d.Topic] = d.Kind
	}
	r.kinds[event.TopicVersionBump] = kindVersionBump
	for range cfg.Workers {
		r.workers = append(r.workers, newWorker(deps.Platforms, deps.Suppressed))
	}
	r.breaker, err = breaker.NewSet(breaker.Config{
		Name: "projector", Failures: cfg.BreakAfter, OpenFor: cfg.BreakFor, KeyMetrics: true,
		// Rejected data means that ClickHouse works.
		IsFailure: func(err error) bool { return !isDataError(err) },
		Logger:    deps.Logger, Registerer: deps.Registerer,
	})
	if err != nil {
		return nil, err
	}
	c := Consumer(cfg, deps)
	c.Group, c.Topics, c.Handle, c.Done = cfg.Group, topics, r.handle, done
	if r.BatchConsumer, err = bus.NewBatchConsumer(c); err != nil {
		return nil, err
	}
	return r, nil
}

// IsPaused reports whether inserts are paused because ClickHouse has failed repeatedly.
func (r *Records) IsPaused() bool { return r.breaker.State(breakerKey) == "open" }

// handle makes one batch durable: it inserts rows, writes tombstones, publishes touches, and publishes
// rejections. Calls must not overlap.
func (r *Records) handle(ctx context.Context, b bus.Batch) (err error) {
	ctx, span := r.tracer.Start(ctx, "project batch", trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(attribute.Int("messaging.batch.message_count", len(b.Messages))))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, "failed") // The error may quote personal data of a record.
		}
		span.End()
	}()
	done, err := r.project(ctx, b.Messages, b.Token())
	if err != nil || r.writer == nil {
		return err
	}
	if err := erasure.WriteTombstones(ctx, r.writer, r.deps.Suppressed, done.dropped, r.deps.Logger); err != nil {
		return err
	}
	if err := r.touch(ctx, done); err != nil {
		return err
	}
	return r.rejects.Publish(ctx, done.rejected)
}

// touch publishes the touches of a batch. People are linked again only if they may be linked now or were before: most
// have neither links nor accounts that name them.
func (r *Records) touch(ctx context.Context, done outcome) error {
	if err := answers.Touch(ctx, r.writer, done.touched); err != nil {
		return err
	}
	// After the touches that request builds: the builder follows their order.
	if err := answers.TouchLinks(ctx, r.writer, slices.Sorted(maps.Keys(done.linking.Accounts))); err != nil {
		return err
	}
	people := done.documents[record.KindNetworkPerson]
	linked, err := readmodel.LinkedAmong(ctx, r.deps.Conn, slices.Sorted(maps.Keys(people)))
	if err != nil {
		return err
	}
	linking := make(map[string]int64)
	for id, version := range people {
		if linked[id] || done.linking.People[id] {
			linking[id] = version
			delete(people, id)
		}
	}
	touch := func(like event.AnswerTask, ids map[string]int64) {
		if err == nil {
			err = answers.TouchDocuments(ctx, r.writer, like, ids)
		}
	}
	touch(event.AnswerTask{Kind: record.KindNetworkPerson}, linking)
	touch(event.AnswerTask{Kind: record.KindAccountLink}, done.links)
	if !r.index {
		return err
	}
	for kind, ids := range done.documents {
		touch(event.AnswerTask{Kind: kind, IndexOnly: true}, ids)
	}
	for kind, ids := range done.bumped {
		touch(event.AnswerTask{Kind: kind, IndexOnly: true, Bump: true}, ids)
	}
	return err
}

// outcome is what the projection of messages leads to, once their rows are durable.
type outcome struct {
	rejected  []rejected.Message
	dropped   []erasure.Dropped
	touched   map[int64]int64                  // accounts whose rows changed, with the newest version of these rows
	documents map[record.Kind]map[string]int64 // network people and companies whose rows changed, likewise
	bumped    map[record.Kind]map[string]int64 // those with version bumps that the search index shows, likewise
	links     map[string]int64                 // network usernames of account-links, likewise
	linking   readmodel.LinkCandidates
}

// add adds the outcome of other messages.
func (o *outcome) add(other outcome) {
	o.rejected = append(o.rejected, other.rejected...)
	o.dropped = append(o.dropped, other.dropped...)
	for id, version := range other.touched {
		o.touched[id] = max(o.touched[id], version)
	}
	addNewest(o.documents, other.documents)
	addNewest(o.bumped, other.bumped)
	for name, version := range other.links {
		o.links[name] = max(o.links[name], version)
	}
	o.linking.Add(other.linking)
}

// addNewest adds versions by kind and identity to others, and keeps the newest of each.
func addNewest(to, from map[record.Kind]map[string]int64) {
	for kind, ids := range from {
		if to[kind] == nil {
			to[kind] = make(map[string]int64, len(ids))
		}
		for id, version := range ids {
			to[kind][id] = max(to[kind][id], version)
		}
	}
}

// project renders and inserts messages. If ClickHouse rejects their data, it bisects them until the rejected
// record is isolated, which is then rejected.
func (r *Records) project(ctx context.Context, messages []kafka.Message, token string) (outcome, error) {
	done, err := r.insert(ctx, messages, token)
	if err == nil || !isDataError(err) {
		return done, err
	}
	if len(messages) == 1 {
		m := &messages[0]
		bad := &record.ValidationError{Kind: r.kinds[m.Topic], Code: CodeRefused, Reason: "is rejected by the store: " +
			codeName(err)}
		r.deps.Logger.LogAttrs(ctx, slog.LevelError, "projector: ClickHouse rejects a record",
			slog.String("source", rejected.Source(m).String()), slog.String("error", codeName(err)))
		done.rejected = append(done.rejected, rejected.Message{Message: m, Kind: bad.Kind, Err: bad})
		return done, nil
	}
	r.metrics.halved.Inc()
	middle := len(messages) / 2
	first, err := r.project(ctx, messages[:middle], token+"/0")
	if err != nil {
		return outcome{}, err
	}
	second, err := r.project(ctx, messages[middle:], token+"/1")
	if err != nil {
		return outcome{}, err
	}
	first.add(second)
	return first, nil
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

// inTableOrder returns the messages in the order of the tables of network people (readmodel.ProfileHash of the key):
// inserts of sorted rows take a third less of the engine's processor time. Messages of one key stay in order.
func inTableOrder(messages []kafka.Message) []kafka.Message {
	type place struct {
		hash  uint64
		index int
	}
	places := make([]place, len(messages))
	for i := range messages {
		places[i] = place{readmodel.ProfileHash(string(messages[i].Key)), i}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.index, b.index))
	})
	out := make([]kafka.Message, len(messages))
	for i, p := range places {
		out[i] = messages[p.index]
	}
	return out
}

// insert renders messages on all workers and inserts the rows. It returns the messages that cannot be
// rendered even if the insert fails.
func (r *Records) insert(ctx context.Context, messages []kafka.Message, token string) (outcome, error) {
	begin := r.deps.Now()
	messages = inTableOrder(messages)
	var wg sync.WaitGroup
	share := (len(messages) + len(r.workers) - 1) / len(r.workers)
	batches := make([]*readmodel.Batch, len(r.workers))
	for i, w := range r.workers {
		w.reset()
		batches[i] = &w.batch
		part := messages[min(i*share, len(messages)):min((i+1)*share, len(messages))]
		wg.Go(func() { w.render(part, r.kinds) })
	}
	wg.Wait()
	done := outcome{
		touched: make(map[int64]int64), documents: make(map[record.Kind]map[string]int64),
		bumped: make(map[record.Kind]map[string]int64), links: make(map[string]int64),
	}
	for _, w := range r.workers {
		done.rejected = append(done.rejected, w.rejected...)
		w.rejected = nil // Releases the messages.
	}
	r.metrics.decode.Observe(r.deps.Now().Sub(begin).Seconds())

	// While the breaker is open the batch waits here, uncommitted. The consumer waits too; its buffers are
	// bounded. Waiting does not count as an attempt.
	var err error
	insert := func(ctx context.Context) (readmodel.LinkCandidates, error) {
		begin := r.deps.Now()
		linking, err := readmodel.InsertInto(ctx, r.deps.Conn, r.tables, token, batches...)
		outcome := "ok"
		if err != nil {
			outcome = "error"
		}
		r.metrics.insert.WithLabelValues(outcome).Observe(r.deps.Now().Sub(begin).Seconds())
		return linking, err
	}
	if done.linking, err = breaker.DoWhenClosed(ctx, r.breaker, breakerKey, insert); err != nil {
		return done, err
	}
	for _, w := range r.workers {
		w.batch.TouchedAccounts(done.touched)
		w.batch.TouchedDocuments(done.documents)
		w.batch.TouchedLinks(done.links)
		w.batch.TouchedVersions(done.bumped)
		done.dropped = append(done.dropped, w.erased.Dropped...)
		for kind, c := range w.counts {
			r.metrics.records.WithLabelValues(string(kind)).Add(float64(c.records))
			r.metrics.tombstones.WithLabelValues(string(kind)).Add(float64(c.tombstones))
			r.metrics.erased.WithLabelValues(string(kind)).Add(float64(c.erased))
			r.metrics.bytes.WithLabelValues(string(kind)).Add(float64(c.bytes))
		}
	}
	return done, nil
}
