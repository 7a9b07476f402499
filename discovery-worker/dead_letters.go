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

// serviceName is the name of the service in dead letters.
const serviceName = "discovery-worker"

// malformedError reports a message that is not a valid task. Retrying is pointless. Its text
// contains nothing of the message except its ID.
type malformedError struct{ reason string }

func (e *malformedError) Error() string { return e.reason }

// decodeTask decodes and validates a task. It returns a [*malformedError] if the payload is
// invalid.
func decodeTask(payload []byte, task interface{ Validate() error }) error {
	// The error of json quotes the message.
	if json.Unmarshal(payload, task) != nil {
		return &malformedError{"message is not a valid task"}
	}
	if err := task.Validate(); err != nil {
		return &malformedError{err.Error()}
	}
	return nil
}

// deadLetters returns a middleware that writes malformed messages to the dead-letter topic, with
// the reason (event.DeadLetter), and acknowledges them. Other errors are returned to the subscriber,
// which redelivers the message.
func deadLetters(publisher message.Publisher, topic, handler string, now func() time.Time) message.HandlerMiddleware {
	return func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			out, err := h(msg)
			malformed := (*malformedError)(nil)
			if !errors.As(err, &malformed) || !breaker.MayDeadLetter(err) {
				return out, err
			}
			origin, _ := bus.MessageOrigin(msg.Context())
			header := event.DeadLetter{
				Service: serviceName, Handler: handler, Topic: origin.Topic, Partition: origin.Partition,
				Offset: origin.Offset, Code: "malformed_task", Reason: malformed.reason, Attempts: 1,
				FirstFailure: now(), LastFailure: now(),
			}
			dead := message.NewMessage(msg.UUID, msg.Payload)
			dead.SetContext(msg.Context())
			for k, v := range msg.Metadata {
				dead.Metadata[k] = v
			}
			header.Set(dead.Metadata.Set)
			if err := publisher.Publish(topic, dead); err != nil {
				return nil, fmt.Errorf("write dead letter: %w", err)
			}
			return nil, nil
		}
	}
}
