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

// publishErasure publishes an erasure request: an entry of the suppression set for each identifier, and an
// event in the log of requests. Neither contains an identifier. Entries that the set already has,
// in this version or a newer one, are not published again.
func (w *work) publishErasure(line source.Line, rec *record.Record) error {
	request := rec.Body.(*record.Erasure) // Decode sets this type for the kind
	if err := w.Suppressed.CheckOwner(); err != nil {
		return err
	}
	identifiers, bad := hashIdentifiers(w.Requested.Key(), request)
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
			Type: i.typ, Scope: scope, RequestedAt: rec.VersionText, RequestID: logged.RequestID,
			Unsuppressed: rec.Deleted, Key: w.Requested.Key().ID(), Mark: i.mark,
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
		if err := w.Requested.Apply(m.Key, m.Value); err != nil {
			return err
		}
		m.Headers = w.headers.forMessage(event.TypeSuppression, line, part)
		messages = append(messages, m)
		part++
		logged.Identifiers = append(logged.Identifiers,
			event.ErasureIdentifier{Type: string(i.typ), Hash: i.hash.String()})
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

// CheckErasure returns an error if an identifier of an erasure is invalid.
func CheckErasure(r *record.Record) error {
	request, ok := r.Body.(*record.Erasure)
	if !ok {
		return fmt.Errorf("a record of kind %s is not an erasure", r.Kind)
	}
	if _, bad := hashIdentifiers(suppress.NoKey(), request); bad != nil {
		return bad
	}
	return nil
}

type hashedIdentifier struct {
	typ  suppress.Type
	hash suppress.Hash
	mark string
}

// hashIdentifiers hashes the identifiers of a request.
func hashIdentifiers(key *suppress.Key, request *record.Erasure) ([]hashedIdentifier, *record.ValidationError) {
	out := make([]hashedIdentifier, len(request.Identifiers))
	for at, i := range request.Identifiers {
		t := suppress.Type(i.Type)
		if i.SHA256 != "" {
			var sum [sha256.Size]byte
			if _, err := hex.Decode(sum[:], []byte(i.SHA256)); err != nil { // validated by the record schema
				return nil, &record.ValidationError{
					Kind:   record.KindErasure,
					Code:   record.CodeBadIdentity,
					Path:   fmt.Sprintf("identifiers[%d].sha256", at),
					Reason: "is not a SHA-256",
				}
			}
			out[at] = hashedIdentifier{t, key.Hash(t, sum), key.Mark(t, sum)}
			continue
		}
		standard, err := suppress.Normalize(t, string(i.Value))
		if err != nil {
			return nil, &record.ValidationError{
				Kind:   record.KindErasure,
				Code:   record.CodeBadIdentity,
				Path:   fmt.Sprintf("identifiers[%d].value", at),
				Reason: err.Error(),
			}
		}
		sum := suppress.Sum(standard)
		out[at] = hashedIdentifier{t, key.Hash(t, sum), key.Mark(t, sum)}
	}
	return out, nil
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
