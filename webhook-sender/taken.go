package webhook

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/schemas/event"
	"muster/webhook-sender/internal/delivery"
)

// A group's offset can be lost, or lie behind the end of a log that lost some of it: then
// the log's whole week of tasks is handed over again. The machine remembers only so many
// deliveries that have ended, so the partition itself says how far its tasks are finished.

// restore takes over a message of the topic of states.
func (o *owner) restore(m *kafka.Message) error {
	if string(m.Key) != event.WebhookTakenKey {
		return o.machine.Restore(m.Key, m.Value)
	}
	if err := json.Unmarshal(m.Value, &o.taken); err != nil {
		return fmt.Errorf("decode how far tasks are finished: %w", err)
	}
	o.newest = o.taken.Newest
	return nil
}

// moved returns how far tasks are finished, and whether the topic of states is behind.
func (o *owner) moved() (event.WebhookTaken, bool) {
	next, ok := o.p.Finished()
	if !ok {
		return o.taken, false
	}
	// It moves back only when new tasks have taken the places of those that the log lost,
	// behind all that was passed over.
	back := next < o.taken.Offset && next > o.skipped && o.newest.After(o.taken.Newest)
	return event.WebhookTaken{Offset: next, Newest: o.newest}, next > o.taken.Offset || back
}

// effect returns what has to be made durable. How far tasks are finished is what earlier
// effects finished.
func (o *owner) effect() delivery.Effect {
	e := o.machine.Effect()
	if taken, moved := o.moved(); moved {
		o.taken = taken
		e.States = append(e.States, delivery.State{Key: event.WebhookTakenKey, Taken: &taken})
	}
	return e
}
