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

// webhookMaxBatchAge is the maximum age of a batch of attempts. Only operators read them.
const webhookMaxBatchAge = 2 * time.Second

func (p *Projector) newWebhookConsumer() (*bus.BatchConsumer, error) {
	return p.newEventConsumer(WebhookGroup, event.TopicWebhook, webhookMaxBatchAge, projectEvents(p, "webhook",
		func(rows *readmodel.WebhookBatch, a *event.WebhookAttempt, at readmodel.Position) error {
			if _, hit := p.deps.Suppressed.FindInDocument(identity.Default(), []byte(a.Response)); hit {
				a.Response = "" // As the Eraser does for stored rows.
			}
			rows.Add(a, at)
			return nil
		}, readmodel.InsertWebhooks))
}
