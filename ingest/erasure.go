package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/ingest/internal/convert"
	"muster/ingest/internal/source"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// eraseFile is the file name in the location of erasures ordered by a command.
const eraseFile = "command"

// Erase publishes erasures, or withdrawals of erasures, ordered by an operator. It returns the
// erasures that were published; those already in force are not. If an identifier is invalid, it
// returns an error that names its position, and publishes nothing.
func Erase(ctx context.Context, cfg Config, deps Deps, orders ...record.Erasure) ([]event.Erasure, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("erase: %w", err)
	}
	if deps.Suppressed == nil {
		return nil, fmt.Errorf("erase: %w", errNoErasures)
	}
	deps = deps.withDefaults()
	var lines bytes.Buffer
	for i := range orders {
		raw, err := json.Marshal(orders[i])
		if err != nil {
			return nil, fmt.Errorf("erase: encode the request: %w", err)
		}
		rec, err := record.Decode(record.KindErasure, raw)
		if err == nil {
			if _, bad := suppress.NoKey().Request(rec.Body.(*record.Erasure)); bad != nil { // Decode sets this type.
				err = bad
			}
		}
		if err != nil {
			return nil, fmt.Errorf("erase: %w", err)
		}
		lines.Write(raw)
		lines.WriteByte('\n')
	}
	if err := ensureTopics(ctx, cfg, deps.Logger); err != nil {
		return nil, fmt.Errorf("erase: %w", err)
	}
	meters, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, fmt.Errorf("erase: %w", err)
	}
	var done []event.Erasure
	deps.Erased = func(e event.Erasure) { done = append(done, e) } // called from one decoder
	r := newRun(ctx, cfg, deps, meters, nil, nil)
	r.via = "command"
	r.add(eraseFile, record.KindErasure, -1, func(ctx context.Context, _ source.Position) (source.Source, error) {
		return source.FromReader(ctx, eraseFile, &lines, source.Options{
			MaxLine: record.MaxSize, Head: event.MaxRejectedRaw, Kind: record.KindErasure, Format: source.FormatNDJSON,
		})
	})
	if _, err := r.finish(); err != nil {
		return nil, fmt.Errorf("erase: %w", err)
	}
	for _, e := range done {
		if e.Action != event.ErasureWithdrawn {
			continue
		}
		if err := unsuppressDerived(ctx, cfg, deps, e.Identifiers); err != nil {
			return done, fmt.Errorf("erase: %w", err)
		}
	}
	return done, nil
}

// unsuppressDerived publishes the removal of entries derived from the withdrawn hashes. The eraser
// does the same later; this saves the wait.
func unsuppressDerived(ctx context.Context, cfg Config, deps Deps, withdrawn []event.ErasureIdentifier) error {
	set := deps.Suppressed
	derived := make(map[suppress.Hash]suppress.Entry)
	err := bus.Scan(ctx, cfg.Bus, []string{event.TopicErasure}, func(m kafka.Message) error {
		if m.Value == nil {
			return nil
		}
		// The scan includes the entries just written.
		if err := set.Apply(m.Key, m.Value); err != nil {
			return nil //nolint:nilerr // the set's follower handles invalid entries
		}
		var e suppress.Entry
		h, err := suppress.ParseHash(string(m.Key))
		if err == nil && json.Unmarshal(m.Value, &e) == nil && e.Derived() {
			derived[h] = e
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read entries derived from %d identifiers: %w", len(withdrawn), err)
	}
	var messages []kafka.Message
	for h, e := range set.UnsuppressDerived(derived) {
		m, err := convert.EntryMessage(h, e)
		if err != nil {
			return err
		}
		messages = append(messages, m)
	}
	writer := newWriter(cfg, deps)
	if err := errors.Join(bus.WriteAll(ctx, writer, messages), writer.Close()); err != nil {
		return fmt.Errorf("remove entries derived from %d identifiers: %w", len(withdrawn), err)
	}
	return nil
}

// WithdrawErasure withdraws a request: it unsuppresses the identifiers that no later request includes.
func WithdrawErasure(
	ctx context.Context, cfg Config, deps Deps, request event.Erasure, by, note string,
) (event.Erasure, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return event.Erasure{}, fmt.Errorf("withdraw an erasure: %w", err)
	}
	if deps.Suppressed == nil {
		return event.Erasure{}, fmt.Errorf("withdraw an erasure: %w", errNoErasures)
	}
	deps = deps.withDefaults()
	now := deps.Now().UTC()
	at := record.VersionOf(now).String()
	logged := event.Erasure{
		RequestID: request.RequestID, Action: event.ErasureWithdrawn, At: now, RequestedAt: at,
		By: by, Via: "command", Note: note,
	}
	var messages []kafka.Message
	for _, i := range request.Identifiers {
		h, err := suppress.ParseHash(i.Hash)
		if err != nil {
			return logged, fmt.Errorf("withdraw an erasure: %s: %w", request.RequestID, err)
		}
		entry := suppress.Entry{
			Type:        suppress.Type(i.Type),
			Scope:       suppress.Scope(request.Scope),
			RequestedAt: request.RequestedAt,
			Key:         deps.Suppressed.Key().ID(),
		}
		if order, err := deps.Suppressed.Compare(h, &entry); err != nil || order != 0 {
			// Requested again, or already unsuppressed.
			continue
		}
		entry.RequestedAt, entry.RequestID = at, request.RequestID
		entry.Unsuppressed, entry.Mark = true, deps.Suppressed.MarkOf(h)
		if order, err := deps.Suppressed.Compare(h, &entry); err != nil || order <= 0 {
			// The request is dated in the future; the withdrawal must still be newer.
			v, err := record.ParseVersion(request.RequestedAt)
			if err != nil {
				return logged, fmt.Errorf("withdraw an erasure: %s: %w", request.RequestID, err)
			}
			entry.RequestedAt = (v + 1).String()
		}
		m, err := convert.EntryMessage(h, entry)
		if err != nil {
			return logged, fmt.Errorf("withdraw an erasure: %w", err)
		}
		m.Headers = bus.SetEvent(nil, bus.Event{
			ID: request.RequestID + "/" + i.Hash + "/lifted", Type: event.TypeSuppression,
			Source: "/ingest/command", Time: now, ContentType: "application/json",
		})
		messages = append(messages, m)
		logged.Identifiers = append(logged.Identifiers, i)
	}
	if len(messages) == 0 {
		return logged, nil
	}
	value, err := json.Marshal(logged)
	if err != nil {
		return logged, fmt.Errorf("withdraw an erasure: %w", err)
	}
	messages = append(messages, kafka.Message{
		Topic: event.TopicErasureRequest, Key: []byte(request.RequestID), Value: value,
		Headers: bus.SetEvent(nil, bus.Event{
			ID: request.RequestID + "/withdrawn/" + at, Type: event.TypeErasureRequest,
			Source: "/ingest/command", Time: now, ContentType: "application/json",
		}),
	})
	writer := newWriter(cfg, deps)
	if err := errors.Join(bus.WriteAll(ctx, writer, messages), writer.Close()); err != nil {
		return logged, fmt.Errorf("withdraw an erasure: %w", err)
	}
	if err := unsuppressDerived(ctx, cfg, deps, logged.Identifiers); err != nil {
		return logged, fmt.Errorf("withdraw an erasure: %w", err)
	}
	return logged, nil
}
