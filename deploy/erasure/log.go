package erasure

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Log has the messages of the two erasure topics: suppression entries and requests. It does not have the entry of the
// topic's owner.
type Log struct {
	messages []message
	// removed are the keys of deleted entries.
	removed map[string]bool
}

// message is a message of one of the two erasure topics.
type message struct {
	Topic string `json:"topic"`
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

// Topics returns the names of the erasure topics.
func Topics() []string { return []string{event.TopicErasure, event.TopicErasureRequest} }

// maxLine is the maximum length of a line in the format of [Log.Write], in bytes.
const maxLine = 4 << 20

// ParseLog reads the format of [Log.Write].
func ParseLog(r io.Reader) (Log, error) {
	var out Log
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for number := 1; lines.Scan(); number++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m, json.RejectUnknownMembers(true)); err != nil {
			return out, fmt.Errorf("read the erasures: line %d: %w", number, err)
		}
		if !slices.Contains(Topics(), m.Topic) {
			return out, fmt.Errorf("read the erasures: line %d: unsupported topic %q", number, m.Topic)
		}
		out.messages = append(out.messages, m)
	}
	if err := lines.Err(); err != nil {
		return out, fmt.Errorf("read the erasures: %w", err)
	}
	return out, nil
}

// Len returns the number of lines that Write writes.
func (l Log) Len() int { return len(l.messages) }

// Write writes the messages as lines of JSON. They have keyed hashes, and no identifiers.
func (l Log) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, m := range l.messages {
		raw, err := json.Marshal(m)
		if err != nil {
			return fmt.Errorf("write the erasures: %w", err)
		}
		if _, err := out.Write(append(raw, '\n')); err != nil {
			return fmt.Errorf("write the erasures: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the erasures: %w", err)
	}
	return nil
}

// MissingFrom returns the number of entries of other that are neither in l, nor in a newer version, nor deleted.
func (l Log) MissingFrom(other Log) (n int, err error) {
	here, err := l.versions()
	if err != nil {
		return 0, err
	}
	there, err := other.versions()
	if err != nil {
		return 0, err
	}
	for key, version := range there {
		if known, ok := here[key]; (!ok || known < version) && !l.removed[key] {
			n++
		}
	}
	return n, nil
}

// versions returns the versions of the newest entries by key.
func (l Log) versions() (map[string]record.Version, error) {
	newest := make(map[string]record.Version)
	for _, m := range l.messages {
		if m.Topic != event.TopicErasure {
			continue
		}
		var entry suppress.Entry
		err := json.Unmarshal(m.Value, &entry)
		if err == nil {
			var version record.Version
			version, err = record.ParseVersion(entry.RequestedAt)
			newest[string(m.Key)] = max(newest[string(m.Key)], version)
		}
		if err != nil {
			return nil, fmt.Errorf("read the erasures: entry %s: %w", m.Key, err)
		}
	}
	return newest, nil
}

// Publish adds the messages to the topics, unless these have them or newer entries of the same identifiers, and
// returns the number of added entries. It creates missing topics. It returns suppress.ErrOtherKey if entries have
// another key than the given one.
func (l Log) Publish(ctx context.Context, cfg bus.Config, key *suppress.Key) (n int, err error) {
	there, err := ReadLog(ctx, cfg)
	if err != nil {
		return 0, err
	}
	missing, err := l.missing(key, there.messages)
	if err != nil || len(missing) == 0 {
		return 0, err
	}
	if err := ensureTopics(ctx, cfg, Topics()...); err != nil {
		return 0, err
	}
	for _, m := range missing {
		if m.Topic == event.TopicErasure {
			n++
		}
	}
	w := bus.NewWriter(cfg)
	if err := errors.Join(bus.WriteAll(ctx, w, missing), w.Close()); err != nil {
		return 0, fmt.Errorf("publish the erasures: %w", err)
	}
	return n, nil
}

// missing returns the messages to add to those in there. Entries in there with another key are kept: an archive may be
// from before they were removed, and they suppress no one.
func (l Log) missing(key *suppress.Key, there []message) (out []kafka.Message, err error) {
	set, requests := suppress.NewSet(key), map[string]bool{}
	for _, m := range there {
		if m.Topic == event.TopicErasureRequest {
			requests[string(m.Key)+"\x00"+string(m.Value)] = true
			continue
		}
		if err := set.Apply(m.Key, m.Value); err != nil && !errors.Is(err, suppress.ErrOtherKey) {
			return nil, err
		}
	}
	for _, m := range l.messages {
		if m.Topic == event.TopicErasureRequest {
			if !requests[string(m.Key)+"\x00"+string(m.Value)] {
				out = append(out, kafka.Message{Topic: m.Topic, Key: m.Key, Value: m.Value})
			}
			continue
		}
		before, _ := set.Changes()
		if err := set.Apply(m.Key, m.Value); err != nil {
			return nil, err
		}
		if after, _ := set.Changes(); after != before {
			out = append(out, kafka.Message{Topic: m.Topic, Key: m.Key, Value: m.Value})
		}
	}
	return out, nil
}

// ReadLog reads both topics.
func ReadLog(ctx context.Context, cfg bus.Config) (Log, error) {
	var out []message
	removed := make(map[string]bool)
	err := bus.Scan(ctx, cfg, Topics(), func(m kafka.Message) error {
		entry := m.Topic == event.TopicErasure
		switch {
		case m.Value == nil && entry:
			removed[string(m.Key)] = true
		case m.Value == nil || entry && string(m.Key) == suppress.OwnerKey:
		default:
			if entry {
				delete(removed, string(m.Key))
			}
			out = append(out, message{Topic: m.Topic, Key: bytes.Clone(m.Key), Value: bytes.Clone(m.Value)})
		}
		return nil
	})
	if err != nil {
		return Log{}, fmt.Errorf("read the erasures: %w", err)
	}
	out = slices.DeleteFunc(out,
		func(m message) bool { return m.Topic == event.TopicErasure && removed[string(m.Key)] })
	return Log{messages: out, removed: removed}, nil
}

// ensureTopics creates topics of the platform that do not exist. It does not change existing ones.
func ensureTopics(ctx context.Context, cfg bus.Config, names ...string) error {
	var topics []bus.Topic
	for _, t := range event.Topics() {
		if slices.Contains(names, t.Name) {
			topics = append(topics, bus.Topic{Name: t.Name, Partitions: t.Partitions, Config: t.Config()})
		}
	}
	err := bus.EnsureTopics(ctx, cfg, topics)
	if _, different := errors.AsType[*bus.MismatchError](err); different {
		return nil
	}
	return err
}
