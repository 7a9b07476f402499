package event

import "time"

// TypeWebhookSettings is the CloudEvents type of [WebhookSettings].
const TypeWebhookSettings = "io.muster.account.v1.webhook-settings"

const webhookSettingsPrefix = "webhook-settings:"

// WebhookSettings has the endpoint for events of an organization, on TopicAccount with the key
// [WebhookSettings.EventKey]. A tombstone removes it.
type WebhookSettings struct {
	OrganizationID string    `json:"organization_id"`
	URL            string    `json:"url"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// EventKey returns the Kafka key.
func (s *WebhookSettings) EventKey() string { return webhookSettingsPrefix + s.OrganizationID }

// DecodeWebhookSettings decodes a message of TopicAccount. ok is false for other events. A tombstone returns no URL.
func DecodeWebhookSettings(key, value []byte) (s WebhookSettings, ok bool, err error) {
	ok, err = decodeOwned(webhookSettingsPrefix, key, value, &s, &s.OrganizationID)
	return s, ok, err
}

// Types of events that are delivered to an organization's endpoint.
const (
	WebhookPersonErased = "person.erased"
	WebhookTest         = "webhook.test"
)

// WebhookEvent is the body of the delivery of an event, in the form that Standard Webhooks 1.0.0 recommends.
type WebhookEvent struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      any       `json:"data"`
}
