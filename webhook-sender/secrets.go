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

// secrets is what the account topic says of webhook secrets, and of who may be sent
// anything, in memory.
type secrets struct {
	sealer *event.WebhookSealer
	logger *slog.Logger

	mu      sync.RWMutex
	states  map[string]event.WebhookSecrets
	plain   map[string]string // by organization and secret id
	changed chan struct{}     // closed, and replaced, by each change
	// inactive are the organizations that were deactivated.
	inactive map[string]bool
}

func newSecrets(sealer *event.WebhookSealer, logger *slog.Logger) *secrets {
	return &secrets{
		sealer: sealer, logger: logger, states: make(map[string]event.WebhookSecrets), plain: make(map[string]string),
		changed: make(chan struct{}), inactive: make(map[string]bool),
	}
}

// follow keeps the secrets up to date until ctx ends or the follower is closed.
func (s *secrets) follow(ctx context.Context, cfg bus.Config, logger *slog.Logger) *bus.Follower {
	return bus.Follow(ctx, cfg, bus.FollowConfig{
		Topics: []string{event.TopicAccount}, Logger: logger,
		Handle: func(ctx context.Context, m kafka.Message) error { s.apply(ctx, m.Key, m.Value); return nil },
	})
}

// apply takes over one message of the account topic.
func (s *secrets) apply(ctx context.Context, key, value []byte) {
	state, ok, err := event.DecodeWebhookSecrets(key, value)
	if !ok {
		s.applyAccount(ctx, key, value)
		return
	}
	if err != nil { // what cannot be read must not keep later events from being applied
		s.logger.LogAttrs(ctx, slog.LevelError, "webhook secrets skipped", slog.Any("error", err))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.states[state.OrganizationID].Secrets {
		delete(s.plain, state.OrganizationID+"/"+w.ID)
	}
	s.states[state.OrganizationID] = state
	for _, w := range state.Secrets {
		plain, err := s.sealer.Open(state.OrganizationID, w)
		if err != nil {
			s.logger.LogAttrs(ctx, slog.LevelError, "webhook secret cannot be read", slog.String("organization", state.OrganizationID),
				slog.String("secret", w.ID), slog.Any("error", err))
			continue
		}
		s.plain[state.OrganizationID+"/"+w.ID] = plain
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// applyAccount notes whether an organization is active.
func (s *secrets) applyAccount(ctx context.Context, key, value []byte) {
	organization, _, err := event.DecodeAccount(key, value)
	if err != nil && !errors.Is(err, event.ErrNotAccount) {
		s.logger.LogAttrs(ctx, slog.LevelError, "account event skipped", slog.Any("error", err))
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

// isInactive reports whether an organization was deactivated. One that nothing is known of
// was not.
func (s *secrets) isInactive(organization string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.inactive[organization]
}

// state returns the secrets of an organization and what closes when any change.
func (s *secrets) state(organization string) (event.WebhookSecrets, <-chan struct{}) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.states[organization], s.changed
}

// of returns the secrets to sign with, newest first. The error is
// event.ErrWebhookSecretSealed when one of them cannot be decrypted: a receiver may
// know only that one.
func (s *secrets) of(organization string, now time.Time) ([]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	state := s.states[organization]
	var out []string
	for _, w := range state.ValidAt(now) {
		plain, ok := s.plain[organization+"/"+w.ID]
		if !ok {
			return nil, event.ErrWebhookSecretSealed
		}
		out = append(out, plain)
	}
	return out, nil
}
