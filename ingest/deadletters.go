package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"

	"muster/ingest/internal/convert"
	"muster/ingest/internal/deadletter"
	"muster/ingest/internal/dedup"
	"muster/ingest/internal/mapping"
	"muster/ingest/internal/publish"
	"muster/ingest/internal/source"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// DeadLetter is a rejected record or a dead letter.
type DeadLetter = deadletter.Entry

// DeadLetterFilter selects dead letters or rejected records.
type DeadLetterFilter = deadletter.Filter

// EachDeadLetter calls each for every entry that the filter selects, in partition order. Entries are
// dead letters if dead is set, or else rejected records.
func EachDeadLetter(
	ctx context.Context,
	cfg Config,
	dead bool,
	filter DeadLetterFilter,
	each func(DeadLetter) error,
) error {
	topics, err := deadletter.Topics(ctx, cfg.Bus, dead)
	if err != nil {
		return err
	}
	return deadletter.Scan(ctx, cfg.Bus, topics, filter, each)
}

// NewestDeadLetters returns the newest selected entries, at most limit, newest first, and the number of
// all selected entries.
func NewestDeadLetters(
	ctx context.Context, cfg Config, dead bool, filter DeadLetterFilter, limit int,
) (newest []DeadLetter, all int64, err error) {
	trim := func() {
		slices.SortStableFunc(newest, func(a, b DeadLetter) int {
			return cmp.Or(b.At().Compare(a.At()), cmp.Compare(a.ID(), b.ID()))
		})
		newest = slices.Delete(newest, min(limit, len(newest)), len(newest))
	}
	err = EachDeadLetter(ctx, cfg, dead, filter, func(l DeadLetter) error {
		all++
		// Lists do not show the record, which can have up to 1 MiB.
		l.Message.Value, l.Rejected.Raw = nil, nil
		if newest = append(newest, l); len(newest) >= 2*limit+100 {
			trim()
		}
		return nil
	})
	trim()
	return newest, all, err
}

// DeadLetterTopics returns the existing topics of rejected records and of dead letters.
func DeadLetterTopics(ctx context.Context, cfg bus.Config) (rejected, dead []string, err error) {
	if rejected, err = deadletter.Topics(ctx, cfg, false); err == nil {
		dead, err = deadletter.Topics(ctx, cfg, true)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list dead-letter topics: %w", err)
	}
	return rejected, dead, nil
}

// Resubmission is the result of resubmitting dead letters or rejected records.
type Resubmission struct {
	Run string `json:"run"`
	// Selected is the number of selected entries, Resubmitted the number of those marked as
	// resubmitted now.
	Selected    int64 `json:"letters"`
	Resubmitted int64 `json:"resubmitted"`
	// Skipped counts the other entries by reason.
	Skipped map[string]int64 `json:"skipped,omitempty"`
	// Remap reports whether the records carry a mapping revision.
	Remap bool `json:"remap,omitzero"`
	// Kinds are the counts of resubmitted rejected records. A record that is rejected again is a new entry.
	Kinds []KindCounts `json:"kinds,omitempty"`
}

func newResubmission(cfg *Config) (Resubmission, error) {
	if cfg.RunID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return Resubmission{}, fmt.Errorf("create a run ID: %w", err)
		}
		cfg.RunID = id.String()
	}
	return Resubmission{Run: cfg.RunID, Remap: cfg.Remap, Skipped: make(map[string]int64)}, nil
}

// limitToPast excludes entries that the resubmission itself creates.
func limitToPast(filter DeadLetterFilter, deps Deps) DeadLetterFilter {
	if now := deps.Now(); filter.Until.IsZero() || filter.Until.After(now) {
		filter.Until = now
	}
	return filter
}

// ResubmitDead writes the original messages of dead letters to their topics again, with the same
// key, value and headers, and marks the entries as resubmitted. Webhook deliveries get a new round,
// as if an operator had ordered a redelivery.
func ResubmitDead(ctx context.Context, cfg Config, deps Deps, filter DeadLetterFilter) (Resubmission, error) {
	deps = deps.withDefaults()
	res, err := newResubmission(&cfg)
	if err != nil {
		return res, err
	}
	writer := newWriter(cfg, deps)
	log := deadletter.ResubmissionLog{Run: res.Run, Now: deps.Now, Write: writeFunc(writer)}
	id, err := uuid.NewV7()
	if err != nil {
		return res, fmt.Errorf("create a webhook round: %w", err)
	}
	round := id.String()
	const batchSize = 500
	var pending []DeadLetter
	var messages []kafka.Message
	send := func() error {
		rejected, err := writePartial(ctx, writer, messages)
		if err != nil {
			return err
		}
		for i, l := range pending {
			if rejection := rejected[i]; rejection != nil {
				deps.Logger.Warn("ingest: dead letter rejected by the brokers",
					slog.String("dead_letter", l.ID()), slog.Any("error", rejection))
				res.Skipped["rejected by the brokers"]++
				continue
			}
			res.Resubmitted++
			if err := log.Add(ctx, l); err != nil {
				return err
			}
		}
		pending, messages = pending[:0], messages[:0]
		return nil
	}
	err = EachDeadLetter(ctx, cfg, true, limitToPast(filter, deps), func(l DeadLetter) error {
		res.Selected++
		m, err := l.Original()
		if err == nil {
			m, err = withRound(m, round)
		}
		if err != nil {
			res.Skipped[err.Error()]++
			return nil //nolint:nilerr // the other entries are resubmitted
		}
		pending, messages = append(pending, l), append(messages, m)
		if len(messages) < batchSize {
			return nil
		}
		return send()
	})
	if err == nil {
		err = send()
	}
	return res, errors.Join(err, log.Flush(ctx), writer.Close())
}

// withRound sets a new round on a webhook delivery, so that webhook-sender starts over at the first
// attempt instead of skipping a dead-lettered task. Dead letters of one delivery share the round,
// so it is delivered once.
func withRound(m kafka.Message, round string) (kafka.Message, error) {
	if m.Topic != event.TopicWebhookTask {
		return m, nil
	}
	if len(m.Value) == 0 {
		return m, errors.New("the webhook body was deleted")
	}
	var task event.WebhookTask
	if err := json.Unmarshal(m.Value, &task); err != nil {
		return m, nil //nolint:nilerr // it was dead-lettered as an invalid task and is validated again
	}
	task.Round = round
	_, id, value, err := task.Message()
	if err != nil {
		return m, nil //nolint:nilerr // as above
	}
	m.Value = value
	// The headers are owned by the entry, so they may be changed.
	for i := range m.Headers {
		if m.Headers[i].Key == bus.HeaderID {
			m.Headers[i].Value = []byte(id)
		}
	}
	return m, nil
}

// writePartial writes messages and returns the errors of rejected ones, by index.
func writePartial(ctx context.Context, writer *bus.Writer, messages []kafka.Message) (map[int]error, error) {
	err := bus.WriteAll(ctx, writer, messages)
	rejected, ok := errors.AsType[*bus.RejectedError](err)
	if !ok {
		return nil, err
	}
	rejection := make(map[int]error, len(rejected.Messages))
	for _, m := range rejected.Messages {
		rejection[m.Index] = m.Err
	}
	return rejection, nil
}

func writeFunc(w *bus.Writer) func(context.Context, []kafka.Message) error {
	return func(ctx context.Context, messages []kafka.Message) error { return bus.WriteAll(ctx, w, messages) }
}

// Reasons for which a rejected record is not resubmitted.
const (
	skipUnreadable   = "the entry cannot be decoded"
	skipTruncated    = "the stored record is truncated: it was larger than 1 MiB"
	skipSourceObject = "a source object requires --map with the corrected mapping"
	skipSibling      = "the record is stored in another entry"
)

// ResubmitRejected decodes rejected records again at their original location and marks their
// entries as resubmitted. Valid records are published; invalid ones are rejected again, as new
// entries. If kind is set, it replaces the records' kind; with Config.Mapping they are source objects.
// Entries resubmitted before are skipped unless the filter selects them.
func ResubmitRejected(
	ctx context.Context, cfg Config, deps Deps, filter DeadLetterFilter, kind record.Kind,
) (res Resubmission, err error) {
	if cfg, err = cfg.withDefaults(); err != nil {
		return res, err
	}
	deps = deps.withDefaults()
	if res, err = newResubmission(&cfg); err != nil {
		return res, err
	}
	r := resubmitter{
		kind: kind, run: res.Run, deps: deps, res: &res,
		counts: make(convert.CountsByKind), resubmitted: make(map[string]bool),
		siblings: make(map[string][]kafka.Message),
	}
	if kind != "" {
		if err := checkKind(kind); err != nil {
			return res, err
		}
	}
	if cfg.Mapping != "" {
		if kind != "" {
			return res, errors.New("a mapping determines the kind of each record: pass either a kind or a mapping")
		}
		program, err := mapping.Load(cfg.Mapping)
		if err != nil {
			return res, err
		}
		r.mapper, r.kind = program, convert.SourceObject
	}
	if err := ensureTopics(ctx, cfg, deps.Logger); err != nil {
		return res, err
	}
	var store *dedup.Store
	if cfg.StateDir != "" {
		if store, err = openDedup(ctx, cfg, deps); err != nil {
			return res, err
		}
		defer func() { err = errors.Join(err, closeDedup(ctx, cfg, deps, store, bindTimeout)) }()
	}
	if r.revision, err = (&state{dedup: store}).revision(ctx, cfg, deps); err != nil {
		return res, err
	}
	writer := newWriter(cfg, deps)
	defer func() { err = errors.Join(err, writer.Close()) }()
	r.log = deadletter.ResubmissionLog{Run: res.Run, Now: deps.Now, Write: writeFunc(writer)}
	r.publisher = publish.New(ctx, writer, cfg.Lanes, publish.Options{Store: store})

	scanned := EachDeadLetter(ctx, cfg, false, limitToPast(filter, deps),
		func(l DeadLetter) error { return r.resubmit(ctx, l) })
	if err = errors.Join(scanned, r.publisher.Close()); err == nil {
		r.finish()
	}
	err = errors.Join(err, r.mark(ctx), r.log.Flush(ctx))
	res.Kinds = kindCounts(r.counts)
	return res, err
}

// resubmitter resubmits rejected records.
type resubmitter struct {
	kind      record.Kind // overrides the kind of the entries, if set
	mapper    convert.Mapper
	revision  uint32
	run       string
	deps      Deps
	publisher *publish.Publisher
	log       deadletter.ResubmissionLog
	res       *Resubmission

	// resubmitted has the hashes of the resubmitted records. siblings has the entries without a
	// record, by the hash of the record that another entry stores.
	resubmitted map[string]bool
	siblings    map[string][]kafka.Message

	mu     sync.Mutex
	counts convert.CountsByKind
	stored []DeadLetter // not marked yet
}

// resubmit resubmits one entry or counts it as skipped.
func (r *resubmitter) resubmit(ctx context.Context, l DeadLetter) error {
	r.res.Selected++
	kind := l.Rejected.Kind
	if r.kind != "" {
		kind = r.kind
	}
	switch stored := int64(len(l.Rejected.Raw)); {
	case l.Unreadable != nil:
		r.res.Skipped[skipUnreadable]++
		return nil //nolint:nilerr // the other entries are resubmitted
	case stored == 0 && l.Rejected.Length > 0:
		r.siblings[l.Rejected.SHA256] = append(r.siblings[l.Rejected.SHA256], kafka.Message{
			Topic: l.Message.Topic, Partition: l.Message.Partition, Offset: l.Message.Offset,
		})
		return nil
	case stored < l.Rejected.Length:
		r.res.Skipped[skipTruncated]++
		return nil
	case r.mapper == nil && (kind == convert.SourceObject || l.Rejected.Mapped && r.kind == ""):
		r.res.Skipped[skipSourceObject]++
		return nil
	}
	from := l.Rejected.Source
	converter := convert.New(convert.Config{
		Kind: kind, Run: r.run, File: from.Name(), Revision: r.revision, Now: r.deps.Now, Mapper: r.mapper,
		Suppressed: r.deps.Suppressed, Requested: suppress.NewSet(r.deps.suppressionKey()), Via: "letter",
	})
	line := source.Line{Raw: l.Rejected.Raw, Number: from.Line, Offset: from.Offset}
	var counts convert.CountsByKind
	var batch *publish.Batch
	batch = r.publisher.NewBatch(func(err error) {
		if err != nil {
			// Closing the publisher returns the error.
			return
		}
		counts.ApplyOutcomes(batch.Outcomes())
		r.mu.Lock()
		defer r.mu.Unlock()
		for kind, c := range counts {
			r.counts.Add(kind, c)
		}
		r.stored = append(r.stored, DeadLetter{Message: kafka.Message{
			Topic: l.Message.Topic, Partition: l.Message.Partition, Offset: l.Message.Offset,
		}})
	})
	if from.Line == 0 {
		// The projector rejected it from a topic: the store has its version as published, but the
		// read models do not.
		batch.Republish()
	}
	counts, err := converter.Chunk(ctx, &source.Chunk{Lines: []source.Line{line}}, batch)
	if err != nil {
		return err
	}
	r.resubmitted[l.Rejected.SHA256] = true
	r.publisher.Publish(batch)
	return r.mark(ctx)
}

// mark marks the entries whose records are stored.
func (r *resubmitter) mark(ctx context.Context) error {
	r.mu.Lock()
	stored := r.stored
	r.stored = nil
	r.mu.Unlock()
	for _, l := range stored {
		r.res.Resubmitted++
		if err := r.log.Add(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// finish marks the siblings of resubmitted entries.
func (r *resubmitter) finish() {
	for sum, siblings := range r.siblings {
		if !r.resubmitted[sum] {
			r.res.Skipped[skipSibling] += int64(len(siblings))
			continue
		}
		for _, m := range siblings {
			r.stored = append(r.stored, DeadLetter{Message: m})
		}
	}
}
