package event

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// TypeWebhookSecrets is the CloudEvents type of [WebhookSecrets].
const TypeWebhookSecrets = "io.muster.account.v1.webhook-secrets" //nolint:gosec // the name of a type

// WebhookKeyName is the name, for derivation from the root secret, of the encryption key of webhook secrets;
// WebhookKeySize is its size in bytes.
const (
	WebhookKeyName = "webhook-secrets"
	WebhookKeySize = 32
)

const (
	webhookSecretsPrefix = "webhook:"
	webhookSecretStart   = "whsec_"
	// webhookSecretBytes is within the 24 to 64 bytes of Standard Webhooks 1.0.0.
	webhookSecretBytes = 32
)

// MaxWebhookSecrets is the number of valid secrets of an organization: two during a rotation (rulings.md,
// Context).
const MaxWebhookSecrets = 2

// WebhookSecrets are the signing secrets of an organization's deliveries, newest first, on TopicAccount with
// the key [WebhookSecrets.EventKey].
type WebhookSecrets struct {
	OrganizationID string          `json:"organization_id"`
	Secrets        []WebhookSecret `json:"secrets"`
	UpdatedAt      time.Time       `json:"updated_at"`
}

// WebhookSecret is one secret. It is stored encrypted only.
type WebhookSecret struct {
	// ID identifies the secret without revealing it.
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	// ExpiresAt is when a replaced secret is no longer used for signing.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// Sealed is the nonce followed by the secret encrypted with AES-256-GCM.
	Sealed []byte `json:"sealed"`
}

// EventKey returns the Kafka key.
func (s *WebhookSecrets) EventKey() string { return webhookSecretsPrefix + s.OrganizationID }

// ValidAt returns the secrets to sign with, newest first.
func (s *WebhookSecrets) ValidAt(now time.Time) []WebhookSecret {
	return slices.DeleteFunc(slices.Clone(s.Secrets), func(w WebhookSecret) bool {
		return !w.ExpiresAt.IsZero() && !now.Before(w.ExpiresAt)
	})
}

// ErrWebhookRotating is returned if two secrets are valid, so that a third cannot be added.
var ErrWebhookRotating = errors.New("two webhook secrets are valid")

// Rotate returns the secrets with a new one in front, and its plain text. The previous ones stay valid for overlap;
// with 0 they end immediately. It returns ErrWebhookRotating if two secrets are valid and overlap is not 0.
func (s *WebhookSecrets) Rotate(sealer *WebhookSealer, now time.Time, overlap time.Duration) (
	next WebhookSecrets, plain string, err error) {
	valid := s.ValidAt(now)
	switch {
	case overlap == 0:
		valid = nil
	case len(valid) >= MaxWebhookSecrets:
		return next, "", ErrWebhookRotating
	}
	created, plain, err := sealer.Generate(s.OrganizationID, now)
	if err != nil {
		return next, "", err
	}
	next = WebhookSecrets{
		OrganizationID: s.OrganizationID, Secrets: []WebhookSecret{created}, UpdatedAt: created.CreatedAt,
	}
	for _, old := range valid {
		if end := created.CreatedAt.Add(overlap); old.ExpiresAt.IsZero() || end.Before(old.ExpiresAt) {
			old.ExpiresAt = end
		}
		next.Secrets = append(next.Secrets, old)
	}
	return next, plain, nil
}

// DecodeWebhookSecrets decodes a message of TopicAccount. ok is false for other events. A tombstone returns
// no secrets.
func DecodeWebhookSecrets(key, value []byte) (s WebhookSecrets, ok bool, err error) {
	ok, err = decodeOwned(webhookSecretsPrefix, key, value, &s, &s.OrganizationID)
	return s, ok, err
}

// decodeOwned decodes what an organization has on TopicAccount under a key that begins with prefix into state, whose
// field owner has the organization. ok is false for other keys.
func decodeOwned(prefix string, key, value []byte, state any, owner *string) (ok bool, err error) {
	organization, ok := strings.CutPrefix(string(key), prefix)
	if !ok {
		return false, nil
	}
	*owner = organization
	if len(value) == 0 {
		return true, nil
	}
	if err := json.Unmarshal(value, state); err != nil {
		return true, fmt.Errorf("decode account event %s: %w", key, err)
	}
	if *owner != organization {
		return true, fmt.Errorf("decode account event %s: value has organization %q", key, *owner)
	}
	return true, nil
}

// WebhookSealer encrypts and decrypts webhook secrets.
type WebhookSealer struct{ aead cipher.AEAD }

// NewWebhookSealer returns a WebhookSealer with the key that WebhookKeyName names.
func NewWebhookSealer(key []byte) (*WebhookSealer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("webhook sealer: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("webhook sealer: %w", err)
	}
	return &WebhookSealer{aead}, nil
}

// Generate returns a new secret in its sealed form, and in plain text as whsec_ and base64.
func (s *WebhookSealer) Generate(organization string, now time.Time) (WebhookSecret, string, error) {
	material := make([]byte, webhookSecretBytes)
	if _, err := rand.Read(material); err != nil {
		return WebhookSecret{}, "", fmt.Errorf("generate webhook secret: %w", err)
	}
	plain := webhookSecretStart + base64.StdEncoding.EncodeToString(material)
	w := WebhookSecret{ID: "whs_" + strings.ToLower(rand.Text()[:12]), CreatedAt: now.UTC()}
	nonce := make([]byte, s.aead.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return WebhookSecret{}, "", fmt.Errorf("generate webhook secret: %w", err)
	}
	w.Sealed = s.aead.Seal(nonce, nonce, []byte(plain), sealedFor(organization, w.ID))
	return w, plain, nil
}

// ErrWebhookSecretSealed means that a secret was encrypted with another root secret or for another
// organization.
var ErrWebhookSecretSealed = errors.New("the webhook secret cannot be decrypted: it was created with another " +
	"MUSTER_SECRET_KEY (or secret.key)")

// Open decrypts a secret of an organization.
func (s *WebhookSealer) Open(organization string, w WebhookSecret) (string, error) {
	n := s.aead.NonceSize()
	if len(w.Sealed) < n {
		return "", ErrWebhookSecretSealed
	}
	plain, err := s.aead.Open(nil, w.Sealed[:n], w.Sealed[n:], sealedFor(organization, w.ID))
	if err != nil {
		return "", ErrWebhookSecretSealed
	}
	return string(plain), nil
}

// sealedFor returns the additional data that binds a sealed secret to its organization and id.
func sealedFor(organization, id string) []byte { return []byte(organization + "\x00" + id) }
