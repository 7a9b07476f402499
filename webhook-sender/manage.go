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

// ErrSecretsExist is returned if the organization already has a webhook secret. ErrRotating is
// returned if two secrets are valid, so that a third cannot be added.
var (
	ErrSecretsExist = errors.New("the organization already has a webhook secret")
	ErrRotating     = errors.New(
		"two webhook secrets are valid: wait until the older one expires, or end it with --now")
)

// SecretsConfig configures [OpenSecrets].
type SecretsConfig struct {
	Bus bus.Config
	// Key is derived from the root secret under the name event.WebhookKeyName.
	Key    []byte
	Logger *slog.Logger
	Now    func() time.Time
}

// Secrets reads and changes the webhook secrets of organizations, for operator commands. When a
// method returns, its change is on the account topic; senders apply it within moments. Concurrent
// changes to one organization by two processes overwrite each other.
type Secrets struct {
	cfg      SecretsConfig
	sealer   *event.WebhookSealer
	secrets  *secretCache
	follower *bus.Follower
	writer   *bus.Writer
}

// Secret is a webhook secret, as shown to an operator.
type Secret struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	// ExpiresAt is zero for the current secret, whose signature comes first.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	Valid     bool      `json:"valid"`
	// Secret is the whsec_ text. It is empty unless revealed.
	Secret string `json:"secret,omitempty"`
}

// OpenSecrets reads all secrets and returns. The caller must call Close.
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
	s := &Secrets{cfg: cfg, sealer: sealer, secrets: newSecretCache(sealer, cfg.Logger)}
	s.follower = s.secrets.follow(context.WithoutCancel(ctx), cfg.Bus, cfg.Logger)
	if err := s.follower.WaitReady(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("read webhook secrets: %w", err), s.follower.Close())
	}
	s.writer = bus.NewWriter(cfg.Bus, bus.WithWriterLogger(cfg.Logger))
	return s, nil
}

// Close stops the follower and closes the writer.
func (s *Secrets) Close() error {
	if err := errors.Join(s.writer.Close(), s.follower.Close()); err != nil {
		return fmt.Errorf("close webhook secrets: %w", err)
	}
	return nil
}

// List returns an organization's secrets, newest first, including expired ones that are still
// stored. If reveal is true, valid secrets include their text.
func (s *Secrets) List(organization string, reveal bool) ([]Secret, error) {
	state, _ := s.secrets.state(organization)
	now := s.cfg.Now()
	out := []Secret{}
	for _, w := range state.Secrets {
		v := Secret{ID: w.ID, CreatedAt: w.CreatedAt, ExpiresAt: w.ExpiresAt,
			Valid: w.ExpiresAt.IsZero() || now.Before(w.ExpiresAt)}
		if reveal && v.Valid {
			var err error
			if v.Secret, err = s.sealer.Open(organization, w); err != nil {
				return nil, fmt.Errorf("webhook secret %s: %w", w.ID, err)
			}
		}
		out = append(out, v)
	}
	return out, nil
}

// Create creates the first secret of an organization. It returns ErrSecretsExist if there is a
// valid one.
func (s *Secrets) Create(ctx context.Context, organization string) (Secret, error) {
	state, _ := s.secrets.state(organization)
	if len(state.ValidAt(s.cfg.Now())) > 0 {
		return Secret{}, ErrSecretsExist
	}
	return s.rotate(ctx, organization, state, 0)
}

// Rotate creates a new secret. The previous one stays valid for overlap; with 0, all previous
// secrets end immediately. Without a previous secret it creates the first. It returns ErrRotating
// if two secrets are valid and overlap is not 0.
func (s *Secrets) Rotate(ctx context.Context, organization string, overlap time.Duration) (Secret, error) {
	if overlap < 0 {
		return Secret{}, errors.New("rotate webhook secret: overlap is negative")
	}
	state, _ := s.secrets.state(organization)
	secret, err := s.rotate(ctx, organization, state, overlap)
	if errors.Is(err, event.ErrWebhookRotating) {
		return Secret{}, ErrRotating
	}
	return secret, err
}

// rotate writes the secrets with a new one.
func (s *Secrets) rotate(
	ctx context.Context, organization string, state event.WebhookSecrets, overlap time.Duration,
) (Secret, error) {
	state.OrganizationID = organization // unset without secrets
	next, plain, err := state.Rotate(s.sealer, s.cfg.Now(), overlap)
	if err != nil {
		return Secret{}, err
	}
	if err := s.write(ctx, &next); err != nil {
		return Secret{}, err
	}
	return Secret{ID: next.Secrets[0].ID, CreatedAt: next.UpdatedAt, Valid: true, Secret: plain}, nil
}

// write publishes the secrets and waits until they are read back from the topic.
func (s *Secrets) write(ctx context.Context, state *event.WebhookSecrets) error {
	value, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("encode webhook secrets: %w", err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("generate event ID: %w", err)
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
