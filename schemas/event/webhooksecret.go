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

// WebhookKeyName names the key, derived from the root secret, that webhook
// secrets are encrypted with; WebhookKeySize is its size in bytes.
const (
	WebhookKeyName = "webhook-secrets"
	WebhookKeySize = 32
)

const (
	webhookSecretsPrefix = "webhook:"
	webhookSecretStart   = "whsec_"
	// webhookSecretBytes is within the 24 to 64 of Standard Webhooks 1.0.0.
	webhookSecretBytes = 32
)

// MaxWebhookSecrets is how many secrets of an organization are valid at a time:
// two while they are rotated (rulings.md, Context).
const MaxWebhookSecrets = 2

// WebhookSecrets are the secrets that an organization's deliveries are signed
// with, newest first, on TopicAccount under [WebhookSecrets.EventKey].
type WebhookSecrets struct {
	OrganizationID string          `json:"organization_id"`
	Secrets        []WebhookSecret `json:"secrets"`
	UpdatedAt      time.Time       `json:"updated_at"`
}

// WebhookSecret is one secret. It is only ever stored encrypted.
type WebhookSecret struct {
	// ID tells secrets apart without showing them.
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	// ExpiresAt is when a secret that was replaced ends to be signed with.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// Sealed is the secret under AES-256-GCM, behind its nonce.
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

// DecodeWebhookSecrets reads a message of TopicAccount. ok is false for one that
// states something else. A tombstone gives no secrets.
func DecodeWebhookSecrets(key, value []byte) (s WebhookSecrets, ok bool, err error) {
	organization, ok := strings.CutPrefix(string(key), webhookSecretsPrefix)
	if !ok {
		return s, false, nil
	}
	s.OrganizationID = organization
	if len(value) == 0 {
		return s, true, nil
	}
	if err := json.Unmarshal(value, &s); err != nil {
		return s, true, fmt.Errorf("decode webhook secrets: %w", err)
	}
	if s.OrganizationID != organization {
		return s, true, fmt.Errorf("decode webhook secrets: key is of %q, value of %q", organization, s.OrganizationID)
	}
	return s, true, nil
}

// WebhookSealer encrypts and decrypts webhook secrets.
type WebhookSealer struct{ aead cipher.AEAD }

// NewWebhookSealer makes one of the key that WebhookKeyName names.
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

// Generate draws a secret and returns it, whsec_ and base64, beside its sealed form.
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

// ErrWebhookSecretSealed says that a secret was encrypted with another root
// secret, or for another organization.
var ErrWebhookSecretSealed = errors.New("the webhook secret cannot be decrypted: it was made with another MUSTER_SECRET_KEY (or secret.key)")

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

// sealedFor binds a sealed secret to its place.
func sealedFor(organization, id string) []byte { return []byte(organization + "\x00" + id) }
