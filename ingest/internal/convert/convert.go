package convert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/ingest/internal/publish"
	"muster/ingest/internal/source"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Counts are what happened to the records of one kind.
type Counts struct {
	// Read is the number of records in the input.
	Read int64 `json:"read,omitzero"`
	// Split is the number of records that came out of other records, or that a
	// mapping made of foreign objects, those that were then rejected included.
	Split int64 `json:"split,omitzero"`
	// Published and Rejected are numbers of messages on the kind's topic and on
	// the topic of rejected records.
	Published int64 `json:"published,omitzero"`
	Rejected  int64 `json:"rejected,omitzero"`
	// Seen, Unchanged and Stale are numbers of records that the publisher did not
	// publish whole: publish.Outcome. Chunk counts them as Published.
	Seen      int64 `json:"seen,omitzero"`
	Unchanged int64 `json:"unchanged,omitzero"`
	Stale     int64 `json:"stale,omitzero"`
	// Conflicting is how many of the stale ones have the version of what is known and
	// other content.
	Conflicting int64 `json:"conflicting,omitzero"`
	// Mapped and Dropped are of [Foreign] objects: those of which the mapping
	// made records, and those of which it made none. Dropped also has the records of
	// people who were erased, Suppressed how many of the dropped ones those are.
	Mapped     int64 `json:"mapped,omitzero"`
	Dropped    int64 `json:"dropped,omitzero"`
	Suppressed int64 `json:"suppressed,omitzero"`
}

// Foreign is the kind under which objects are counted, and rejected, that a
// mapping reads, and those that a source passes over: they are no records.
const Foreign record.Kind = "foreign"

// Tally holds counts by kind.
type Tally map[record.Kind]Counts

// Add adds the counts of one kind.
func (t Tally) Add(kind record.Kind, c Counts) {
	sum := t[kind]
	sum.Read += c.Read
	sum.Split += c.Split
	sum.Published += c.Published
	sum.Rejected += c.Rejected
	sum.Seen += c.Seen
	sum.Unchanged += c.Unchanged
	sum.Stale += c.Stale
	sum.Conflicting += c.Conflicting
	sum.Mapped += c.Mapped
	sum.Dropped += c.Dropped
	sum.Suppressed += c.Suppressed
	t[kind] = sum
}

// Settle moves the records that were not published whole to where they belong.
func (t Tally) Settle(outcomes publish.Outcomes) {
	for kind, o := range outcomes {
		t.Add(kind, Counts{
			Published: -o.Seen - o.Unchanged - o.Stale - o.Refused,
			Seen:      o.Seen, Unchanged: o.Unchanged, Stale: o.Stale, Conflicting: o.Conflicting, Rejected: o.Refused,
		})
	}
}

// Config says where lines come from and where their messages go.
type Config struct {
	Kind record.Kind
	Run  string
	File string
	// Revision is the mapping revision of the records.
	Revision uint32
	// Now tells the time of reception.
	Now func() time.Time
	// Mapper makes records of each object; Kind is then [Foreign].
	Mapper Mapper
	// Rejected, if set, is told of every rejected record that is added to a
	// batch, from any goroutine.
	Rejected func(event.Rejected)
	// Unknown, if set, counts the members that the records' schemas do not have.
	Unknown *Unknown
	// Suppressed says who was erased; nil: nobody. Asked has the erasures of this run
	// that may not be in it yet, by the same key; by default none, under a key of no
	// use.
	Suppressed *suppress.Set
	Asked      *suppress.Set
	// Erased, if set, is told of every erasure that is added to a batch, from any
	// goroutine. Via is the way in, for the log of erasures.
	Erased func(event.Erasure)
	Via    string
}

// Mapper makes records of a foreign object.
type Mapper interface {
	// Map returns the records of one object, none if it has none. The error is a
	// *record.Invalid or any other, and concerns this object alone. Of kind erasure it
	// keeps the object out of its letter. It is called from any number of goroutines.
	Map(ctx context.Context, object Object) ([]Mapped, error)
}

// Object is a foreign object and its place.
type Object struct {
	Raw      []byte
	File     string
	Number   int64
	Received time.Time
}

// Mapped is one record that a [Mapper] made.
type Mapped struct {
	Kind record.Kind
	JSON []byte
}

// Converter converts the lines of one input.
type Converter struct {
	Config
	source string
	names  names
}

// New returns a converter for one input.
func New(cfg Config) *Converter {
	// Headers and letters are UTF-8; names of files need not be.
	cfg.File = strings.ToValidUTF8(cfg.File, "\uFFFD")
	if cfg.Asked == nil {
		cfg.Asked = suppress.NewSet(suppress.NoKey())
	}
	return &Converter{Config: cfg, source: "/ingest/" + cfg.Run + "/" + url.PathEscape(cfg.File)}
}

// Chunk adds the messages of a chunk's lines to a batch and counts them as if
// all of them arrived. The chunk must not be released before the batch is
// settled. The trace of ctx is passed on with the messages. An error says that a
// message cannot be made at all.
func (c *Converter) Chunk(ctx context.Context, chunk *source.Chunk, batch *publish.Batch) (Tally, error) {
	w := work{Converter: c, batch: batch, tally: make(Tally, 4), now: c.Now().UTC()}
	w.headers = newHeaders(ctx, c, w.now)
	now := w.now
	batch.OnRefused(func(kind record.Kind, at publish.Place, m kafka.Message, _ error) (kafka.Message, error) {
		return c.refused(kind, at, m, now)
	})
	if chunk.Dropped > 0 {
		w.tally.Add(Foreign, Counts{Read: chunk.Dropped, Dropped: chunk.Dropped})
	}
	for lines := range slices.Chunk(chunk.Lines, askedAtOnce) {
		if err := w.lines(ctx, lines); err != nil {
			return nil, err
		}
	}
	return w.tally, nil
}

// work is the conversion of one chunk.
type work struct {
	*Converter
	batch   *publish.Batch
	tally   Tally
	now     time.Time
	headers *headers
}

// askedAtOnce is how many lines are decoded before it is looked up whether they are
// of erased people: one after the other costs more, and many do not stay in the
// processor's caches until they are published.
const askedAtOnce = 16

// lines converts some lines, in their order.
func (w *work) lines(ctx context.Context, lines []source.Line) error {
	var decoded [askedAtOnce]decodedLine
	erased := w.Suppressed.Batch()
	for i, line := range lines {
		decoded[i] = w.decode(line)
		erased.Add(decoded[i].record)
	}
	var found [askedAtOnce]suppress.Found
	erased.Found(found[:len(lines)])
	for i, line := range lines {
		if err := w.line(ctx, line, decoded[i], found[i]); err != nil {
			return fmt.Errorf("%s: line %d: %w", w.File, line.Number, err)
		}
	}
	return nil
}

// decodedLine is what a line is as a record of the kind that it should be; neither, if
// it is not to be decoded.
type decodedLine struct {
	record *record.Record
	err    error
}

func (w *work) kindOf(line source.Line) record.Kind {
	if line.Kind != "" {
		return line.Kind
	}
	return w.Kind
}

func (w *work) decode(line source.Line) (d decodedLine) {
	kind := w.kindOf(line)
	if line.Oversize == nil && line.Bad == nil && (kind != Foreign || w.Mapper == nil) {
		d.record, d.err = record.Decode(kind, line.Raw)
	}
	return d
}

func (w *work) line(ctx context.Context, line source.Line, d decodedLine, found suppress.Found) error {
	kind := w.kindOf(line)
	w.tally.Add(kind, Counts{Read: 1})
	bad := d.err
	switch {
	case line.Oversize != nil:
		bad = tooLarge(kind)
	case line.Bad != nil:
		because := *line.Bad
		because.Kind = kind
		bad = &because
	}
	switch {
	case bad != nil:
		if line.Oversize == nil && line.Bad == nil {
			w.unknownOfRejected(line, kind, line.Raw)
			bad = w.explain(kind, line.Raw, bad)
		}
		return w.reject(newLetter(line), kind, 0, bad)
	case kind == Foreign && w.Mapper != nil:
		return w.mapped(ctx, line)
	case kind == record.KindErasure:
		w.unknown(line, kind, d.record.JSON)
		return w.erasure(line, d.record)
	}
	_, err := w.take(&letters{line: line}, d.record, found, 0)
	return err
}

// mapped publishes what the mapping makes of a foreign object: all of it, or
// nothing when the mapping fails.
func (w *work) mapped(ctx context.Context, line source.Line) error {
	made, err := w.Mapper.Map(ctx, Object{Raw: line.Raw, File: w.File, Number: line.Number, Received: w.now})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		l := newLetter(line)
		if bad, ok := record.AsInvalid(err); ok && bad.Kind == record.KindErasure {
			l.raw = nil
		}
		return w.reject(l, Foreign, 0, err)
	}
	if len(made) == 0 {
		w.tally.Add(Foreign, Counts{Dropped: 1})
		return nil
	}
	w.tally.Add(Foreign, Counts{Mapped: 1})
	part := 0
	rejected := &letters{line: line, mapped: true}
	for _, m := range made {
		w.tally.Add(m.Kind, Counts{Split: 1})
		main, err := record.Decode(m.Kind, m.JSON)
		if err != nil {
			w.unknownOfRejected(line, m.Kind, m.JSON)
			err = w.reject(rejected.next(), m.Kind, part, w.explain(m.Kind, m.JSON, err))
			part++
		} else {
			var found suppress.Found
			found.Hash, found.Hit = w.Suppressed.Record(main)
			part, err = w.take(rejected, main, found, part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// take publishes a record and what is split off from it, unless the suppression set was
// found to have it. Its messages are numbered from part; it returns the number that
// follows.
func (w *work) take(rejected *letters, main *record.Record, found suppress.Found, part int) (int, error) {
	line := rejected.line
	w.unknown(line, main.Kind, main.JSON)
	main.Revision = w.Revision
	parts, bad := main.Split()
	if found.Hit {
		return part + 1, w.suppressed(line, main, parts, found.Hash, part)
	}
	w.publish(line, part, main)
	part++
	of := w.suppressedParts(parts)
	for i, split := range parts {
		w.tally.Add(split.Kind, Counts{Split: 1})
		if of != nil && of[i].Hit { // a commit by the address of somebody else
			w.tally.Add(split.Kind, Counts{Dropped: 1, Suppressed: 1})
			continue
		}
		w.publish(line, part, split)
		part++
	}
	for _, reason := range bad {
		w.tally.Add(reason.Kind, Counts{Split: 1})
		if err := w.reject(rejected.next(), reason.Kind, part, reason); err != nil {
			return part, err
		}
		part++
	}
	return part, nil
}

func (w *work) unknown(line source.Line, kind record.Kind, compact []byte) {
	if w.Unknown != nil {
		w.Unknown.add(kind, compact, w.place(line))
	}
}

func (w *work) unknownOfRejected(line source.Line, kind record.Kind, raw []byte) {
	if w.Unknown == nil {
		return
	}
	if compact, ok := compactObject(raw); ok {
		w.Unknown.add(kind, compact, w.place(line))
	}
}

// place is where a line stands.
func (w *work) place(line source.Line) event.Source {
	return event.Source{Run: w.Run, File: w.File, Line: line.Number, Offset: line.Offset}
}

func tooLarge(kind record.Kind) *record.Invalid {
	return &record.Invalid{Kind: kind, Code: record.CodeTooLarge, Reason: "is larger than 1 MiB"}
}

// refused makes the letter of a record that the brokers do not take. It holds the
// record as it was to be published.
func (c *Converter) refused(kind record.Kind, at publish.Place, m kafka.Message, now time.Time) (kafka.Message, error) {
	place := event.Source{Run: c.Run, File: c.File, Line: at.Line, Offset: at.Offset}
	rejected := event.NewRejected(kind, place, m.Value, &record.Invalid{
		Kind: kind, Code: record.CodeTooLarge, Reason: "is larger than the max.message.bytes of the topic " + m.Topic,
	}, now)
	value, err := json.Marshal(rejected)
	if err != nil {
		return m, fmt.Errorf("write rejected record: %w", err)
	}
	if c.Rejected != nil {
		c.Rejected(rejected)
	}
	headers := slices.Clone(m.Headers)
	for h := range headers {
		if headers[h].Key == bus.HeaderType {
			headers[h].Value = []byte(event.TypeRejected)
		}
	}
	return kafka.Message{Topic: event.TopicRejected, Key: []byte(place.Name()), Value: value, Headers: headers}, nil
}

// publish adds the message of a record, the part-th of its line. It fits into
// Kafka's limit, which is twice that of a record, unless an operator has set another.
func (w *work) publish(line source.Line, part int, r *record.Record) {
	w.tally.Add(r.Kind, Counts{Published: 1})
	w.batch.AddRecord(kafka.Message{
		Topic:   r.Kind.Topic(),
		Key:     []byte(r.Key),
		Value:   r.JSON,
		Headers: w.headers.of(event.RecordType(r.Kind), line, part),
	}, r, publish.Place{Line: line.Number, Offset: line.Offset})
}

// letter is what a rejected record is told about the line it stands in.
type letter struct {
	line   source.Line
	raw    []byte
	sum    string
	length int64
	mapped bool
}

// letters makes the letters of one line. Only the first of them holds the line: thousands of bad entries
// must not store it thousands of times. Of a mapping that is the object that it read, so that a corrected
// one can be tried on it.
type letters struct {
	line   source.Line
	mapped bool
	first  *letter
}

func (l *letters) next() letter {
	if l.first != nil {
		next := *l.first
		next.raw = nil
		return next
	}
	first := newLetter(l.line)
	first.mapped = l.mapped
	l.first = &first
	return first
}

func newLetter(line source.Line) letter {
	l := letter{line: line, raw: line.Raw, length: int64(len(line.Raw))}
	if line.Oversize != nil {
		l.sum, l.length = hex.EncodeToString(line.Oversize.SHA256[:]), line.Oversize.Length
		return l
	}
	sum := sha256.Sum256(line.Raw)
	l.sum = hex.EncodeToString(sum[:])
	return l
}

// reject adds a letter, the message that is the part-th of its line. That of an erasure
// keeps the place and not the line, which names who is to be forgotten.
func (w *work) reject(l letter, kind record.Kind, part int, reason error) error {
	if kind == record.KindErasure {
		l.raw = nil
	}
	place := w.place(l.line)
	rejected := event.NewRejectedPart(kind, place, l.raw, l.sum, l.length, reason, w.now)
	rejected.Path, rejected.Reason, rejected.Mapped = brief(rejected.Path), brief(rejected.Reason), l.mapped
	for i := range rejected.Defects {
		d := &rejected.Defects[i]
		d.Path, d.Reason = brief(d.Path), brief(d.Reason)
	}
	value, err := json.Marshal(rejected)
	if err != nil {
		return fmt.Errorf("write rejected record: %w", err)
	}
	w.tally.Add(kind, Counts{Rejected: 1})
	if w.Rejected != nil {
		w.Rejected(rejected)
	}
	w.batch.Add(kafka.Message{
		Topic:   event.TopicRejected,
		Key:     []byte(place.Name()),
		Value:   value,
		Headers: w.headers.of(event.TypeRejected, l.line, part),
	})
	return nil
}

// maxText bounds what a letter says: a path holds names out of the record, which
// may be anything of any length.
const maxText = 1 << 10

func brief(s string) string {
	const cut = "..."
	if len(s) > maxText {
		s = s[:maxText-len(cut)] + cut
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
