package webhook

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
)

// secretCache holds the webhook secrets and the inactive organizations from the account topic in
// memory. It is safe for concurrent use.
type secretCache struct {
	sealer *event.WebhookSealer
	logger *slog.Logger

	mu        sync.RWMutex
	states    map[string]event.WebhookSecrets
	plaintext map[string]string // by organization and secret ID
	changed   chan struct{}     // closed and replaced on each change
	// inactive holds the IDs of deactivated organizations.
	inactive map[string]bool
}

func newSecretCache(sealer *event.WebhookSealer, logger *slog.Logger) *secretCache {
	return &secretCache{
		sealer: sealer, logger: logger, states: make(map[string]event.WebhookSecrets),
		plaintext: make(map[string]string), changed: make(chan struct{}), inactive: make(map[string]bool),
	}
}

// follow keeps the cache up to date until ctx ends or the follower is closed.
func (s *secretCache) follow(ctx context.Context, cfg bus.Config, logger *slog.Logger) *bus.Follower {
	return bus.Follow(ctx, cfg, bus.FollowConfig{
		Topics: []string{event.TopicAccount}, Logger: logger,
		Handle: func(ctx context.Context, m kafka.Message) error { s.apply(ctx, m.Key, m.Value); return nil },
	})
}

// apply applies one message of the account topic.
func (s *secretCache) apply(ctx context.Context, key, value []byte) {
	state, ok, err := event.DecodeWebhookSecrets(key, value)
	if !ok {
		s.applyAccount(ctx, key, value)
		return
	}
	// An unreadable message must not block later ones.
	if err != nil {
		s.logger.LogAttrs(ctx, slog.LevelError, "webhook: unreadable secrets skipped", slog.Any("error", err))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.states[state.OrganizationID].Secrets {
		delete(s.plaintext, state.OrganizationID+"/"+w.ID)
	}
	s.states[state.OrganizationID] = state
	for _, w := range state.Secrets {
		plain, err := s.sealer.Open(state.OrganizationID, w)
		if err != nil {
			s.logger.LogAttrs(ctx, slog.LevelError, "webhook: secret cannot be decrypted",
				slog.String("organization_id", state.OrganizationID),
				slog.String("secret_id", w.ID), slog.Any("error", err))
			continue
		}
		s.plaintext[state.OrganizationID+"/"+w.ID] = plain
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// applyAccount records whether an organization is active.
func (s *secretCache) applyAccount(ctx context.Context, key, value []byte) {
	organization, _, err := event.DecodeAccount(key, value)
	if err != nil && !errors.Is(err, event.ErrNotAccount) {
		s.logger.LogAttrs(ctx, slog.LevelError, "webhook: unreadable account event skipped", slog.Any("error", err))
	}
	if err != nil || organization == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if organization.Active {
		delete(s.inactive, organization.ID)
	} else {
		s.inactive[organization.ID] = true
	}
}

// isInactive reports whether an organization is deactivated. Unknown organizations are active.
func (s *secretCache) isInactive(organization string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.inactive[organization]
}

// state returns the secrets of an organization, and a channel that is closed on the next change of
// any.
func (s *secretCache) state(organization string) (event.WebhookSecrets, <-chan struct{}) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.states[organization], s.changed
}

// validAt returns the secrets to sign with at now, newest first. It returns
// event.ErrWebhookSecretSealed if one of them cannot be decrypted, because a receiver may know only
// that one.
func (s *secretCache) validAt(organization string, now time.Time) ([]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	state := s.states[organization]
	var out []string
	for _, w := range state.ValidAt(now) {
		plain, ok := s.plaintext[organization+"/"+w.ID]
		if !ok {
			return nil, event.ErrWebhookSecretSealed
		}
		out = append(out, plain)
	}
	return out, nil
}
