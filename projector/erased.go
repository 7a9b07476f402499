package projector

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// erasedRecord is a record of an erased person in a batch. It is not stored.
type erasedRecord struct {
	topic     string
	partition int
	key       []byte // Nil if the key may belong to another person.
	// Set for records of people only.
	platform, id, username string
	by                     suppress.Hash
}

// platformOf returns the platform of a kind of person records, whose keys are platform ids. It returns "" for
// other kinds.
func platformOf(kind record.Kind) string {
	switch kind {
	case record.KindNetworkPerson:
		return identity.Network
	case record.KindCodehostPerson:
		return identity.Codehost
	case record.KindMicroblogPerson:
		return identity.Microblog
	}
	return ""
}

// erase reports whether a record is of an erased person, and collects it for a tombstone.
func (w *worker) erase(m *kafka.Message, rec *record.Record) bool {
	by, hit := w.suppressed.Record(rec)
	if !hit {
		return false
	}
	e := erasedRecord{topic: m.Topic, partition: m.Partition, key: m.Key, by: by}
	if s, ok := suppress.SubjectOf(rec); ok {
		e.platform, e.id, e.username = s.Platform, s.ID, s.Username
	}
	w.erased = append(w.erased, e)
	w.count(rec.Kind).erased++
	return true
}

// mayTombstone reports whether a tombstone may be written for the key of a record of another identity. It may
// if the key is invalid or of an erased person. Otherwise the tombstone would remove another person's newest
// record.
func (w *worker) mayTombstone(kind record.Kind, key []byte) bool {
	platform := platformOf(kind)
	if _, hit := w.suppressed.ID(platform, string(key)); hit {
		return true
	}
	_, err := strconv.ParseInt(string(key), 10, 64)
	return platform == identity.Codehost && err != nil
}

func (w *worker) isErased(rec *record.Record) bool {
	_, hit := w.suppressed.Record(rec)
	return hit
}

// eraseVersionBump is erase for a version bump.
func (w *worker) eraseVersionBump(m *kafka.Message, s event.VersionBump) bool {
	by, hit := w.suppressed.ID(platformOf(s.Kind), s.Key)
	if hit {
		w.erased = append(w.erased, erasedRecord{topic: m.Topic, partition: m.Partition, key: m.Key, by: by})
		w.count(kindVersionBump).erased++
	}
	return hit
}

// writeBatchTombstones writes a tombstone for each erased record of the batch, to the record's own partition,
// so that compaction removes it. It also suppresses the record's platform id: older versions may be stored,
// and newer ones may lack the identifier that was erased.
func (p *Projector) writeBatchTombstones(ctx context.Context) error {
	if p.writer == nil { // In a replay the live projector writes them.
		return nil
	}
	var messages []kafka.Message
	for _, e := range p.erased {
		if e.key != nil {
			messages = append(messages, kafka.Message{Topic: e.topic, Key: e.key, WriterData: e.partition})
		}
		derived, err := derive(p.deps.Suppressed, e.platform, e.id, e.username, e.by)
		if err != nil {
			return err
		}
		messages = append(messages, derived...)
	}
	if len(messages) == 0 {
		return nil
	}
	err := bus.WriteAll(ctx, p.writer, messages)
	if refused, ok := errors.AsType[*bus.RejectedError](err); ok {
		p.deps.Logger.ErrorContext(ctx, "projector: brokers rejected tombstones of erased records", "messages",
			len(refused.Messages), "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("publish tombstones of erased records: %w", err)
	}
	return nil
}

// derive returns the suppression entries that follow from the erasure of a person's record, without those
// that exist.
func derive(set *suppress.Set, platform, id, username string, by suppress.Hash) ([]kafka.Message, error) {
	var out []kafka.Message
	add := func(h suppress.Hash, e suppress.Entry, ok bool) error {
		if !ok {
			return nil
		}
		value, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encode suppression entry: %w", err)
		}
		out = append(out, kafka.Message{Topic: event.TopicErasure, Key: []byte(h.String()), Value: value,
			Headers: bus.SetEvent(nil, bus.Event{
				ID: h.String(), Type: event.TypeSuppression, Source: "/muster/projector",
				ContentType: "application/json",
			})})
		return nil
	}
	if platform == "" {
		return nil, nil
	}
	h, e, ok := set.Derive(platform, id, by)
	if err := add(h, e, ok); err != nil {
		return nil, err
	}
	h, e, ok = set.DeriveAccount(platform, username, by)
	return out, add(h, e, ok)
}
