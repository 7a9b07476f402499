package event

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Organization is the state of an organization, on TopicAccount under
// [Organization.EventKey]. The last event of a key is its state.
type Organization struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Plan string `json:"plan,omitempty"`
	// Limits are the plan's numbers when they were set for this organization; see
	// [Organization.LimitsOf].
	Limits *Limits `json:"limits,omitempty"`
	// Active is false for an organization whose calls are answered with 403
	// (interface.md, Authentication).
	Active    bool      `json:"active"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
	// History is what was changed, oldest first; [Organization.Record] bounds it.
	// It is part of the state because the topic is compacted.
	History []Change `json:"history,omitempty"`
}

// Change is one change of an organization.
type Change struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
	By   string    `json:"by"`
}

// maxHistory bounds the changes that are kept; the first one, the creation, stays.
const maxHistory = 1000

// Record adds a change to the history. The slice that the organization had
// before is not written to.
func (o *Organization) Record(c Change) {
	history := slices.Clone(o.History)
	if len(history) >= maxHistory {
		history = slices.Delete(history, 1, len(history)-maxHistory+2)
	}
	o.History = append(history, c)
}

// EventKey returns the Kafka key.
func (o Organization) EventKey() string { return organizationPrefix + o.ID }

// Validate reports what makes the state unusable.
func (o Organization) Validate() error {
	switch {
	case o.ID == "":
		return errors.New("organization without id")
	case strings.TrimSpace(o.Name) == "":
		return fmt.Errorf("organization %s without name", o.ID)
	case o.CreatedAt.IsZero():
		return fmt.Errorf("organization %s without created_at", o.ID)
	}
	if o.Limits != nil {
		if err := o.Limits.Validate(); err != nil {
			return fmt.Errorf("organization %s: plan %s: %w", o.ID, o.Plan, err)
		}
	}
	return nil
}

// Scopes of a key (rulings.md, Accounts).
const (
	ScopeEnrich   = "enrich"
	ScopeSearch   = "search"
	ScopeDiscover = "discover"
	ScopeWebset   = "webset"
	ScopeContext  = "context"
	ScopeUsage    = "usage"
)

// Scopes returns every scope: what a key has by default.
func Scopes() []string {
	return []string{ScopeEnrich, ScopeSearch, ScopeDiscover, ScopeWebset, ScopeContext, ScopeUsage}
}

// Key is the state of an API key, on TopicAccount under [Key.EventKey]. The key
// itself is never stored.
type Key struct {
	// ID is the public part of the API key.
	ID             string `json:"id"`
	OrganizationID string `json:"organization_id"`
	Name           string `json:"name,omitempty"`
	// SHA256 is APIKey.Hash of the whole key.
	SHA256 string   `json:"sha256"`
	Scopes []string `json:"scopes"`
	// A zero time means never.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
	CreatedAt time.Time `json:"created_at"`
	// Replaces and ReplacedBy are the ids of the keys before and after a rotation.
	Replaces   string `json:"replaces,omitempty"`
	ReplacedBy string `json:"replaced_by,omitempty"`
}

// EventKey returns the Kafka key.
func (k Key) EventKey() string { return keyPrefix + k.ID }

// ValidAt reports whether the key is neither revoked nor expired. A key is revoked whenever
// that was: the clock that says when is another machine's.
func (k Key) ValidAt(now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// HasScope reports whether the key may use what needs the scope.
func (k Key) HasScope(scope string) bool { return slices.Contains(k.Scopes, scope) }

// Validate reports what makes the state unusable.
func (k Key) Validate() error {
	switch {
	case len(k.ID) != publicLength || !isBase62(k.ID):
		return errors.New("key without a valid id")
	case k.OrganizationID == "":
		return fmt.Errorf("key %s without organization", k.ID)
	case !isSHA256(k.SHA256):
		return fmt.Errorf("key %s without a SHA-256", k.ID)
	case k.CreatedAt.IsZero():
		return fmt.Errorf("key %s without created_at", k.ID)
	}
	for _, scope := range k.Scopes {
		if !slices.Contains(Scopes(), scope) {
			return fmt.Errorf("key %s has the unknown scope %q; scopes are %s", k.ID, scope, strings.Join(Scopes(), ", "))
		}
	}
	return nil
}

const (
	organizationPrefix = "org:"
	keyPrefix          = "key:"
)

// ErrNotAccount is the error of [DecodeAccount] for a key that is neither an
// organization's nor an API key's: of a later version of muster.
var ErrNotAccount = errors.New("not an account event of a known type")

// DecodeAccount reads a message of TopicAccount. One of the two is not nil. A
// tombstone (an empty value) gives the identity alone, as an inactive
// organization or a key without hash, and must be applied as a removal.
func DecodeAccount(key, value []byte) (organization *Organization, apiKey *Key, err error) {
	name := string(key)
	if id, ok := strings.CutPrefix(name, organizationPrefix); ok {
		o := &Organization{ID: id}
		if len(value) == 0 {
			return o, nil, nil
		}
		if err := json.Unmarshal(value, o); err != nil {
			return nil, nil, fmt.Errorf("decode organization event: %w", err)
		}
		if o.ID != id {
			return nil, nil, fmt.Errorf("decode organization event: key is of %q, value of %q", id, o.ID)
		}
		return o, nil, o.Validate()
	}
	if id, ok := strings.CutPrefix(name, keyPrefix); ok {
		k := &Key{ID: id}
		if len(value) == 0 {
			return nil, k, nil
		}
		if err := json.Unmarshal(value, k); err != nil {
			return nil, nil, fmt.Errorf("decode key event: %w", err)
		}
		if k.ID != id {
			return nil, nil, fmt.Errorf("decode key event: key is of %q, value of %q", id, k.ID)
		}
		return nil, k, k.Validate()
	}
	return nil, nil, ErrNotAccount
}
