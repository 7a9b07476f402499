package letters

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

// Letter is a rejected record or a dead letter.
type Letter struct {
	// Message is the letter as it is stored.
	Message kafka.Message
	// Rejected is the rejected record; of a dead letter it is empty.
	Rejected event.Rejected
	// Dead says what was given up; of a rejected record it is empty.
	Dead event.Dead
	// Unreadable is why the letter itself cannot be read. It is listed all the same.
	Unreadable error
	// Resubmitted is when it was last given back; zero if it was not.
	Resubmitted time.Time
}

// IsDead tells a dead letter from a rejected record.
func (l Letter) IsDead() bool { return l.Message.Topic != event.TopicRejected }

// ID names the letter among those of its kind: "3-42" is that of a rejected record,
// partition and offset; "discovery-worker.score:0-7" that of a dead letter.
func (l Letter) ID() string {
	place := fmt.Sprintf("%d-%d", l.Message.Partition, l.Message.Offset)
	if l.IsDead() {
		return handlerOf(l.Message.Topic) + ":" + place
	}
	return place
}

// handlerOf returns "service.handler" of a topic of dead letters.
func handlerOf(topic string) string {
	return strings.TrimSuffix(strings.TrimPrefix(topic, event.DeadTopicPrefix), ".v1")
}

// Handler is "service.handler" of a dead letter.
func (l Letter) Handler() string {
	if !l.IsDead() {
		return ""
	}
	return handlerOf(l.Message.Topic)
}

// At is when the record was rejected, or the message given up.
func (l Letter) At() time.Time {
	switch {
	case !l.Rejected.At.IsZero():
		return l.Rejected.At
	case !l.Dead.LastFailure.IsZero():
		return l.Dead.LastFailure
	}
	return l.Message.Time.UTC()
}

// Code is the short name of the reason.
func (l Letter) Code() string {
	switch {
	case l.Unreadable != nil:
		return "unreadable_letter"
	case l.IsDead():
		return l.Dead.Code
	}
	return l.Rejected.Code
}

// has reports whether the letter's reason has a code, or that of another defect of the record.
func (l Letter) has(code string) bool {
	return l.Code() == code || slices.ContainsFunc(l.Rejected.Defects, func(d record.Defect) bool { return d.Code == code })
}

// Filter lets letters through. Zero fields let all through.
type Filter struct {
	// IDs are those of [Letter.ID].
	IDs []string
	// Kind is that of a rejected record, Handler "service.handler" of a dead letter.
	Kind    record.Kind
	Handler string
	// Code is that of the reason, or of any defect of a rejected record.
	Code string
	// Run is the id of the run that rejected it, or the beginning of that.
	Run string
	// Since and Until bound when.
	Since, Until time.Time
	// Resubmitted lets those through that were given back, which else are left out.
	Resubmitted bool
}

func (f Filter) passes(l Letter) bool {
	switch {
	case len(f.IDs) > 0 && !slices.Contains(f.IDs, l.ID()),
		f.Kind != "" && l.Rejected.Kind != f.Kind,
		f.Handler != "" && l.Handler() != f.Handler,
		f.Code != "" && !l.has(f.Code),
		f.Run != "" && !strings.HasPrefix(l.Rejected.Source.Run, f.Run),
		!f.Since.IsZero() && l.At().Before(f.Since),
		!f.Until.IsZero() && !l.At().Before(f.Until),
		!f.Resubmitted && !l.Resubmitted.IsZero():
		return false
	}
	return true
}

// place is that of a letter.
type place struct {
	topic     string
	partition int
	offset    int64
}

// Topics returns the topics that letters are on: that of rejected records, or those
// of the dead.
func Topics(ctx context.Context, cfg bus.Config, dead bool) ([]string, error) {
	if !dead {
		return []string{event.TopicRejected}, nil
	}
	return bus.TopicNames(ctx, cfg, event.DeadTopicPrefix)
}

// Scan gives every letter on the topics that the filter lets through to each, in
// the order of each partition. An error of each ends it.
func Scan(ctx context.Context, cfg bus.Config, topics []string, filter Filter, each func(Letter) error) error {
	// The marks stand behind the letters.
	given := make(map[place]time.Time)
	err := bus.Scan(ctx, cfg, topics, func(m kafka.Message) error {
		if typeOf(m) != event.TypeResubmitted {
			return nil
		}
		var mark event.Resubmitted
		if err := json.Unmarshal(m.Value, &mark); err != nil {
			return nil //nolint:nilerr // nothing is marked by it; the letters are read all the same
		}
		for partition, offsets := range mark.Offsets {
			for _, o := range offsets {
				given[place{m.Topic, partition, o}] = mark.At
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read letters: %w", err)
	}
	err = bus.Scan(ctx, cfg, topics, func(m kafka.Message) error {
		if typeOf(m) == event.TypeResubmitted {
			return nil
		}
		l := read(m)
		l.Resubmitted = given[place{m.Topic, m.Partition, m.Offset}]
		if !filter.passes(l) {
			return nil
		}
		return each(l)
	})
	if err != nil {
		return fmt.Errorf("read letters: %w", err)
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

func read(m kafka.Message) Letter {
	l := Letter{Message: m}
	if l.IsDead() {
		l.Dead, l.Unreadable = event.ParseDead(func(name string) string { return header(m, name) })
		return l
	}
	if err := json.Unmarshal(m.Value, &l.Rejected); err != nil {
		l.Unreadable = fmt.Errorf("read rejected record: %w", err)
	}
	return l
}

// Original returns the message that a dead letter was made of.
func (l Letter) Original() (kafka.Message, error) {
	switch {
	case l.Unreadable != nil:
		return kafka.Message{}, l.Unreadable
	case !strings.HasPrefix(l.Dead.Topic, "muster."):
		return kafka.Message{}, errors.New("was read from " + strconv.Quote(l.Dead.Topic) + ", which is no topic of the platform")
	}
	m := kafka.Message{Topic: l.Dead.Topic, Key: l.Message.Key, Value: l.Message.Value}
	for _, h := range l.Message.Headers {
		if !strings.HasPrefix(h.Key, event.HeaderDeadPrefix) {
			m.Headers = append(m.Headers, h)
		}
	}
	return m, nil
}

// maxMarks is how many letters one mark names.
const maxMarks = 1000

// Marker marks letters as resubmitted.
type Marker struct {
	// Write stores messages and returns once they are.
	Write func(context.Context, []kafka.Message) error
	Run   string
	Now   func() time.Time

	pending map[string]map[int][]int64
	count   int
}

// Add marks the letter at the place of l's message, with many others at a time:
// Flush marks the rest.
func (k *Marker) Add(ctx context.Context, l Letter) error {
	topic, partition, offset := l.Message.Topic, l.Message.Partition, l.Message.Offset
	if k.pending == nil {
		k.pending = make(map[string]map[int][]int64)
	}
	if k.pending[topic] == nil {
		k.pending[topic] = make(map[int][]int64)
	}
	k.pending[topic][partition] = append(k.pending[topic][partition], offset)
	if k.count++; k.count < maxMarks {
		return nil
	}
	return k.Flush(ctx)
}

// Flush stores the marks that are not stored yet.
func (k *Marker) Flush(ctx context.Context) error {
	var messages []kafka.Message
	at := k.Now().UTC()
	for topic, offsets := range k.pending {
		value, err := json.Marshal(event.Resubmitted{Run: k.Run, At: at, Offsets: offsets}, json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("mark letters as resubmitted: %w", err)
		}
		messages = append(messages, kafka.Message{
			Topic: topic, Key: []byte(k.Run), Value: value,
			Headers: bus.SetEvent(nil, bus.Event{
				ID: fmt.Sprintf("%s/%d", k.Run, at.UnixNano()), Type: event.TypeResubmitted, Source: "/resubmit/" + k.Run,
				Time: at, ContentType: "application/json",
			}),
		})
	}
	if len(messages) == 0 {
		return nil
	}
	if err := k.Write(ctx, messages); err != nil {
		return fmt.Errorf("mark letters as resubmitted: %w", err)
	}
	k.pending, k.count = nil, 0
	return nil
}
