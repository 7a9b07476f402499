package erasure

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/suppress"
)

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

// unsuppressDerived removes the entries that were derived from withdrawn erasures, until no erasure is
// withdrawn while it runs.
func (e *Eraser) unsuppressDerived(ctx context.Context) error {
	for lifts := e.deps.Suppressed.RemovalCount(); lifts != e.removalCount; lifts = e.deps.Suppressed.RemovalCount() {
		if err := e.unsuppressDerivedOnce(ctx); err != nil {
			return err
		}
		e.removalCount = lifts
	}
	return nil
}

func (e *Eraser) unsuppressDerivedOnce(ctx context.Context) error {
	derived := make(map[suppress.Hash]suppress.Entry)
	err := bus.Scan(ctx, e.cfg.Kafka, []string{event.TopicErasure}, func(m kafka.Message) error {
		var entry suppress.Entry
		if h, err := suppress.ParseHash(string(m.Key)); err == nil && json.Unmarshal(m.Value, &entry) == nil &&
			entry.Derived() {
			derived[h] = entry
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read entries derived from withdrawn erasures: %w", err)
	}
	var entries []kafka.Message
	for h, entry := range e.deps.Suppressed.UnsuppressDerived(derived) {
		value, err := json.Marshal(entry)
		if err != nil {
			return fmt.Errorf("encode suppression entry: %w", err)
		}
		entries = append(entries, kafka.Message{Topic: event.TopicErasure, Key: []byte(h.String()), Value: value})
	}
	return e.publish(ctx, entries)
}

// publish makes entries durable and applies them to the set.
func (e *Eraser) publish(ctx context.Context, entries []kafka.Message) error {
	if err := bus.WriteAll(ctx, e.writer, entries); err != nil {
		return fmt.Errorf("publish suppression entries: %w", err)
	}
	for _, m := range entries {
		if err := e.deps.Suppressed.Apply(m.Key, m.Value); err != nil {
			return fmt.Errorf("publish suppression entries: %w", err)
		}
	}
	return nil
}
