package convert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/ingest/internal/publish"
	"muster/ingest/internal/source"
	"muster/schemas/event"
	"muster/schemas/record"
)

// Counts are what happened to the records of one kind.
type Counts struct {
	// Read is the number of records in the input.
	Read int64
	// Split is the number of records that came out of other records, those
	// that were then rejected included.
	Split int64
	// Published and Rejected are numbers of messages on the kind's topic and on
	// the topic of rejected records.
	Published int64
	Rejected  int64
}

// Tally holds counts by kind.
type Tally map[record.Kind]Counts

// Add adds the counts of one kind.
func (t Tally) Add(kind record.Kind, c Counts) {
	sum := t[kind]
	sum.Read += c.Read
	sum.Split += c.Split
	sum.Published += c.Published
	sum.Rejected += c.Rejected
	t[kind] = sum
}

// Config says where lines come from and where their messages go.
type Config struct {
	Kind record.Kind
	Run  string
	File string
	// Now tells the time of reception.
	Now func() time.Time
}

// Converter converts the lines of one input.
type Converter struct {
	Config
	source string
}

// New returns a converter for one input.
func New(cfg Config) *Converter {
	// Headers and letters are UTF-8; names of files need not be.
	cfg.File = strings.ToValidUTF8(cfg.File, "\uFFFD")
	return &Converter{Config: cfg, source: "/ingest/" + cfg.Run + "/" + url.PathEscape(cfg.File)}
}

// Chunk adds the messages of a chunk's lines to a batch and counts them as if
// all of them arrived. The chunk must not be released before the batch is
// settled. The trace of ctx is passed on with the messages. An error says that a
// message cannot be made at all.
func (c *Converter) Chunk(ctx context.Context, chunk *source.Chunk, batch *publish.Batch) (Tally, error) {
	w := work{Converter: c, batch: batch, tally: make(Tally, 4), now: c.Now().UTC()}
	w.headers = newHeaders(ctx, c, w.now)
	for _, line := range chunk.Lines {
		if err := w.line(line); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", c.File, line.Number, err)
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

func (w *work) line(line source.Line) error {
	w.tally.Add(w.Kind, Counts{Read: 1})
	if line.Oversize != nil {
		return w.reject(newLetter(line), 0, tooLarge(w.Kind))
	}
	main, err := record.Decode(w.Kind, line.Raw)
	if err != nil {
		return w.reject(newLetter(line), 0, err)
	}
	parts, bad := main.Split()
	w.publish(line, 0, main)
	for i, part := range parts {
		w.tally.Add(part.Kind, Counts{Split: 1})
		w.publish(line, i+1, part)
	}
	if len(bad) == 0 {
		return nil
	}
	letter := newLetter(line)
	for i, reason := range bad {
		w.tally.Add(reason.Kind, Counts{Split: 1})
		if err := w.reject(letter, len(parts)+1+i, reason); err != nil {
			return err
		}
		// The first letter holds the line; thousands of bad entries must not
		// store it thousands of times.
		letter.raw = nil
	}
	return nil
}

func tooLarge(kind record.Kind) *record.Invalid {
	return &record.Invalid{Kind: kind, Code: record.CodeTooLarge, Reason: "is larger than 1 MiB"}
}

// publish adds the message of a record, the part-th of its line. It fits into
// Kafka's limit, which is twice that of a record.
func (w *work) publish(line source.Line, part int, r *record.Record) {
	w.tally.Add(r.Kind, Counts{Published: 1})
	w.batch.Add(kafka.Message{
		Topic:   r.Kind.Topic(),
		Key:     []byte(r.Key),
		Value:   r.JSON,
		Headers: w.headers.of(event.RecordType(r.Kind), line.Number, part),
	})
}

// letter is what a rejected record is told about the line it stands in.
type letter struct {
	line   source.Line
	raw    []byte
	sum    string
	length int64
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

// reject adds a letter, the message that is the part-th of its line.
func (w *work) reject(l letter, part int, reason error) error {
	kind := w.Kind
	if bad, ok := record.AsInvalid(reason); ok {
		kind = bad.Kind
	}
	place := event.Source{Run: w.Run, File: w.File, Line: l.line.Number, Offset: l.line.Offset}
	rejected := event.NewRejectedPart(kind, place, l.raw, l.sum, l.length, reason, w.now)
	rejected.Path, rejected.Reason = brief(rejected.Path), brief(rejected.Reason)
	value, err := json.Marshal(rejected)
	if err != nil {
		return fmt.Errorf("write rejected record: %w", err)
	}
	w.tally.Add(kind, Counts{Rejected: 1})
	w.batch.Add(kafka.Message{
		Topic:   event.TopicRejected,
		Key:     []byte(place.Name()),
		Value:   value,
		Headers: w.headers.of(event.TypeRejected, l.line.Number, part),
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
