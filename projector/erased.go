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

// erasedRecord is a record of somebody who was erased, in a batch. It gets no rows.
type erasedRecord struct {
	topic     string
	partition int
	key       []byte // nil when it may be somebody else's
	// platform, id and username are of a person's record; empty of others.
	platform, id, username string
	by                     suppress.Hash
}

// platforms are those of the kinds of people's records, whose key is their id.
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

// erase reports whether a record is of somebody who was erased, and remembers it.
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

// mayBury reports whether a key, under which stands the record of somebody else, is nobody's, or
// of somebody who was erased: a tombstone of another's would take their newest record along.
func (w *worker) mayBury(kind record.Kind, key []byte) bool {
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

// eraseSeen is erase for a new version of a record.
func (w *worker) eraseSeen(m *kafka.Message, s event.Seen) bool {
	by, hit := w.suppressed.ID(platformOf(s.Kind), s.Key)
	if hit {
		w.erased = append(w.erased, erasedRecord{topic: m.Topic, partition: m.Partition, key: m.Key, by: by})
		w.count(kindSeen).erased++
	}
	return hit
}

// forget leaves tombstones for what was erased in the batch, each in the partition of the
// record, wherever its writer put it, so that compaction takes it out of its topic, and suppresses what it was by its id: an older version
// may have rows, and a newer one may not name what was asked for.
func (p *Projector) forget(ctx context.Context) error {
	if p.writer == nil { // a replay: the live projector does it
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
	if refused, ok := errors.AsType[*bus.RefusedError](err); ok {
		p.deps.Logger.ErrorContext(ctx, "tombstones of erased records were refused", "messages", len(refused.Messages), "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("publish tombstones of erased records: %w", err)
	}
	return nil
}

// derive makes the entries that follow from a person's record being erased, those
// that are not known yet.
func derive(set *suppress.Set, platform, id, username string, by suppress.Hash) ([]kafka.Message, error) {
	var out []kafka.Message
	add := func(h suppress.Hash, e suppress.Entry, ok bool) error {
		if !ok {
			return nil
		}
		value, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("write suppression entry: %w", err)
		}
		out = append(out, kafka.Message{Topic: event.TopicErasure, Key: []byte(h.String()), Value: value, Headers: bus.SetEvent(nil, bus.Event{
			ID: h.String(), Type: event.TypeSuppression, Source: "/muster/projector", ContentType: "application/json",
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
