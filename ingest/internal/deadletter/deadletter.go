package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
)

// Entry is a rejected record or a dead letter.
type Entry struct {
	// Message is the entry as stored.
	Message kafka.Message
	// Rejected is the rejected record; it is empty for a dead letter.
	Rejected event.Rejected
	// Dead describes the dead-lettered message; it is empty for a rejected record.
	Dead event.DeadLetter
	// Unreadable is the error if the entry cannot be decoded. Such entries are listed too.
	Unreadable error
	// Resubmitted is when the entry was last resubmitted; zero if never.
	Resubmitted time.Time
}

// IsDead reports whether the entry is a dead letter; otherwise it is a rejected record.
func (e Entry) IsDead() bool { return e.Message.Topic != event.TopicRejected }

// ID identifies the entry among those of its type: "3-42" (partition and offset) for a rejected
// record, "discovery-worker.score:0-7" for a dead letter.
func (e Entry) ID() string {
	position := fmt.Sprintf("%d-%d", e.Message.Partition, e.Message.Offset)
	if e.IsDead() {
		return handlerOf(e.Message.Topic) + ":" + position
	}
	return position
}

// handlerOf returns "service.handler" of a dead-letter topic.
func handlerOf(topic string) string {
	return strings.TrimSuffix(strings.TrimPrefix(topic, event.DeadTopicPrefix), ".v1")
}

// Handler returns "service.handler" of a dead letter, and "" for a rejected record.
func (e Entry) Handler() string {
	if !e.IsDead() {
		return ""
	}
	return handlerOf(e.Message.Topic)
}

// At returns when the record was rejected or the message was dead-lettered.
func (e Entry) At() time.Time {
	switch {
	case !e.Rejected.At.IsZero():
		return e.Rejected.At
	case !e.Dead.LastFailure.IsZero():
		return e.Dead.LastFailure
	}
	return e.Message.Time.UTC()
}

// Code returns the code of the reason.
func (e Entry) Code() string {
	switch {
	case e.Unreadable != nil:
		return "unreadable_letter"
	case e.IsDead():
		return e.Dead.Code
	}
	return e.Rejected.Code
}

// hasCode reports whether the reason, or any other validation error of the record, has a code.
func (e Entry) hasCode(code string) bool {
	return e.Code() == code ||
		slices.ContainsFunc(e.Rejected.Defects, func(d record.FieldError) bool { return d.Code == code })
}

// Filter selects entries. Zero fields select all.
type Filter struct {
	// IDs are values of [Entry.ID].
	IDs []string
	// Kind selects rejected records by kind, Handler dead letters by "service.handler".
	Kind    record.Kind
	Handler string
	// Code is the code of the reason, or of any validation error of a rejected record.
	Code string
	// Run is the ID, or a prefix of the ID, of the run that rejected the record.
	Run string
	// Since (inclusive) and Until (exclusive) limit the time of [Entry.At].
	Since, Until time.Time
	// Resubmitted also selects entries that were resubmitted before.
	Resubmitted bool
}

func (f Filter) matches(e Entry) bool {
	switch {
	case len(f.IDs) > 0 && !slices.Contains(f.IDs, e.ID()),
		f.Kind != "" && e.Rejected.Kind != f.Kind,
		f.Handler != "" && e.Handler() != f.Handler,
		f.Code != "" && !e.hasCode(f.Code),
		f.Run != "" && !strings.HasPrefix(e.Rejected.Source.Run, f.Run),
		!f.Since.IsZero() && e.At().Before(f.Since),
		!f.Until.IsZero() && !e.At().Before(f.Until),
		!f.Resubmitted && !e.Resubmitted.IsZero():
		return false
	}
	return true
}

// position is where an entry is stored.
type position struct {
	topic     string
	partition int
	offset    int64
}

// Topics returns the dead-letter topics if dead is set, or else the topic of rejected records.
func Topics(ctx context.Context, cfg bus.Config, dead bool) ([]string, error) {
	if !dead {
		return []string{event.TopicRejected}, nil
	}
	return bus.TopicNames(ctx, cfg, event.DeadTopicPrefix)
}

// Scan calls each for every selected entry on the topics, in partition order. It stops at the first
// error of each.
func Scan(ctx context.Context, cfg bus.Config, topics []string, filter Filter, each func(Entry) error) error {
	// Resubmissions are logged after the entries, on the same topics.
	resubmitted := make(map[position]time.Time)
	err := bus.Scan(ctx, cfg, topics, func(m kafka.Message) error {
		if typeOf(m) != event.TypeResubmitted {
			return nil
		}
		var mark event.Resubmitted
		if err := json.Unmarshal(m.Value, &mark); err != nil {
			return nil //nolint:nilerr // an invalid log message marks no entry
		}
		for partition, offsets := range mark.Offsets {
			for _, o := range offsets {
				resubmitted[position{m.Topic, partition, o}] = mark.At
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read dead letters: %w", err)
	}
	err = bus.Scan(ctx, cfg, topics, func(m kafka.Message) error {
		if typeOf(m) == event.TypeResubmitted {
			return nil
		}
		e := read(m)
		e.Resubmitted = resubmitted[position{m.Topic, m.Partition, m.Offset}]
		if !filter.matches(e) {
			return nil
		}
		return each(e)
	})
	if err != nil {
		return fmt.Errorf("read dead letters: %w", err)
	}
	return nil
}

func typeOf(m kafka.Message) string { return header(m, bus.HeaderType) }

func header(m kafka.Message, name string) string {
	for _, h := range slices.Backward(m.Headers) {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

func read(m kafka.Message) Entry {
	e := Entry{Message: m}
	if e.IsDead() {
		e.Dead, e.Unreadable = event.ParseDead(func(name string) string { return header(m, name) })
		return e
	}
	if err := json.Unmarshal(m.Value, &e.Rejected); err != nil {
		e.Unreadable = fmt.Errorf("read rejected record: %w", err)
	}
	return e
}

// Original returns the message that was dead-lettered.
func (e Entry) Original() (kafka.Message, error) {
	switch {
	case e.Unreadable != nil:
		return kafka.Message{}, e.Unreadable
	case !strings.HasPrefix(e.Dead.Topic, "muster."):
		return kafka.Message{}, errors.New("source topic " + strconv.Quote(e.Dead.Topic) + " is not a platform topic")
	}
	m := kafka.Message{Topic: e.Dead.Topic, Key: e.Message.Key, Value: e.Message.Value}
	for _, h := range e.Message.Headers {
		if !strings.HasPrefix(h.Key, event.HeaderDeadPrefix) {
			m.Headers = append(m.Headers, h)
		}
	}
	return m, nil
}

// maxIDsPerEntry is the maximum number of entries that one log message marks.
const maxIDsPerEntry = 1000

// ResubmissionLog marks entries as resubmitted.
type ResubmissionLog struct {
	// Write writes messages and returns after they are stored.
	Write func(context.Context, []kafka.Message) error
	Run   string
	Now   func() time.Time

	pending map[string]map[int][]int64
	count   int
}

// Add marks the entry at the position of l.Message. Marks are written in batches; Flush writes the rest.
func (k *ResubmissionLog) Add(ctx context.Context, e Entry) error {
	topic, partition, offset := e.Message.Topic, e.Message.Partition, e.Message.Offset
	if k.pending == nil {
		k.pending = make(map[string]map[int][]int64)
	}
	if k.pending[topic] == nil {
		k.pending[topic] = make(map[int][]int64)
	}
	k.pending[topic][partition] = append(k.pending[topic][partition], offset)
	if k.count++; k.count < maxIDsPerEntry {
		return nil
	}
	return k.Flush(ctx)
}

// Flush writes the pending marks.
func (k *ResubmissionLog) Flush(ctx context.Context) error {
	var messages []kafka.Message
	at := k.Now().UTC()
	for topic, offsets := range k.pending {
		value, err := json.Marshal(event.Resubmitted{Run: k.Run, At: at, Offsets: offsets}, json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("mark dead letters as resubmitted: %w", err)
		}
		messages = append(messages, kafka.Message{
			Topic: topic, Key: []byte(k.Run), Value: value,
			Headers: bus.SetEvent(nil, bus.Event{
				ID: fmt.Sprintf("%s/%d", k.Run, at.UnixNano()), Type: event.TypeResubmitted,
				Source: "/resubmit/" + k.Run,
				Time:   at, ContentType: "application/json",
			}),
		})
	}
	if len(messages) == 0 {
		return nil
	}
	if err := k.Write(ctx, messages); err != nil {
		return fmt.Errorf("mark dead letters as resubmitted: %w", err)
	}
	k.pending, k.count = nil, 0
	return nil
}
