package event

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Organization is the state of an organization, on TopicAccount with the key [Organization.EventKey]. The
// last event of a key wins.
type Organization struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Plan string `json:"plan,omitempty"`
	// Limits overrides the plan's limits for this organization; see [Organization.LimitsOf].
	Limits *Limits `json:"limits,omitempty"`
	// Active is false if calls of the organization are rejected with 403 (interface.md, Authentication).
	Active    bool      `json:"active"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
	// History are the changes, oldest first, bounded by [Organization.Record]. It is part of the state
	// because the topic is compacted.
	History []Change `json:"history,omitempty"`
}

// Change is one change of an organization.
type Change struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
	By   string    `json:"by"`
}

// maxHistory is the maximum number of stored changes. The first one, the creation, is always kept.
const maxHistory = 1000

// Record adds a change to the history. It does not modify the previous slice.
func (o *Organization) Record(c Change) {
	history := slices.Clone(o.History)
	if len(history) >= maxHistory {
		history = slices.Delete(history, 1, len(history)-maxHistory+2)
	}
	o.History = append(history, c)
}

// EventKey returns the Kafka key.
func (o Organization) EventKey() string { return organizationPrefix + o.ID }

// Validate returns an error if the state is invalid.
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
	// ScopeAnalyze allows saved questions to all data (analysts.md). It is not a default.
	ScopeAnalyze = "analyze"
	// ScopeManage allows callers to change their own settings. It is not a default.
	ScopeManage = "manage"
)

// DefaultScopes returns the scopes of a key that is created without any: all except ScopeAnalyze and ScopeManage.
func DefaultScopes() []string {
	return []string{ScopeEnrich, ScopeSearch, ScopeDiscover, ScopeWebset, ScopeContext, ScopeUsage}
}

// Scopes returns all scopes.
func Scopes() []string { return append(DefaultScopes(), ScopeAnalyze, ScopeManage) }

// Key is the state of an API key, on TopicAccount with the key [Key.EventKey]. The API key itself is never
// stored.
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
	// Replaces and ReplacedBy are the ids of the previous and next key of a rotation.
	Replaces   string `json:"replaces,omitempty"`
	ReplacedBy string `json:"replaced_by,omitempty"`
}

// EventKey returns the Kafka key.
func (k Key) EventKey() string { return keyPrefix + k.ID }

// ValidAt reports whether the key is neither revoked nor expired. The time of revocation is ignored, as it is
// from another machine's clock.
func (k Key) ValidAt(now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// HasScope reports whether the key has a scope.
func (k Key) HasScope(scope string) bool { return slices.Contains(k.Scopes, scope) }

// Validate returns an error if the state is invalid.
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
			return fmt.Errorf("key %s has the unknown scope %q; scopes are %s", k.ID, scope,
				strings.Join(Scopes(), ", "))
		}
	}
	return nil
}

const (
	organizationPrefix = "org:"
	keyPrefix          = "key:"
)

// ErrNotAccount is returned by [DecodeAccount] for a key that belongs neither to an organization nor to an
// API key, such as one of a later version of muster.
var ErrNotAccount = errors.New("not an account event of a known type")

// DecodeAccount decodes a message of TopicAccount. One of the two results is not nil. A tombstone (an empty
// value) returns the identity only, as an inactive organization or a key without hash, and must be applied as
// a removal.
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
			return nil, nil, fmt.Errorf("decode organization event: key has id %q, value has id %q", id, o.ID)
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
			return nil, nil, fmt.Errorf("decode key event: key has id %q, value has id %q", id, k.ID)
		}
		return nil, k, k.Validate()
	}
	return nil, nil, ErrNotAccount
}
