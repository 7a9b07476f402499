package erasure

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

// KeyUse has the entries of one key in the erasure topic.
type KeyUse struct {
	// ID is the ID of the key. It does not reveal the root secret.
	ID string `json:"key"`
	// Owner reports that the key owns the topic.
	Owner bool `json:"owner"`
	// Entries is the number of hashes.
	Entries int `json:"entries"`
	// Requests are the sorted IDs of the requests of these entries. It is empty for the own key.
	Requests []string `json:"requests,omitempty"`
}

// KeyUses returns the keys of all entries in the erasure topic, by decreasing number of entries.
func KeyUses(ctx context.Context, cfg bus.Config, own *suppress.Key) ([]KeyUse, error) {
	last, err := lastEntries(ctx, cfg, func(id string) bool { return id != own.ID() })
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

// RemoveKey deletes the entries of another key from the topic, and makes own the owner instead. Followers that start
// later do not see them. It calls keep with the entries before it deletes any.
func RemoveKey(ctx context.Context, cfg bus.Config, own *suppress.Key, id string, keep func(Log) error) (n int,
	err error) {
	if id == own.ID() {
		return 0,
			fmt.Errorf(
				"remove entries: %s is the key of the present root secret: to remove the entries of another key, "+
					"use the right root secret", id)
	}
	last, err := lastEntries(ctx, cfg, func(other string) bool { return other == id })
	if err != nil {
		return 0, err
	}
	var kept Log
	var tombstones []kafka.Message
	owner := false
	for _, key := range slices.Sorted(maps.Keys(last)) {
		switch e := last[key]; {
		case e.key != id:
		case key == suppress.OwnerKey:
			owner = true
		default:
			kept.messages = append(kept.messages, message{event.TopicErasure, []byte(key), e.value})
			tombstones = append(tombstones, kafka.Message{Topic: event.TopicErasure, Key: []byte(key)})
		}
	}
	if len(tombstones) == 0 && !owner {
		return 0, fmt.Errorf("remove entries: no entries with the key %q", id)
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

// lastEntry is the last message of a key.
type lastEntry struct {
	key, request string
	value        []byte
}

// lastEntries returns the last message of each message key, without unreadable ones. The values are set only for wanted
// IDs: there may be millions of others.
func lastEntries(ctx context.Context, cfg bus.Config, wanted func(id string) bool) (map[string]lastEntry, error) {
	last, ids := make(map[string]lastEntry), make(map[string]string)
	err := bus.Scan(ctx, cfg, []string{event.TopicErasure}, func(m kafka.Message) error {
		key := string(m.Key)
		if m.Value == nil {
			delete(last, key)
			return nil
		}
		var read suppress.Entry
		if json.Unmarshal(m.Value, &read) != nil {
			return nil //nolint:nilerr // followers skip it too
		}
		if _, known := ids[read.Key]; !known {
			ids[read.Key] = read.Key
		}
		e := lastEntry{key: ids[read.Key]}
		if wanted(e.key) {
			e.request, e.value = read.RequestID, bytes.Clone(m.Value)
		}
		last[key] = e
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the suppression entries: %w", err)
	}
	return last, nil
}
