package erasure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Dropped is a record of an erased person that is not stored.
type Dropped struct {
	topic     string
	partition int
	key       []byte // Nil if the key may belong to another person.
	// Set for records of people only.
	platform, id, username string
	by                     suppress.Hash
}

// Filter finds the records of erased people in a batch, and collects those that are dropped. The zero value drops
// nothing. It is not safe for concurrent use.
type Filter struct {
	Suppressed *suppress.Set
	Dropped    []Dropped
}

// IsErased reports whether a record is of an erased person.
func (f *Filter) IsErased(rec *record.Record) bool {
	_, hit := f.Suppressed.Record(rec)
	return hit
}

// Drop reports whether a record is of an erased person, and collects it for a tombstone.
func (f *Filter) Drop(m *kafka.Message, rec *record.Record) bool {
	return f.drop(m, m.Key, rec)
}

// DropMisplaced is Drop for a record in a message with another key. It collects the key for a tombstone if the key is
// invalid or of an erased person: otherwise the tombstone would remove another person's newest record.
func (f *Filter) DropMisplaced(m *kafka.Message, rec *record.Record) bool {
	platform := rec.Kind.Platform()
	_, hit := f.Suppressed.ID(platform, string(m.Key))
	if _, err := strconv.ParseInt(string(m.Key), 10, 64); hit || platform == identity.Codehost && err != nil {
		return f.drop(m, m.Key, rec)
	}
	return f.drop(m, nil, rec)
}

func (f *Filter) drop(m *kafka.Message, key []byte, rec *record.Record) bool {
	by, hit := f.Suppressed.Record(rec)
	if !hit {
		return false
	}
	d := Dropped{topic: m.Topic, partition: m.Partition, key: key, by: by}
	if s, ok := suppress.SubjectOf(rec); ok {
		d.platform, d.id, d.username = s.Platform, s.ID, s.Username
	}
	f.Dropped = append(f.Dropped, d)
	return true
}

// DropVersionBump is Drop for a version bump.
func (f *Filter) DropVersionBump(m *kafka.Message, s event.VersionBump) bool {
	by, hit := f.Suppressed.ID(s.Kind.Platform(), s.Key)
	if hit {
		f.Dropped = append(f.Dropped, Dropped{topic: m.Topic, partition: m.Partition, key: m.Key, by: by})
	}
	return hit
}

// WriteTombstones writes a tombstone for each dropped record to the record's own partition, so that compaction removes
// it; the writer needs bus.WithFixedPartition. It also suppresses the record's platform id: older versions may be
// stored, and newer ones may lack the identifier that was erased.
func WriteTombstones(
	ctx context.Context, w *bus.Writer, set *suppress.Set, dropped []Dropped, logger *slog.Logger,
) error {
	var messages []kafka.Message
	for _, d := range dropped {
		if d.key != nil {
			messages = append(messages, kafka.Message{Topic: d.topic, Key: d.key, WriterData: d.partition})
		}
		derived, err := derive(set, d.platform, d.id, d.username, d.by)
		if err != nil {
			return err
		}
		messages = append(messages, derived...)
	}
	err := bus.WriteAll(ctx, w, messages)
	if refused, ok := errors.AsType[*bus.RejectedError](err); ok {
		logger.LogAttrs(ctx, slog.LevelError, "projector: brokers rejected tombstones of erased records",
			slog.Int("messages", len(refused.Messages)), slog.Any("error", err))
		return nil
	}
	if err != nil {
		return fmt.Errorf("publish tombstones of erased records: %w", err)
	}
	return nil
}
