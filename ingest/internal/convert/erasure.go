package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"

	"muster/ingest/internal/source"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// erasure publishes an order to forget somebody: an entry of the suppression set
// for each identifier, and an event of the log. Neither holds an identifier. What
// the set knows already, or newer, is not published again.
func (w *work) erasure(line source.Line, rec *record.Record) error {
	request := rec.Body.(*record.Erasure) // what Decode gives for the kind
	if err := w.Suppressed.Ours(); err != nil {
		return err
	}
	identifiers, bad := hashes(w.Asked.Key(), request)
	if bad != nil {
		return w.reject(newLetter(line), record.KindErasure, 0, bad)
	}
	scope := suppress.Scope(request.Scope)
	if scope == "" {
		scope = suppress.All
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make a request id: %w", err)
	}
	logged := event.Erasure{
		RequestID: "er_" + id.String(), Action: event.ErasureRequested, At: w.now, RequestedAt: rec.VersionText, Scope: string(scope),
		By: brief(request.RequestedBy), Via: w.Via, Place: fmt.Sprintf("%s:%d", w.File, line.Number), Note: brief(request.Note), Urgent: request.Urgent,
	}
	if rec.Deleted {
		logged.Action, logged.Scope = event.ErasureWithdrawn, ""
	}
	part, older := 0, false
	var messages []kafka.Message
	for _, i := range identifiers {
		entry := suppress.Entry{
			Type: i.typ, Scope: scope, RequestedAt: rec.VersionText, RequestID: logged.RequestID, Lifted: rec.Deleted, Key: w.Asked.Key().ID(), Mark: i.mark,
		}
		order, err := w.compare(i.hash, &entry)
		if err != nil {
			return err
		}
		older = older || order < 0
		if order <= 0 {
			continue
		}
		m, err := EntryMessage(i.hash, entry)
		if err != nil {
			return err
		}
		if err := w.Asked.Apply(m.Key, m.Value); err != nil {
			return err
		}
		m.Headers = w.headers.of(event.TypeSuppression, line, part)
		messages = append(messages, m)
		part++
		logged.Identifiers = append(logged.Identifiers, event.ErasureIdentifier{Type: string(i.typ), Hash: i.hash.String()})
	}
	switch {
	case len(messages) > 0:
		w.tally.Add(record.KindErasure, Counts{Published: 1})
	case older:
		w.tally.Add(record.KindErasure, Counts{Stale: 1})
		return nil
	default:
		w.tally.Add(record.KindErasure, Counts{Unchanged: 1})
		return nil
	}
	value, err := json.Marshal(logged)
	if err != nil {
		return fmt.Errorf("write erasure: %w", err)
	}
	w.batch.Add(kafka.Message{
		Topic: event.TopicErasureRequest, Key: []byte(logged.RequestID), Value: value,
		Headers: w.headers.of(event.TypeErasureRequest, line, part),
	})
	for _, m := range messages {
		w.batch.Add(m)
	}
	if w.Erased != nil {
		w.Erased(logged)
	}
	return nil
}

// compare says whether an entry is newer than what is known (1), the same (0) or
// older.
func (w *work) compare(h suppress.Hash, e *suppress.Entry) (int, error) {
	order, err := w.Asked.Compare(h, e)
	if err != nil || order <= 0 || w.Suppressed == nil {
		return order, err
	}
	return w.Suppressed.Compare(h, e)
}

// EntryMessage is the message of an entry of the suppression set.
func EntryMessage(h suppress.Hash, e suppress.Entry) (kafka.Message, error) {
	value, err := json.Marshal(e)
	if err != nil {
		return kafka.Message{}, fmt.Errorf("write suppression entry: %w", err)
	}
	return kafka.Message{Topic: event.TopicErasure, Key: []byte(h.String()), Value: value}, nil
}

// CheckErasure says whether the identifiers of an erasure can be ones.
func CheckErasure(r *record.Record) error {
	request, ok := r.Body.(*record.Erasure)
	if !ok {
		return fmt.Errorf("a record of kind %s is no erasure", r.Kind)
	}
	if _, bad := hashes(suppress.NoKey(), request); bad != nil {
		return bad
	}
	return nil
}

type hashed struct {
	typ  suppress.Type
	hash suppress.Hash
	mark string
}

// hashes makes the hashes of what a request names.
func hashes(key *suppress.Key, request *record.Erasure) ([]hashed, *record.Invalid) {
	out := make([]hashed, len(request.Identifiers))
	for at, i := range request.Identifiers {
		t := suppress.Type(i.Type)
		if i.SHA256 != "" {
			var sum [sha256.Size]byte
			if _, err := hex.Decode(sum[:], []byte(i.SHA256)); err != nil { // the record was checked
				return nil, &record.Invalid{Kind: record.KindErasure, Code: record.CodeBadIdentity, Path: fmt.Sprintf("identifiers[%d].sha256", at), Reason: "is no SHA-256"}
			}
			out[at] = hashed{t, key.Hash(t, sum), key.Mark(t, sum)}
			continue
		}
		standard, err := suppress.Standard(t, string(i.Value))
		if err != nil {
			return nil, &record.Invalid{Kind: record.KindErasure, Code: record.CodeBadIdentity, Path: fmt.Sprintf("identifiers[%d].value", at), Reason: err.Error()}
		}
		sum := suppress.Sum(standard)
		out[at] = hashed{t, key.Hash(t, sum), key.Mark(t, sum)}
	}
	return out, nil
}

// suppressed drops a record of somebody who was erased, with what was split off
// from it. Its identity is suppressed by itself from now on, so that neither an
// older version of it that is stored is shown, nor a newer one that no longer
// names what was asked for.
func (w *work) suppressed(line source.Line, main *record.Record, parts []*record.Record, by suppress.Hash, part int) error {
	w.tally.Add(main.Kind, Counts{Dropped: 1, Suppressed: 1})
	for _, p := range parts {
		w.tally.Add(p.Kind, Counts{Split: 1, Dropped: 1, Suppressed: 1})
	}
	s, ok := suppress.SubjectOf(main)
	if !ok {
		return nil
	}
	derived, entry, ok := w.Suppressed.Derive(s.Platform, s.ID, by)
	if !ok || w.Asked.Suppressed(derived) {
		return nil
	}
	m, err := EntryMessage(derived, entry)
	if err != nil {
		return err
	}
	if err := w.Asked.Apply(m.Key, m.Value); err != nil {
		return err
	}
	m.Headers = w.headers.of(event.TypeSuppression, line, part)
	w.batch.Add(m)
	return nil
}

// suppressedParts says which of the records that were split off from one that is not
// suppressed are; nil when none is. Repositories and lists have no identifier but the
// owner's, which was looked up.
func (w *work) suppressedParts(parts []*record.Record) []suppress.Found {
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
