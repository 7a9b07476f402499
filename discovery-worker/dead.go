package discovery

import (
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/go-json-experiment/json"

	"muster/platform/breaker"
	"muster/platform/bus"
	"muster/schemas/event"
)

// serviceName names the service in dead letters.
const serviceName = "discovery-worker"

// malformedError is of a message that is no task; it can never be worked on. Its text has
// nothing of the message but its id.
type malformedError struct{ reason string }

func (e *malformedError) Error() string { return e.reason }

// readTask reads a handler's task. The error is a [*malformedError].
func readTask(payload []byte, task interface{ Validate() error }) error {
	if json.Unmarshal(payload, task) != nil { // its error quotes the message
		return &malformedError{"the message cannot be read as a task"}
	}
	if err := task.Validate(); err != nil {
		return &malformedError{err.Error()}
	}
	return nil
}

// deadLetters is a middleware that writes what can never be worked on to the dead
// letters, with why (event.Dead), and acknowledges it then. Every other error goes
// back to the subscriber, which delivers the message again.
func deadLetters(publisher message.Publisher, topic, handler string, now func() time.Time) message.HandlerMiddleware {
	return func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			out, err := h(msg)
			malformed := (*malformedError)(nil)
			if !errors.As(err, &malformed) || !breaker.MayDeadLetter(err) {
				return out, err
			}
			origin, _ := bus.MessageOrigin(msg.Context())
			letter := event.Dead{
				Service: serviceName, Handler: handler, Topic: origin.Topic, Partition: origin.Partition, Offset: origin.Offset,
				Code: "malformed_task", Reason: malformed.reason, Attempts: 1, FirstFailure: now(), LastFailure: now(),
			}
			dead := message.NewMessage(msg.UUID, msg.Payload)
			dead.SetContext(msg.Context())
			for k, v := range msg.Metadata {
				dead.Metadata[k] = v
			}
			letter.Set(dead.Metadata.Set)
			if err := publisher.Publish(topic, dead); err != nil {
				return nil, fmt.Errorf("write dead letter: %w", err)
			}
			return nil, nil
		}
	}
}
