package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"

	"muster/ingest/internal/convert"
	"muster/ingest/internal/letters"
	"muster/ingest/internal/mapping"
	"muster/ingest/internal/publish"
	"muster/ingest/internal/source"
	"muster/ingest/internal/versions"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Letter is a rejected record or a dead letter.
type Letter = letters.Letter

// LetterFilter lets letters through.
type LetterFilter = letters.Filter

// EachLetter gives every letter that the filter lets through to each, in the order
// of each partition: the rejected records, or the dead letters.
func EachLetter(ctx context.Context, cfg Config, dead bool, filter LetterFilter, each func(Letter) error) error {
	topics, err := letters.Topics(ctx, cfg.Bus, dead)
	if err != nil {
		return err
	}
	return letters.Scan(ctx, cfg.Bus, topics, filter, each)
}

// NewestLetters returns the newest letters, at most limit, the newest first, and
// how many there are.
func NewestLetters(ctx context.Context, cfg Config, dead bool, filter LetterFilter, limit int) (newest []Letter, all int64, err error) {
	trim := func() {
		slices.SortStableFunc(newest, func(a, b Letter) int {
			return cmp.Or(b.At().Compare(a.At()), cmp.Compare(a.ID(), b.ID()))
		})
		newest = slices.Delete(newest, min(limit, len(newest)), len(newest))
	}
	err = EachLetter(ctx, cfg, dead, filter, func(l Letter) error {
		all++
		// What a list shows; the bytes of a record may be a mebibyte.
		l.Message.Value, l.Rejected.Raw = nil, nil
		if newest = append(newest, l); len(newest) >= 2*limit+100 {
			trim()
		}
		return nil
	})
	trim()
	return newest, all, err
}

// Resubmission says what became of letters that were given back.
type Resubmission struct {
	Run string `json:"run"`
	// Letters is the number of letters that the filter let through; Resubmitted of
	// those that are marked as given back now.
	Letters     int64 `json:"letters"`
	Resubmitted int64 `json:"resubmitted"`
	// Skipped are the others, by the reason.
	Skipped map[string]int64 `json:"skipped,omitempty"`
	// Remap says that the records carry a mapping revision.
	Remap bool `json:"remap,omitzero"`
	// Kinds are the counts of rejected records that were given back. What is
	// rejected again is a new letter.
	Kinds []KindCounts `json:"kinds,omitempty"`
}

func newResubmission(cfg *Config) (Resubmission, error) {
	if cfg.RunID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return Resubmission{}, fmt.Errorf("make a run id: %w", err)
		}
		cfg.RunID = id.String()
	}
	return Resubmission{Run: cfg.RunID, Remap: cfg.Remap, Skipped: make(map[string]int64)}, nil
}

// untilNow keeps letters out that come of the resubmission itself.
func untilNow(filter LetterFilter, deps Deps) LetterFilter {
	if now := deps.Now(); filter.Until.IsZero() || filter.Until.After(now) {
		filter.Until = now
	}
	return filter
}

// ResubmitDead writes the messages that dead letters were made of to their topics
// again, key, value and headers as they were, and marks the letters. Deliveries of
// webhooks get a round, as an operator's order to send them again has.
func ResubmitDead(ctx context.Context, cfg Config, deps Deps, filter LetterFilter) (Resubmission, error) {
	deps = deps.withDefaults()
	res, err := newResubmission(&cfg)
	if err != nil {
		return res, err
	}
	writer := newWriter(cfg, deps)
	marker := letters.Marker{Run: res.Run, Now: deps.Now, Write: writerOf(writer)}
	id, err := uuid.NewV7()
	if err != nil {
		return res, fmt.Errorf("make a round: %w", err)
	}
	round := id.String()
	const group = 500
	var waiting []Letter
	var messages []kafka.Message
	send := func() error {
		refused, err := writeSome(ctx, writer, messages)
		if err != nil {
			return err
		}
		for i, l := range waiting {
			if why := refused[i]; why != nil {
				deps.Logger.Warn("a dead letter was refused by the brokers", "letter", l.ID(), "error", why)
				res.Skipped["refused by the brokers"]++
				continue
			}
			res.Resubmitted++
			if err := marker.Add(ctx, l); err != nil {
				return err
			}
		}
		waiting, messages = waiting[:0], messages[:0]
		return nil
	}
	err = EachLetter(ctx, cfg, true, untilNow(filter, deps), func(l Letter) error {
		res.Letters++
		m, err := l.Original()
		if err == nil {
			m, err = inRound(m, round)
		}
		if err != nil {
			res.Skipped[err.Error()]++
			return nil //nolint:nilerr // the others are given back all the same
		}
		waiting, messages = append(waiting, l), append(messages, m)
		if len(messages) < group {
			return nil
		}
		return send()
	})
	if err == nil {
		err = send()
	}
	return res, errors.Join(err, marker.Flush(ctx), writer.Close())
}

// inRound has a webhook's delivery made from its first attempt on. The webhook-sender
// knows it as given up, and would leave it so. Letters of one delivery share the round,
// so that it is made once.
func inRound(m kafka.Message, round string) (kafka.Message, error) {
	if m.Topic != event.TopicWebhookTask {
		return m, nil
	}
	if len(m.Value) == 0 {
		return m, errors.New("the body of the webhook is gone")
	}
	var task event.WebhookTask
	if err := json.Unmarshal(m.Value, &task); err != nil {
		return m, nil //nolint:nilerr // it was given up for being no task, and is judged again
	}
	task.Round = round
	_, id, value, err := task.Message()
	if err != nil {
		return m, nil //nolint:nilerr // as above
	}
	m.Value = value
	for i := range m.Headers { // they are the letter's own
		if m.Headers[i].Key == bus.HeaderID {
			m.Headers[i].Value = []byte(id)
		}
	}
	return m, nil
}

// writeSome writes messages and returns why some were refused, by their index.
func writeSome(ctx context.Context, writer *bus.Writer, messages []kafka.Message) (map[int]error, error) {
	err := bus.WriteAll(ctx, writer, messages)
	refused, ok := errors.AsType[*bus.RefusedError](err)
	if !ok {
		return nil, err
	}
	why := make(map[int]error, len(refused.Messages))
	for _, m := range refused.Messages {
		why[m.Index] = m.Err
	}
	return why, nil
}

func writerOf(w *bus.Writer) func(context.Context, []kafka.Message) error {
	return func(ctx context.Context, messages []kafka.Message) error { return bus.WriteAll(ctx, w, messages) }
}

// Reasons for which a rejected record is not resubmitted.
const (
	skipUnreadable = "the letter cannot be read"
	skipCut        = "only the beginning is kept, of a record larger than 1 MiB"
	skipForeign    = "the object that a mapping read needs --map, with the corrected mapping"
	skipElsewhere  = "another letter holds the line"
)

// ResubmitRejected decodes rejected records again, as if they stood in their files
// now, and marks their letters: what has become valid is published, what has not is
// rejected again, as a new letter. With kind they are taken to be of that kind, with
// Config.Map they are foreign objects. Letters that were given back before are left
// out unless the filter asks for them.
func ResubmitRejected(ctx context.Context, cfg Config, deps Deps, filter LetterFilter, kind record.Kind) (res Resubmission, err error) {
	if cfg, err = cfg.withDefaults(); err != nil {
		return res, err
	}
	deps = deps.withDefaults()
	if res, err = newResubmission(&cfg); err != nil {
		return res, err
	}
	r := resubmitter{
		kind: kind, run: res.Run, deps: deps, res: &res,
		tally: make(convert.Tally), given: make(map[string]bool), parts: make(map[string][]kafka.Message),
	}
	if kind != "" {
		if err := checkKind(kind); err != nil {
			return res, err
		}
	}
	if cfg.Map != "" {
		if kind != "" {
			return res, errors.New("a mapping says of what kind each record is: name either")
		}
		program, err := mapping.Load(cfg.Map)
		if err != nil {
			return res, err
		}
		r.mapper, r.kind = program, convert.Foreign
	}
	if err := ensureTopics(ctx, cfg, deps.Logger); err != nil {
		return res, err
	}
	var known *versions.Store
	if cfg.StateDir != "" {
		if known, err = openVersions(ctx, cfg, deps); err != nil {
			return res, err
		}
		defer func() { err = errors.Join(err, closeVersions(ctx, cfg, deps, known, bindTimeout)) }()
	}
	if r.revision, err = (&state{versions: known}).revision(ctx, cfg, deps); err != nil {
		return res, err
	}
	writer := newWriter(cfg, deps)
	defer func() { err = errors.Join(err, writer.Close()) }()
	r.marker = letters.Marker{Run: res.Run, Now: deps.Now, Write: writerOf(writer)}
	r.publisher = publish.New(ctx, writer, cfg.Lanes, publish.Options{Versions: known})

	scanned := EachLetter(ctx, cfg, false, untilNow(filter, deps), func(l Letter) error { return r.letter(ctx, l) })
	if err = errors.Join(scanned, r.publisher.Close()); err == nil {
		r.finish()
	}
	err = errors.Join(err, r.mark(ctx), r.marker.Flush(ctx))
	res.Kinds = kindCounts(r.tally)
	return res, err
}

// resubmitter gives rejected records back.
type resubmitter struct {
	kind      record.Kind // what they are taken to be; "" for what they were
	mapper    convert.Mapper
	revision  uint32
	run       string
	deps      Deps
	publisher *publish.Publisher
	marker    letters.Marker
	res       *Resubmission

	// given has the hashes of the records that were given back; parts the letters
	// that hold no record, by the hash of the record that another letter holds.
	given map[string]bool
	parts map[string][]kafka.Message

	mu     sync.Mutex
	tally  convert.Tally
	stored []Letter // and not marked yet
}

// letter gives one back, or says why it does not.
func (r *resubmitter) letter(ctx context.Context, l Letter) error {
	r.res.Letters++
	kind := l.Rejected.Kind
	if r.kind != "" {
		kind = r.kind
	}
	switch held := int64(len(l.Rejected.Raw)); {
	case l.Unreadable != nil:
		r.res.Skipped[skipUnreadable]++
		return nil //nolint:nilerr // the others are given back all the same
	case held == 0 && l.Rejected.Length > 0:
		r.parts[l.Rejected.SHA256] = append(r.parts[l.Rejected.SHA256], kafka.Message{
			Topic: l.Message.Topic, Partition: l.Message.Partition, Offset: l.Message.Offset,
		})
		return nil
	case held < l.Rejected.Length:
		r.res.Skipped[skipCut]++
		return nil
	case r.mapper == nil && (kind == convert.Foreign || l.Rejected.Mapped && r.kind == ""):
		r.res.Skipped[skipForeign]++
		return nil
	}
	from := l.Rejected.Source
	converter := convert.New(convert.Config{Kind: kind, Run: r.run, File: from.Name(), Revision: r.revision, Now: r.deps.Now, Mapper: r.mapper,
		Suppressed: r.deps.Suppressed, Asked: suppress.NewSet(r.deps.suppressionKey()), Via: "letter"})
	line := source.Line{Raw: l.Rejected.Raw, Number: from.Line, Offset: from.Offset}
	var tally convert.Tally
	var batch *publish.Batch
	batch = r.publisher.NewBatch(func(err error) {
		if err != nil {
			return // Close of the publisher says why
		}
		tally.Settle(batch.Outcomes())
		r.mu.Lock()
		defer r.mu.Unlock()
		for kind, c := range tally {
			r.tally.Add(kind, c)
		}
		r.stored = append(r.stored, Letter{Message: kafka.Message{
			Topic: l.Message.Topic, Partition: l.Message.Partition, Offset: l.Message.Offset,
		}})
	})
	if from.Line == 0 {
		// It stood on a topic, where the projector refused it: what is published is known
		// to be, and the projector has none of it.
		batch.Again()
	}
	tally, err := converter.Chunk(ctx, &source.Chunk{Lines: []source.Line{line}}, batch)
	if err != nil {
		return err
	}
	r.given[l.Rejected.SHA256] = true
	r.publisher.Publish(batch)
	return r.mark(ctx)
}

// mark marks what is stored.
func (r *resubmitter) mark(ctx context.Context) error {
	r.mu.Lock()
	stored := r.stored
	r.stored = nil
	r.mu.Unlock()
	for _, l := range stored {
		r.res.Resubmitted++
		if err := r.marker.Add(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// finish takes the letters along whose record another letter held.
func (r *resubmitter) finish() {
	for sum, parts := range r.parts {
		if !r.given[sum] {
			r.res.Skipped[skipElsewhere] += int64(len(parts))
			continue
		}
		for _, m := range parts {
			r.stored = append(r.stored, Letter{Message: m})
		}
	}
}
