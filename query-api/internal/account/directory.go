package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/schemas/event"
)

// Principal is the authenticated caller.
type Principal struct {
	Organization event.Organization
	Key          event.Key
}

// Unauthorized is returned for a call without a valid API key (interface.md, Authentication; 401).
// Its text is for the client and reveals nothing about keys that the client does not hold.
type Unauthorized struct{ Reason string }

func (e *Unauthorized) Error() string { return e.Reason }

// Directory is the set of all organizations and keys, with their webhook settings. Create it with [NewDirectory]. It is
// safe for concurrent use.
type Directory struct {
	mu            sync.RWMutex
	organizations map[string]event.Organization
	keys          map[string]event.Key
	webhooks      map[string]event.WebhookSettings // by organization
	secrets       map[string]event.WebhookSecrets  // by organization
	changed       chan struct{}                    // closed and replaced by each change
	loaded        <-chan struct{}                  // closed when all events have been read; nil: follows no topic
}

// ErrLoading is the error of a call that comes before all accounts have been read: the key may be valid.
var ErrLoading = errors.New("the accounts are being read")

// NewDirectory returns an empty Directory.
func NewDirectory() *Directory {
	return &Directory{
		organizations: make(map[string]event.Organization), keys: make(map[string]event.Key),
		webhooks: make(map[string]event.WebhookSettings), secrets: make(map[string]event.WebhookSecrets),
		changed: make(chan struct{}),
	}
}

// Apply applies one message of the account topic. After an error the state is unchanged; the error
// is event.ErrNotAccount for a message of a later version.
func (d *Directory) Apply(key, value []byte) error {
	s, err := d.decode(key, value)
	if err != nil {
		return fmt.Errorf("apply account event: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s.put()
	close(d.changed)
	d.changed = make(chan struct{})
	return nil
}

// entry is the state of a message of the account topic, and its place in the Directory.
type entry struct {
	put   func()      // stores or removes it; requires the lock
	there func() bool // reports whether it is stored, or is removed; requires the lock
}

func entryOf[T any](states map[string]T, id string, state T, removed bool) entry {
	if removed {
		return entry{
			put:   func() { delete(states, id) },
			there: func() bool { _, stored := states[id]; return !stored },
		}
	}
	return entry{
		put:   func() { states[id] = state },
		there: func() bool { return reflect.DeepEqual(states[id], state) },
	}
}

func (d *Directory) decode(key, value []byte) (entry, error) {
	removed := len(value) == 0
	if s, ok, err := event.DecodeWebhookSettings(key, value); ok {
		return entryOf(d.webhooks, s.OrganizationID, s, removed), err
	}
	if s, ok, err := event.DecodeWebhookSecrets(key, value); ok {
		return entryOf(d.secrets, s.OrganizationID, s, removed), err
	}
	organization, apiKey, err := event.DecodeAccount(key, value)
	switch {
	case err != nil:
		return entry{}, err
	case organization != nil:
		return entryOf(d.organizations, organization.ID, *organization, removed), nil
	}
	return entryOf(d.keys, apiKey.ID, *apiKey, removed), nil
}

// Await waits until the state matches that of a message, or ctx ends.
func (d *Directory) Await(ctx context.Context, key, value []byte) error {
	s, err := d.decode(key, value)
	if err != nil {
		return fmt.Errorf("await account event: %w", err)
	}
	for {
		d.mu.RLock()
		changed, there := d.changed, s.there()
		d.mu.RUnlock()
		if there {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("await account event: %w", context.Cause(ctx))
		}
	}
}

// Authenticate returns the principal of the Authorization headers of a call. The error is an [*Unauthorized], or
// [ErrLoading] until all accounts have been read. Malformed keys and wrong checksums are rejected without a lookup;
// well-formed keys take the same time whether right or wrong.
func (d *Directory) Authenticate(authorization []string, now time.Time) (Principal, error) {
	if len(authorization) == 0 {
		return Principal{}, &Unauthorized{`missing API key: send the header "Authorization: Bearer <API key>"`}
	}
	if len(authorization) > 1 {
		return Principal{}, &Unauthorized{
			`more than one Authorization header: send one, "Authorization: Bearer <API key>"`,
		}
	}
	scheme, text, ok := strings.Cut(authorization[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return Principal{}, &Unauthorized{`the Authorization header is not of the form "Bearer <API key>"`}
	}
	presented, err := event.ParseAPIKey(strings.TrimSpace(text))
	switch {
	case errors.Is(err, event.ErrKeyChecksum):
		return Principal{}, &Unauthorized{"the API key has a wrong checksum: it was mistyped or cut off, copy it again"}
	case err != nil:
		return Principal{}, &Unauthorized{"this is not an API key: keys are mk_live_ followed by 8 characters, _ and " +
			"38 characters"}
	}
	d.mu.RLock()
	key, known := d.keys[presented.ID()]
	organization, owned := d.organizations[key.OrganizationID]
	loaded := d.loaded
	d.mu.RUnlock()
	if loaded != nil {
		select {
		case <-loaded:
		default:
			return Principal{}, ErrLoading
		}
	}
	// An unknown key is also compared, with a hash that no key has.
	matches := presented.Matches(cmp.Or(key.SHA256, noHash))
	switch {
	case !known || !matches || !owned:
		return Principal{}, &Unauthorized{
			"unknown API key: check that it belongs to this service, or ask its operator for a new one",
		}
	case !key.RevokedAt.IsZero():
		return Principal{}, &Unauthorized{"the API key was revoked: use another one, or ask the operator of this " +
			"service for one"}
	case !key.ValidAt(now):
		return Principal{}, &Unauthorized{"the API key has expired: use another one, or ask the operator of this " +
			"service for one"}
	}
	return Principal{Organization: organization, Key: key}, nil
}

// noHash has the length of a hex SHA-256 but matches no hash.
const noHash = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

// Webhook returns the endpoint for events and the webhook secrets of an organization. They are zero if it has none,
// except that the secrets name the organization.
func (d *Directory) Webhook(organization string) (event.WebhookSettings, event.WebhookSecrets) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	secrets := d.secrets[organization]
	secrets.OrganizationID = organization
	return d.webhooks[organization], secrets
}

// Organization returns an organization by id.
func (d *Directory) Organization(id string) (event.Organization, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	o, ok := d.organizations[id]
	return o, ok
}

// Key returns a key by its public id.
func (d *Directory) Key(id string) (event.Key, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	k, ok := d.keys[id]
	return k, ok
}

// Organizations returns all organizations, oldest first.
func (d *Directory) Organizations() []event.Organization {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.SortedFunc(maps.Values(d.organizations), older)
}

// Named returns the organizations with a name, oldest first.
func (d *Directory) Named(name string) []event.Organization {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var out []event.Organization
	for _, o := range d.organizations {
		if o.Name == name {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, older)
	return out
}

func older(a, b event.Organization) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
}

// Keys returns all keys of an organization, oldest first.
func (d *Directory) Keys(organization string) []event.Key {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var out []event.Key
	for _, k := range d.keys {
		if k.OrganizationID == organization {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b event.Key) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return out
}
