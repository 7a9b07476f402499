package queryapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	v1 "muster/query-api/internal/v1"
	"muster/schemas/event"
)

// settings changes what callers may change of their organization. It implements v1.Settings.
type settings struct {
	accounts *Accounts // shares the directory of the service
	sealer   *event.WebhookSealer
	bus      bus.Config
}

// newSettings returns settings that write to the topics. The directory must follow the account topic.
func (s *Service) newSettings() (*settings, error) {
	key, err := s.deps.Secret.Key(event.WebhookKeyName, event.WebhookKeySize)
	if err != nil {
		return nil, err
	}
	sealer, err := event.NewWebhookSealer(key)
	if err != nil {
		return nil, err
	}
	return &settings{sealer: sealer, bus: s.deps.Bus, accounts: &Accounts{
		now: s.deps.Now, directory: s.accounts, writer: bus.NewWriter(s.deps.Bus, bus.WithWriterLogger(s.deps.Logger)),
	}}, nil
}

func (s *settings) close() error {
	if err := s.accounts.writer.Close(); err != nil {
		return fmt.Errorf("close settings: %w", err)
	}
	return nil
}

// unavailable marks an error as retryable.
func unavailable(err error) error { return fmt.Errorf("%w: %w", v1.ErrSettingsUnavailable, err) }

// SetWebhook implements v1.Settings.
func (s *settings) SetWebhook(ctx context.Context, organization, url string) error {
	state := event.WebhookSettings{OrganizationID: organization, URL: url, UpdatedAt: s.accounts.time()}
	if err := s.accounts.write(ctx, event.TypeWebhookSettings, state.EventKey(), state); err != nil {
		return unavailable(err)
	}
	return nil
}

// RemoveWebhook implements v1.Settings.
func (s *settings) RemoveWebhook(ctx context.Context, organization string) error {
	state := event.WebhookSettings{OrganizationID: organization}
	if err := s.accounts.publish(ctx, event.TypeWebhookSettings, state.EventKey(), nil); err != nil {
		return unavailable(err)
	}
	return nil
}

// RotateKeyOnce implements v1.Settings.
func (s *settings) RotateKeyOnce(ctx context.Context, id string, overlap time.Duration) (
	old, created event.Key, secret event.APIKey, err error) {
	old, created, secret, err = s.accounts.RotateKeyOnce(ctx, id, overlap)
	if err != nil && !errors.Is(err, v1.ErrKeyRotating) && !errors.Is(err, ErrNoSuchAccount) {
		err = unavailable(err)
	}
	return old, created, secret, err
}

// Deliver implements v1.Settings.
func (s *settings) Deliver(ctx context.Context, task *event.WebhookTask) error {
	key, id, value, err := task.Message()
	if err != nil {
		return err
	}
	m := kafka.Message{
		Topic: event.TopicWebhookTask, Key: []byte(key), Value: value,
		Headers: bus.SetTrace(ctx, bus.SetEvent(nil, bus.Event{
			ID: id, Type: event.TypeWebhookTask, Source: eventSource, Subject: task.DeliveryID, Time: s.accounts.time(),
			ContentType: "application/json",
		})),
	}
	if err := bus.WriteAll(ctx, s.accounts.writer, []kafka.Message{m}); err != nil {
		return unavailable(fmt.Errorf("queue delivery: %w", err))
	}
	return nil
}

// Resend implements v1.Settings.
func (s *settings) Resend(
	ctx context.Context, organization, deliveryID string, partition int, offset int64,
) error {
	m, err := bus.MessageAt(ctx, s.bus, event.TopicWebhookTask, partition, offset)
	if errors.Is(err, bus.ErrNoMessage) {
		return v1.ErrDeliveryGone
	}
	if err != nil {
		return unavailable(fmt.Errorf("read delivery: %w", err))
	}
	var task event.WebhookTask
	if err := json.Unmarshal(m.Value, &task); err != nil || task.DeliveryID != deliveryID ||
		task.OrganizationID != organization {
		return v1.ErrDeliveryGone // the log has lost the task
	}
	round, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("generate round: %w", err)
	}
	task.Round = round.String()
	return s.Deliver(ctx, &task)
}

// RotateWebhookSecret implements v1.Settings.
func (s *settings) RotateWebhookSecret(
	ctx context.Context, organization string, overlap time.Duration,
) (id, text string, err error) {
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	_, secrets := s.accounts.directory.Webhook(organization)
	next, text, err := secrets.Rotate(s.sealer, s.accounts.time(), overlap)
	if err != nil {
		return "", "", err
	}
	if err := s.accounts.write(ctx, event.TypeWebhookSecrets, next.EventKey(), next); err != nil {
		return "", "", unavailable(err)
	}
	return next.Secrets[0].ID, text, nil
}
