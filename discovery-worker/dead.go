package discovery

import (
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"muster/platform/breaker"
	"muster/platform/bus"
	"muster/schemas/event"
)

// serviceName names the service in dead letters.
const serviceName = "discovery-worker"

// deadLetters is a middleware that writes what can never be worked on to the dead
// letters, with why (event.Dead), and acknowledges it then. Every other error goes
// back to the subscriber, which delivers the message again.
func deadLetters(publisher message.Publisher, topic, handler string, now func() time.Time) message.HandlerMiddleware {
	return func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			out, err := h(msg)
			if err == nil || !errors.Is(err, errMalformed) || !breaker.MayDeadLetter(err) {
				return out, err
			}
			origin, _ := bus.MessageOrigin(msg.Context())
			letter := event.Dead{
				Service: serviceName, Handler: handler, Topic: origin.Topic, Partition: origin.Partition, Offset: origin.Offset,
				Code: "malformed_task", Reason: errMalformed.Error(), Attempts: 1, FirstFailure: now(), LastFailure: now(),
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
