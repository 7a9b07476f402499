package project

import (
	"github.com/segmentio/kafka-go"

	"muster/projector/erasure"
	"muster/projector/internal/rejected"
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

// kindVersionBump is the record kind under which messages of event.TopicVersionBump are counted and rejected.
const kindVersionBump record.Kind = "seen"

// worker decodes and renders a share of a batch.
type worker struct {
	renderer *readmodel.Renderer
	batch    readmodel.Batch
	erased   erasure.Filter
	rejected []rejected.Message
	counts   map[record.Kind]*count
}

type count struct{ records, tombstones, erased, bytes int }

func newWorker(platforms *identity.Platforms, suppressed *suppress.Set) *worker {
	return &worker{
		renderer: readmodel.NewRenderer(platforms), erased: erasure.Filter{Suppressed: suppressed},
		counts: make(map[record.Kind]*count),
	}
}

func (w *worker) reset() {
	w.batch.Reset()
	w.rejected, w.erased.Dropped = nil, nil
	clear(w.counts)
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
		at := positionOf(m)
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
			if rec != nil && w.erased.DropMisplaced(m, rec) { // Not published as rejected.
				c.erased++
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
		parts, invalid := rec.SplitEmbedded()
		for _, bad := range invalid {
			w.reject(m, kind, bad)
		}
		if w.erased.Drop(m, rec) {
			c.erased++
			continue // With its embedded records.
		}
		for _, r := range append(parts, rec) {
			if r != rec && w.erased.IsErased(r) { // A commit by another author.
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

// addVersionBump adds the row of a version bump: a newer version of a record with unchanged content.
func (w *worker) addVersionBump(m *kafka.Message, at readmodel.Position) error {
	s, version, err := event.ParseVersionBump(m.Value)
	if err != nil {
		return &record.ValidationError{Kind: kindVersionBump, Code: CodeBadPair, Reason: err.Error()}
	}
	if string(m.Key) != s.MessageKey() {
		return &record.ValidationError{Kind: kindVersionBump, Code: CodeKeyMismatch,
			Reason: "has a message key that is not its identity"}
	}
	if w.erased.DropVersionBump(m, s) {
		w.count(kindVersionBump).erased++
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
	w.rejected = append(w.rejected, rejected.Message{Message: m, Kind: kind, Err: err})
}

func positionOf(m *kafka.Message) readmodel.Position {
	return readmodel.Position{
		Topic: m.Topic, Partition: int32(m.Partition), Offset: m.Offset, //nolint:gosec // Kafka's partitions are int32.
	}
}
