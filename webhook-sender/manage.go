package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
)

// ErrSecretsExist says that an organization has a webhook secret already; ErrRotating
// that two are valid, so that a third has to wait.
var (
	ErrSecretsExist = errors.New("the organization has a webhook secret already")
	ErrRotating     = errors.New("two webhook secrets are valid already: wait until the older one ends, or end it now with --now")
)

// SecretsConfig is what [OpenSecrets] works with.
type SecretsConfig struct {
	Bus bus.Config
	// Key is what event.WebhookKeyName derives from the root secret.
	Key    []byte
	Logger *slog.Logger
	Now    func() time.Time
}

// Secrets reads and changes the webhook secrets of organizations, for operators'
// commands. Changes are on the account topic when a method returns, and hold on
// every sender a moment later. Two processes that change one organization's
// secrets at the same time overwrite each other.
type Secrets struct {
	cfg      SecretsConfig
	sealer   *event.WebhookSealer
	secrets  *secrets
	follower *bus.Follower
	writer   *bus.Writer
}

// Secret is a secret as an operator sees it.
type Secret struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	// ExpiresAt is zero for the one that new deliveries are signed with first.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	Valid     bool      `json:"valid"`
	// Secret is whsec_..., where it is asked for.
	Secret string `json:"secret,omitempty"`
}

// OpenSecrets returns once all secrets are read. Close must be called.
func OpenSecrets(ctx context.Context, cfg SecretsConfig) (*Secrets, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	sealer, err := event.NewWebhookSealer(cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("open webhook secrets: %w", err)
	}
	s := &Secrets{cfg: cfg, sealer: sealer, secrets: newSecrets(sealer, cfg.Logger)}
	s.follower = s.secrets.follow(context.WithoutCancel(ctx), cfg.Bus, cfg.Logger)
	if err := s.follower.WaitReady(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("read webhook secrets: %w", err), s.follower.Close())
	}
	s.writer = bus.NewWriter(cfg.Bus, bus.WithWriterLogger(cfg.Logger))
	return s, nil
}

// Close ends reading and writing.
func (s *Secrets) Close() error {
	if err := errors.Join(s.writer.Close(), s.follower.Close()); err != nil {
		return fmt.Errorf("close webhook secrets: %w", err)
	}
	return nil
}

// List returns an organization's secrets, newest first, ended ones too as long as
// they are kept. reveal shows those that are valid.
func (s *Secrets) List(organization string, reveal bool) ([]Secret, error) {
	state, _ := s.secrets.state(organization)
	now := s.cfg.Now()
	out := []Secret{}
	for _, w := range state.Secrets {
		v := Secret{ID: w.ID, CreatedAt: w.CreatedAt, ExpiresAt: w.ExpiresAt, Valid: w.ExpiresAt.IsZero() || now.Before(w.ExpiresAt)}
		if reveal && v.Valid {
			var err error
			if v.Secret, err = s.sealer.Open(organization, w); err != nil {
				return nil, fmt.Errorf("secret %s: %w", w.ID, err)
			}
		}
		out = append(out, v)
	}
	return out, nil
}

// Create makes the first secret of an organization.
func (s *Secrets) Create(ctx context.Context, organization string) (Secret, error) {
	state, _ := s.secrets.state(organization)
	if len(state.ValidAt(s.cfg.Now())) > 0 {
		return Secret{}, ErrSecretsExist
	}
	return s.add(ctx, organization, state, 0)
}

// Rotate makes a new secret. The one before it is signed with, too, for as long as
// overlap says; with 0 it ends at once, and so do all others. Where there is none it
// makes the first.
func (s *Secrets) Rotate(ctx context.Context, organization string, overlap time.Duration) (Secret, error) {
	if overlap < 0 {
		return Secret{}, errors.New("rotate webhook secret: the overlap is negative")
	}
	state, _ := s.secrets.state(organization)
	if len(state.ValidAt(s.cfg.Now())) >= event.MaxWebhookSecrets && overlap > 0 {
		return Secret{}, ErrRotating
	}
	return s.add(ctx, organization, state, overlap)
}

// add puts a new secret before those that are still valid.
func (s *Secrets) add(ctx context.Context, organization string, state event.WebhookSecrets, overlap time.Duration) (Secret, error) {
	now := s.cfg.Now().UTC()
	w, plain, err := s.sealer.Generate(organization, now)
	if err != nil {
		return Secret{}, err
	}
	next := event.WebhookSecrets{OrganizationID: organization, Secrets: []event.WebhookSecret{w}, UpdatedAt: now}
	for _, old := range state.ValidAt(now) {
		if overlap == 0 {
			break
		}
		if end := now.Add(overlap); old.ExpiresAt.IsZero() || end.Before(old.ExpiresAt) {
			old.ExpiresAt = end
		}
		next.Secrets = append(next.Secrets, old)
	}
	if err := s.write(ctx, &next); err != nil {
		return Secret{}, err
	}
	return Secret{ID: w.ID, CreatedAt: w.CreatedAt, Valid: true, Secret: plain}, nil
}

// write states the secrets and returns when they have come back from the topic.
func (s *Secrets) write(ctx context.Context, state *event.WebhookSecrets) error {
	value, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("encode webhook secrets: %w", err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("name webhook secrets: %w", err)
	}
	m := kafka.Message{
		Topic: event.TopicAccount, Key: []byte(state.EventKey()), Value: value,
		Headers: bus.SetTrace(ctx, bus.SetEvent(nil, bus.Event{
			ID: id.String(), Type: event.TypeWebhookSecrets, Source: "/muster/webhook", Subject: state.OrganizationID,
			Time: state.UpdatedAt, ContentType: "application/json",
		})),
	}
	if err := bus.WriteAll(ctx, s.writer, []kafka.Message{m}); err != nil {
		return fmt.Errorf("write webhook secrets: %w", err)
	}
	newest := state.Secrets[0].ID
	for {
		now, changed := s.secrets.state(state.OrganizationID)
		if len(now.Secrets) > 0 && now.Secrets[0].ID == newest {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("read webhook secrets back: %w", context.Cause(ctx))
		}
	}
}
