package projector

import (
	"time"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// WebhookGroup is the consumer group of the projection of webhook attempts.
const WebhookGroup = "muster.projector.webhook"

// webhookAge is how old a batch of attempts may get: only operators look at them.
const webhookAge = 2 * time.Second

func (p *Projector) newWebhookConsumer() (*bus.BatchConsumer, error) {
	return p.newEventConsumer(WebhookGroup, event.TopicWebhook, webhookAge, handleEvents(p, "webhook",
		func(rows *readmodel.WebhookBatch, a *event.WebhookAttempt, at readmodel.Position) error {
			if _, hit := p.deps.Suppressed.Document(identity.Default(), []byte(a.Response)); hit {
				a.Response = "" // as a sweep leaves it
			}
			rows.Add(a, at)
			return nil
		}, readmodel.InsertWebhooks))
}
