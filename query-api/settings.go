package queryapi

import (
	"context"
	"fmt"
	"time"

	"muster/platform/bus"
	v1 "muster/query-api/internal/v1"
	"muster/schemas/event"
)

// settings changes what callers may change of their organization. It implements v1.Settings.
type settings struct {
	accounts *Accounts // shares the directory of the service
	sealer   *event.WebhookSealer
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
	return &settings{sealer: sealer, accounts: &Accounts{
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

// RotateWebhookSecret implements v1.Settings.
func (s *settings) RotateWebhookSecret(
	ctx context.Context, organization string, overlap time.Duration,
) (string, error) {
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	_, secrets := s.accounts.directory.Webhook(organization)
	next, plain, err := secrets.Rotate(s.sealer, s.accounts.time(), overlap)
	if err != nil {
		return "", err
	}
	if err := s.accounts.write(ctx, event.TypeWebhookSecrets, next.EventKey(), next); err != nil {
		return "", unavailable(err)
	}
	return plain, nil
}
