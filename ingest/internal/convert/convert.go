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
	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"

	"muster/ingest/internal/publish"
	"muster/ingest/internal/source"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Counts are the outcomes of the records of one kind.
type Counts struct {
	// Read is the number of records in the input.
	Read int64 `json:"read,omitzero"`
	// Split is the number of records extracted from other records, or produced by a mapping from
	// source objects. It includes those that were then rejected.
	Split int64 `json:"split,omitzero"`
	// Published and Rejected are the numbers of messages on the kind's topic and on the topic of
	// rejected records.
	Published int64 `json:"published,omitzero"`
	Rejected  int64 `json:"rejected,omitzero"`
	// Seen, Unchanged and Stale are the numbers of records that the publisher did not publish
	// completely: publish.Outcome. Chunk counts them as Published.
	Seen      int64 `json:"seen,omitzero"`
	Unchanged int64 `json:"unchanged,omitzero"`
	Stale     int64 `json:"stale,omitzero"`
	// Conflicting is the number of stale records with the same version and different content.
	Conflicting int64 `json:"conflicting,omitzero"`
	// Mapped and Dropped are the numbers of source objects that the mapping converted to records, and that it
	// skipped. Dropped includes the records of erased people; Suppressed is their number.
	Mapped     int64 `json:"mapped,omitzero"`
	Dropped    int64 `json:"dropped,omitzero"`
	Suppressed int64 `json:"suppressed,omitzero"`
}

// SourceObject is the kind under which the inputs of a mapping, and objects that a source skips,
// are counted and rejected. They are not records.
const SourceObject record.Kind = "foreign"

// CountsByKind holds counts by kind.
type CountsByKind map[record.Kind]Counts

// Add adds the counts of one kind.
func (t CountsByKind) Add(kind record.Kind, c Counts) {
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

// ApplyOutcomes moves the records that were not published completely from Published to their outcome.
func (t CountsByKind) ApplyOutcomes(outcomes publish.Outcomes) {
	for kind, o := range outcomes {
		t.Add(kind, Counts{
			Published: -o.VersionOnly - o.Unchanged - o.Stale - o.Rejected,
			Seen:      o.VersionOnly, Unchanged: o.Unchanged, Stale: o.Stale, Conflicting: o.Conflicting,
			Rejected: o.Rejected,
		})
	}
}

// Config configures a [Converter].
type Config struct {
	Kind record.Kind
	Run  string
	File string
	// Revision is the mapping revision of the records.
	Revision uint32
	// Now returns the time of reception.
	Now func() time.Time
	// Mapper converts each object to records; Kind is then [SourceObject].
	Mapper Mapper
	// Rejected, if set, is called for every rejected record that is added to a batch, from any goroutine.
	Rejected func(event.Rejected)
	// Unknown, if set, counts the fields that are not in the records' schemas.
	Unknown *Unknown
	// Suppressed is the suppression set; nil suppresses no record. Requested has the erasures of
	// this run, which may not be in Suppressed yet, under the same key. The default is an empty set
	// whose key is not used elsewhere.
	Suppressed *suppress.Set
	Requested  *suppress.Set
	// Erased, if set, is called for every erasure that is added to a batch, from any goroutine. Via
	// is the channel recorded in the log of erasures.
	Erased func(event.Erasure)
	Via    string
}

// Mapper converts source objects to records.
type Mapper interface {
	// Map returns the records of one object, possibly none. An error is a *record.ValidationError or any
	// other, and concerns this object alone. If its kind is erasure, the object is omitted from the
	// rejected record. Map is safe for concurrent use.
	Map(ctx context.Context, object Object) ([]Mapped, error)
}

// Object is a source object and its location.
type Object struct {
	Raw      []byte
	File     string
	Number   int64
	Received time.Time
}

// Mapped is one record produced by a [Mapper].
type Mapped struct {
	Kind record.Kind
	JSON []byte
}

// Converter converts the lines of one input.
type Converter struct {
	Config
	source string
	fields schemaFields
}

// New returns a converter for one input.
func New(cfg Config) *Converter {
	// Headers and rejected records are UTF-8; file names need not be.
	cfg.File = strings.ToValidUTF8(cfg.File, "\uFFFD")
	if cfg.Requested == nil {
		cfg.Requested = suppress.NewSet(suppress.NoKey())
	}
	return &Converter{Config: cfg, source: "/ingest/" + cfg.Run + "/" + url.PathEscape(cfg.File)}
}

// Chunk adds the messages of a chunk's lines to a batch and counts them as if all were published.
// The chunk must not be released before the batch is complete. Messages carry the trace of ctx. It
// returns an error only if a message cannot be created at all.
func (c *Converter) Chunk(ctx context.Context, chunk *source.Chunk, batch *publish.Batch) (CountsByKind, error) {
	w := work{Converter: c, batch: batch, counts: make(CountsByKind, 4), now: c.Now().UTC()}
	w.headers = newHeaders(ctx, c, w.now)
	now := w.now
	batch.OnRejected(func(kind record.Kind, at publish.Position, m kafka.Message, _ error) (kafka.Message, error) {
		return c.rejectedByBroker(kind, at, m, now)
	})
	if chunk.Dropped > 0 {
		w.counts.Add(SourceObject, Counts{Read: chunk.Dropped, Dropped: chunk.Dropped})
	}
	for lines := range slices.Chunk(chunk.Lines, lookupBatchSize) {
		if err := w.convertLines(ctx, lines); err != nil {
			return nil, err
		}
	}
	return w.counts, nil
}

// work is the conversion of one chunk.
type work struct {
	*Converter
	batch   *publish.Batch
	counts  CountsByKind
	now     time.Time
	headers *headers
}

// lookupBatchSize is how many lines are decoded before they are looked up in the suppression set.
// Single lookups cost more; larger batches do not stay in the CPU caches until they are published.
const lookupBatchSize = 16

// convertLines converts up to lookupBatchSize lines, in order.
func (w *work) convertLines(ctx context.Context, convertLines []source.Line) error {
	var decoded [lookupBatchSize]decodedLine
	erased := w.Suppressed.Batch()
	for i, line := range convertLines {
		decoded[i] = w.decode(line)
		erased.Add(decoded[i].record)
	}
	var found [lookupBatchSize]suppress.Found
	erased.Found(found[:len(convertLines)])
	for i, line := range convertLines {
		if err := w.convertLine(ctx, line, decoded[i], found[i]); err != nil {
			return fmt.Errorf("%s: line %d: %w", w.File, line.Number, err)
		}
	}
	return nil
}

// decodedLine is the result of decoding a line. Both fields are nil if the line is not to be decoded.
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
	if line.Oversize == nil && line.Bad == nil && (kind != SourceObject || w.Mapper == nil) {
		d.record, d.err = record.Decode(kind, line.Raw)
	}
	return d
}

func (w *work) convertLine(ctx context.Context, convertLine source.Line, d decodedLine, found suppress.Found) error {
	kind := w.kindOf(convertLine)
	w.counts.Add(kind, Counts{Read: 1})
	bad := d.err
	switch {
	case convertLine.Oversize != nil:
		bad = tooLarge(kind)
	case convertLine.Bad != nil:
		invalid := *convertLine.Bad
		invalid.Kind = kind
		bad = &invalid
	}
	switch {
	case bad != nil:
		if convertLine.Oversize == nil && convertLine.Bad == nil {
			w.countUnknownRejected(convertLine, kind, convertLine.Raw)
			bad = w.addSuggestions(kind, convertLine.Raw, bad)
		}
		return w.reject(newRejection(convertLine), kind, 0, bad)
	case kind == SourceObject && w.Mapper != nil:
		return w.publishMapped(ctx, convertLine)
	case kind == record.KindErasure:
		w.countUnknown(convertLine, kind, d.record.JSON)
		return w.publishErasure(convertLine, d.record)
	}
	_, err := w.publishRecord(&rejections{line: convertLine}, d.record, found, 0)
	return err
}

// publishMapped publishes all records that the mapping produces from a source object, or none if
// the mapping fails.
func (w *work) publishMapped(ctx context.Context, line source.Line) error {
	records, err := w.Mapper.Map(ctx, Object{Raw: line.Raw, File: w.File, Number: line.Number, Received: w.now})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		l := newRejection(line)
		if bad, ok := record.AsValidationError(err); ok && bad.Kind == record.KindErasure {
			l.raw = nil
		}
		return w.reject(l, SourceObject, 0, err)
	}
	if len(records) == 0 {
		w.counts.Add(SourceObject, Counts{Dropped: 1})
		return nil
	}
	w.counts.Add(SourceObject, Counts{Mapped: 1})
	part := 0
	rejected := &rejections{line: line, mapped: true}
	for _, m := range records {
		w.counts.Add(m.Kind, Counts{Split: 1})
		main, err := record.Decode(m.Kind, m.JSON)
		if err != nil {
			w.countUnknownRejected(line, m.Kind, m.JSON)
			err = w.reject(rejected.next(), m.Kind, part, w.addSuggestions(m.Kind, m.JSON, err))
			part++
		} else {
			var found suppress.Found
			found.Hash, found.Hit = w.Suppressed.Record(main)
			part, err = w.publishRecord(rejected, main, found, part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// publishRecord publishes a record and the records extracted from it, unless the suppression set
// matched it. Messages are numbered from part; it returns the next number.
func (w *work) publishRecord(rejected *rejections, main *record.Record, found suppress.Found, part int) (int, error) {
	line := rejected.line
	w.countUnknown(line, main.Kind, main.JSON)
	main.Revision = w.Revision
	parts, bad := main.SplitEmbedded()
	if found.Hit {
		return part + 1, w.dropSuppressed(line, main, parts, found.Hash, part)
	}
	w.addRecord(line, part, main)
	part++
	suppressed := w.findSuppressedParts(parts)
	for i, split := range parts {
		w.counts.Add(split.Kind, Counts{Split: 1})
		if suppressed != nil && suppressed[i].Hit { // a commit with another person's address
			w.counts.Add(split.Kind, Counts{Dropped: 1, Suppressed: 1})
			continue
		}
		w.addRecord(line, part, split)
		part++
	}
	for _, reason := range bad {
		w.counts.Add(reason.Kind, Counts{Split: 1})
		if err := w.reject(rejected.next(), reason.Kind, part, reason); err != nil {
			return part, err
		}
		part++
	}
	return part, nil
}

// publishErasure publishes an erasure request: an entry of the suppression set for each identifier, and an
// event in the log of requests. Neither contains an identifier. Entries that the set already has,
// in this version or a newer one, are not published again.
func (w *work) publishErasure(line source.Line, rec *record.Record) error {
	request := rec.Body.(*record.Erasure) // Decode sets this type for the kind
	if err := w.Suppressed.CheckOwner(); err != nil {
		return err
	}
	identifiers, bad := w.Requested.Key().Request(request)
	if bad != nil {
		return w.reject(newRejection(line), record.KindErasure, 0, bad)
	}
	scope := suppress.Scope(request.Scope)
	if scope == "" {
		scope = suppress.All
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("create a request ID: %w", err)
	}
	logged := event.Erasure{
		RequestID: "er_" + id.String(), Action: event.ErasureRequested, At: w.now,
		RequestedAt: rec.VersionText, Scope: string(scope),
		By: truncate(request.RequestedBy), Via: w.Via, Place: fmt.Sprintf("%s:%d", w.File, line.Number),
		Note: truncate(request.Note), Urgent: request.Urgent,
	}
	if rec.Deleted {
		logged.Action, logged.Scope = event.ErasureWithdrawn, ""
	}
	part, older := 0, false
	var messages []kafka.Message
	for _, i := range identifiers {
		entry := suppress.Entry{
			Type: i.Type, Scope: scope, RequestedAt: rec.VersionText, RequestID: logged.RequestID,
			Unsuppressed: rec.Deleted, Key: w.Requested.Key().ID(), Mark: i.Mark,
		}
		order, err := w.compare(i.Hash, &entry)
		if err != nil {
			return err
		}
		older = older || order < 0
		if order <= 0 {
			continue
		}
		m, err := EntryMessage(i.Hash, entry)
		if err != nil {
			return err
		}
		if err := w.Requested.Apply(m.Key, m.Value); err != nil {
			return err
		}
		m.Headers = w.headers.forMessage(event.TypeSuppression, line, part)
		messages = append(messages, m)
		part++
		logged.Identifiers = append(logged.Identifiers,
			event.ErasureIdentifier{Type: string(i.Type), Hash: i.Hash.String()})
	}
	switch {
	case len(messages) > 0:
		w.counts.Add(record.KindErasure, Counts{Published: 1})
	case older:
		w.counts.Add(record.KindErasure, Counts{Stale: 1})
		return nil
	default:
		w.counts.Add(record.KindErasure, Counts{Unchanged: 1})
		return nil
	}
	value, err := json.Marshal(logged)
	if err != nil {
		return fmt.Errorf("encode erasure: %w", err)
	}
	w.batch.Add(kafka.Message{
		Topic: event.TopicErasureRequest, Key: []byte(logged.RequestID), Value: value,
		Headers: w.headers.forMessage(event.TypeErasureRequest, line, part),
	})
	for _, m := range messages {
		w.batch.Add(m)
	}
	if w.Erased != nil {
		w.Erased(logged)
	}
	return nil
}

// compare reports whether an entry is newer than the known one (1), the same (0) or older (-1).
func (w *work) compare(h suppress.Hash, e *suppress.Entry) (int, error) {
	order, err := w.Requested.Compare(h, e)
	if err != nil || order <= 0 || w.Suppressed == nil {
		return order, err
	}
	return w.Suppressed.Compare(h, e)
}

// EntryMessage returns the message of an entry of the suppression set.
func EntryMessage(h suppress.Hash, e suppress.Entry) (kafka.Message, error) {
	value, err := json.Marshal(e)
	if err != nil {
		return kafka.Message{}, fmt.Errorf("encode suppression entry: %w", err)
	}
	return kafka.Message{Topic: event.TopicErasure, Key: []byte(h.String()), Value: value}, nil
}

// dropSuppressed drops the record of an erased person, with the records extracted from it. It
// suppresses the record's identity as well: so older stored versions stay hidden, and newer ones
// that no longer have the requested identifier.
func (w *work) dropSuppressed(
	line source.Line, main *record.Record, parts []*record.Record, by suppress.Hash, part int,
) error {
	w.counts.Add(main.Kind, Counts{Dropped: 1, Suppressed: 1})
	for _, p := range parts {
		w.counts.Add(p.Kind, Counts{Split: 1, Dropped: 1, Suppressed: 1})
	}
	s, ok := suppress.SubjectOf(main)
	if !ok {
		return nil
	}
	derived, entry, ok := w.Suppressed.Derive(s.Platform, s.ID, by)
	if !ok || w.Requested.Suppressed(derived) {
		return nil
	}
	m, err := EntryMessage(derived, entry)
	if err != nil {
		return err
	}
	if err := w.Requested.Apply(m.Key, m.Value); err != nil {
		return err
	}
	m.Headers = w.headers.forMessage(event.TypeSuppression, line, part)
	w.batch.Add(m)
	return nil
}

// findSuppressedParts looks up the records extracted from a record that is not suppressed. It
// returns nil if there is nothing to look up. Repositories and lists have no identifier other than
// the owner's, which was looked up before.
func (w *work) findSuppressedParts(parts []*record.Record) []suppress.Found {
	if len(parts) == 0 || w.Suppressed.Len() == 0 {
		return nil
	}
	erased := w.Suppressed.Batch()
	for _, p := range parts {
		if p.Kind != record.KindCodehostCommit {
			p = nil
		}
		erased.Add(p)
	}
	found := make([]suppress.Found, len(parts))
	erased.Found(found)
	return found
}

func (w *work) countUnknown(line source.Line, kind record.Kind, compact []byte) {
	if w.Unknown != nil {
		w.Unknown.add(kind, compact, w.location(line))
	}
}

func (w *work) countUnknownRejected(line source.Line, kind record.Kind, raw []byte) {
	if w.Unknown == nil {
		return
	}
	if compact, ok := compactObject(raw); ok {
		w.Unknown.add(kind, compact, w.location(line))
	}
}

// location returns the location of a line.
func (w *work) location(line source.Line) event.Source {
	return event.Source{Run: w.Run, File: w.File, Line: line.Number, Offset: line.Offset}
}

func tooLarge(kind record.Kind) *record.ValidationError {
	return &record.ValidationError{Kind: kind, Code: record.CodeTooLarge, Reason: "is larger than 1 MiB"}
}

// rejectedByBroker returns the rejected record for a record that the brokers did not accept. It has
// the record as it was to be published.
func (c *Converter) rejectedByBroker(
	kind record.Kind, at publish.Position, m kafka.Message, now time.Time,
) (kafka.Message, error) {
	location := event.Source{Run: c.Run, File: c.File, Line: at.Line, Offset: at.Offset}
	rejected := event.NewRejected(kind, location, m.Value, &record.ValidationError{
		Kind: kind, Code: record.CodeTooLarge, Reason: "is larger than the max.message.bytes of the topic " + m.Topic,
	}, now)
	value, err := json.Marshal(rejected)
	if err != nil {
		return m, fmt.Errorf("encode rejected record: %w", err)
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
	return kafka.Message{Topic: event.TopicRejected, Key: []byte(location.Name()), Value: value, Headers: headers}, nil
}

// addRecord adds the message of a record, number part of its line. The message fits the default
// topic limit, which is twice the size limit of records.
func (w *work) addRecord(line source.Line, part int, r *record.Record) {
	w.counts.Add(r.Kind, Counts{Published: 1})
	w.batch.AddRecord(kafka.Message{
		Topic:   r.Kind.Topic(),
		Key:     []byte(r.Key),
		Value:   r.JSON,
		Headers: w.headers.forMessage(event.RecordType(r.Kind), line, part),
	}, r, publish.Position{Line: line.Number, Offset: line.Offset})
}

// rejection is what a rejected record stores of its line.
type rejection struct {
	line   source.Line
	raw    []byte
	sum    string
	length int64
	mapped bool
}

// rejections creates the rejected records of one line. Only the first stores the line: a line with
// thousands of invalid entries must not be stored thousands of times. For a mapping it stores the
// source object, so that a corrected mapping can be applied to it.
type rejections struct {
	line   source.Line
	mapped bool
	first  *rejection
}

func (l *rejections) next() rejection {
	if l.first != nil {
		next := *l.first
		next.raw = nil
		return next
	}
	first := newRejection(l.line)
	first.mapped = l.mapped
	l.first = &first
	return first
}

func newRejection(line source.Line) rejection {
	l := rejection{line: line, raw: line.Raw, length: int64(len(line.Raw))}
	if line.Oversize != nil {
		l.sum, l.length = hex.EncodeToString(line.Oversize.SHA256[:]), line.Oversize.Length
		return l
	}
	sum := sha256.Sum256(line.Raw)
	l.sum = hex.EncodeToString(sum[:])
	return l
}

// reject adds a rejected record, number part of its line. A rejected erasure stores only the
// location, because the line identifies the person.
func (w *work) reject(l rejection, kind record.Kind, part int, reason error) error {
	if kind == record.KindErasure {
		l.raw = nil
	}
	location := w.location(l.line)
	rejected := event.NewRejectedPart(kind, location, l.raw, l.sum, l.length, reason, w.now)
	rejected.Path, rejected.Reason, rejected.Mapped = truncate(rejected.Path), truncate(rejected.Reason), l.mapped
	for i := range rejected.Defects {
		d := &rejected.Defects[i]
		d.Path, d.Reason = truncate(d.Path), truncate(d.Reason)
	}
	value, err := json.Marshal(rejected)
	if err != nil {
		return fmt.Errorf("encode rejected record: %w", err)
	}
	w.counts.Add(kind, Counts{Rejected: 1})
	if w.Rejected != nil {
		w.Rejected(rejected)
	}
	w.batch.Add(kafka.Message{
		Topic:   event.TopicRejected,
		Key:     []byte(location.Name()),
		Value:   value,
		Headers: w.headers.forMessage(event.TypeRejected, l.line, part),
	})
	return nil
}

// maxTextBytes limits the strings of a rejected record: a path has names from the record, of any length.
const maxTextBytes = 1 << 10

func truncate(s string) string {
	const cut = "..."
	if len(s) > maxTextBytes {
		s = s[:maxTextBytes-len(cut)] + cut
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
