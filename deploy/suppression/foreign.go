package suppression

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/suppress"
)

// KeyUse is what the topic of erasures has of a key.
type KeyUse struct {
	// ID is the key's; it says nothing of the root secret.
	ID string `json:"key"`
	// Owner says that the topic is the key's.
	Owner bool `json:"owner"`
	// Entries is the number of hashes.
	Entries int `json:"entries"`
	// Requests are those that led to them, sorted, unless they are those of the own key.
	Requests []string `json:"requests,omitempty"`
}

// Keys are the keys that entries of the topic of erasures were made with, those with most first.
func Keys(ctx context.Context, cfg bus.Config, own *suppress.Key) ([]KeyUse, error) {
	last, err := entries(ctx, cfg, func(id string) bool { return id != own.ID() })
	if err != nil {
		return nil, err
	}
	uses, requests := map[string]*KeyUse{}, map[string]map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(last)) {
		e := last[key]
		u := uses[e.key]
		if u == nil {
			u = &KeyUse{ID: e.key}
			uses[e.key], requests[e.key] = u, map[string]bool{}
		}
		if key == suppress.OwnerKey {
			u.Owner = true
			continue
		}
		u.Entries++
		if e.request != "" {
			requests[e.key][e.request] = true
		}
	}
	out := make([]KeyUse, 0, len(uses))
	for id, u := range uses {
		u.Requests = slices.Sorted(maps.Keys(requests[id]))
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b KeyUse) int { return cmp.Or(b.Entries-a.Entries, cmp.Compare(a.ID, b.ID)) })
	return out, nil
}

// Remove takes what was made with another key out of the topic, and makes own the owner in its place. Followers
// that start from then on know nothing of it. keep is handed the entries before any is removed.
func Remove(ctx context.Context, cfg bus.Config, own *suppress.Key, id string, keep func([]kafka.Message) error) (n int, err error) {
	if id == own.ID() {
		return 0, fmt.Errorf("remove entries: %s is the key of the present root secret: start with the right one to remove what another has made", id)
	}
	last, err := entries(ctx, cfg, func(other string) bool { return other == id })
	if err != nil {
		return 0, err
	}
	var kept, tombstones []kafka.Message
	owner := false
	for _, key := range slices.Sorted(maps.Keys(last)) {
		switch e := last[key]; {
		case e.key != id:
		case key == suppress.OwnerKey:
			owner = true
		default:
			kept = append(kept, kafka.Message{Topic: event.TopicErasure, Key: []byte(key), Value: e.value})
			tombstones = append(tombstones, kafka.Message{Topic: event.TopicErasure, Key: []byte(key)})
		}
	}
	if len(tombstones) == 0 && !owner {
		return 0, fmt.Errorf("remove entries: none was made with the key %q", id)
	}
	if err := keep(kept); err != nil {
		return 0, err
	}
	w := bus.NewWriter(cfg)
	if err := errors.Join(bus.WriteAll(ctx, w, tombstones), w.Close()); err != nil {
		return 0, fmt.Errorf("remove entries: %w", err)
	}
	if owner {
		err = claim(ctx, cfg, own)
	}
	return len(tombstones), err
}

// entry is the last message of its key.
type entry struct {
	key, request string
	value        []byte
}

// entries are the last messages by their keys, but for those that cannot be read; whole ones of the
// keys, by their IDs, that are wanted: there may be millions of the others.
func entries(ctx context.Context, cfg bus.Config, wanted func(id string) bool) (map[string]entry, error) {
	last, ids := make(map[string]entry), make(map[string]string)
	err := bus.Scan(ctx, cfg, []string{event.TopicErasure}, func(m kafka.Message) error {
		key := string(m.Key)
		if m.Value == nil {
			delete(last, key)
			return nil
		}
		var read suppress.Entry
		if json.Unmarshal(m.Value, &read) != nil {
			return nil //nolint:nilerr // nobody reads it, nor is stopped by it
		}
		if _, known := ids[read.Key]; !known {
			ids[read.Key] = read.Key
		}
		e := entry{key: ids[read.Key]}
		if wanted(e.key) {
			e.request, e.value = read.RequestID, bytes.Clone(m.Value)
		}
		last[key] = e
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the entries of erasures: %w", err)
	}
	return last, nil
}
