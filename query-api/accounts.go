package queryapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/query-api/internal/account"
	"muster/schemas/event"
)

// ErrNoSuchAccount is returned by operations on an unknown organization or key.
var ErrNoSuchAccount = errors.New("no such organization or key")

// DefaultPlan is the plan of an organization created without one.
const DefaultPlan = event.PlanDefault

// eventSource is the CloudEvents source of account events.
const eventSource = "/muster/account"

// AccountsConfig configures [OpenAccounts].
type AccountsConfig struct {
	Bus    bus.Config
	Logger *slog.Logger     // default: discard
	Now    func() time.Time // default: time.Now
}

// Accounts reads and changes organizations and API keys, for operator commands. When a method
// returns, its change is acknowledged on the account topic; replicas of the service apply it
// shortly afterwards. It is safe for concurrent use, but two processes that change the same
// organization or key concurrently overwrite each other's changes. Of concurrent rotations of a
// key at most one succeeds.
type Accounts struct {
	now       func() time.Time
	directory *account.Directory
	follower  *bus.Follower
	writer    *bus.Writer

	mu sync.Mutex // serializes read-modify-write changes
}

// OpenAccounts reads all accounts and returns. The caller must call Close.
func OpenAccounts(ctx context.Context, cfg AccountsConfig) (*Accounts, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &Accounts{now: cfg.Now, directory: account.NewDirectory()}
	a.follower = a.directory.Follow(context.WithoutCancel(ctx), cfg.Bus, cfg.Logger)
	if err := a.follower.WaitReady(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("read accounts: %w", err), a.follower.Close())
	}
	a.writer = bus.NewWriter(cfg.Bus, bus.WithWriterLogger(cfg.Logger))
	return a, nil
}

// Close stops the follower and closes the writer.
func (a *Accounts) Close() error {
	if err := errors.Join(a.writer.Close(), a.follower.Close()); err != nil {
		return fmt.Errorf("close accounts: %w", err)
	}
	return nil
}

// Organizations returns all organizations, oldest first.
func (a *Accounts) Organizations() []event.Organization { return a.directory.Organizations() }

// Organization returns the organization with an ID or, if no ID matches, the only one with that
// name, ignoring case. It returns [ErrNoSuchAccount] if there is none, and an error that lists the
// IDs if several have the name.
func (a *Accounts) Organization(idOrName string) (event.Organization, error) {
	if o, ok := a.directory.Organization(idOrName); ok {
		return o, nil
	}
	var named []event.Organization
	var ids []string
	for _, o := range a.directory.Organizations() {
		if strings.EqualFold(o.Name, strings.TrimSpace(idOrName)) {
			named, ids = append(named, o), append(ids, o.ID)
		}
	}
	switch len(named) {
	case 0:
		return event.Organization{}, fmt.Errorf("organization %q: %w: pass an ID or name from `muster account list`",
			idOrName, ErrNoSuchAccount)
	case 1:
		return named[0], nil
	}
	return event.Organization{}, fmt.Errorf("organization %q: %d organizations have this name: pass an ID, one of %s",
		idOrName, len(ids), strings.Join(ids, ", "))
}

// Keys returns the keys of an organization, including revoked ones, oldest first.
func (a *Accounts) Keys(organization string) []event.Key { return a.directory.Keys(organization) }

// CreateOrganization creates an active organization on a built-in plan; the default is
// [DefaultPlan].
func (a *Accounts) CreateOrganization(ctx context.Context, name, plan string) (event.Organization, error) {
	p, err := NewPlan(plan, -1, -1, -1)
	if err != nil {
		return event.Organization{}, fmt.Errorf("create organization: %w", err)
	}
	return a.CreateOrganizationOn(ctx, name, p)
}

// SetActive activates or deactivates an organization. Calls of an inactive organization get status
// 403.
func (a *Accounts) SetActive(ctx context.Context, organization string, active bool) (event.Organization, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o, err := a.Organization(organization)
	if err != nil {
		return o, err
	}
	o.Active, o.UpdatedAt = active, a.time()
	a.recordChange(&o, map[bool]string{true: "activated", false: "deactivated"}[active])
	if err := a.write(ctx, event.TypeOrganization, o.EventKey(), o); err != nil {
		return o, fmt.Errorf("change organization %s: %w", organization, err)
	}
	return o, nil
}

// KeyOptions describes a new API key.
type KeyOptions struct {
	Name string
	// Scopes defaults to event.DefaultScopes().
	Scopes []string
	// ExpiresAt is the end of the key's validity; zero means never.
	ExpiresAt time.Time
	// Replaces is the ID of the key that the new key replaces.
	Replaces string
	// Given is an existing key to register; nil generates one.
	Given *event.APIKey
}

// CreateKey creates an API key of an organization. The second result is the only copy of the secret
// key: show it once.
func (a *Accounts) CreateKey(
	ctx context.Context, organization string, options KeyOptions,
) (event.Key, event.APIKey, error) {
	o, err := a.Organization(organization)
	if err != nil {
		return event.Key{}, event.APIKey{}, err
	}
	if len(options.Scopes) == 0 {
		options.Scopes = event.DefaultScopes()
	}
	now := a.time()
	if !options.ExpiresAt.IsZero() && !options.ExpiresAt.After(now) {
		return event.Key{}, event.APIKey{}, errors.New("create key: expiry time is in the past")
	}
	secret, err := a.generateKey()
	if options.Given != nil {
		secret = *options.Given
		if _, taken := a.directory.Key(secret.ID()); taken {
			err = errors.New("a key with this public part already exists")
		}
	}
	if err != nil {
		return event.Key{}, event.APIKey{}, fmt.Errorf("create key: %w", err)
	}
	scopes := slices.Clone(options.Scopes)
	slices.Sort(scopes)
	k := event.Key{
		ID: secret.ID(), OrganizationID: o.ID, Name: options.Name, SHA256: secret.Hash(),
		Scopes: slices.Compact(scopes), CreatedAt: now, Replaces: options.Replaces,
	}
	if !options.ExpiresAt.IsZero() {
		k.ExpiresAt = options.ExpiresAt.UTC()
	}
	if err := k.Validate(); err != nil {
		return event.Key{}, event.APIKey{}, fmt.Errorf("create key: %w", err)
	}
	if err := a.write(ctx, event.TypeKey, k.EventKey(), k); err != nil {
		return event.Key{}, event.APIKey{}, fmt.Errorf("create key: %w", err)
	}
	return k, secret, nil
}

// generateKey generates a key with an unused public ID.
func (a *Accounts) generateKey() (event.APIKey, error) {
	for {
		secret, err := event.GenerateAPIKey(rand.Reader)
		if err != nil {
			return secret, err
		}
		if _, taken := a.directory.Key(secret.ID()); !taken {
			return secret, nil
		}
	}
}

// noSuchKey returns the error for an unknown key ID. An ID that is too long may be a mistyped
// secret key, so it is not repeated.
func noSuchKey(id string) error {
	name := "key " + strconv.Quote(id)
	if len(id) > 8 {
		name = "the given key"
	}
	return fmt.Errorf("%s: %w: pass its public part, the 8 characters after mk_live_ "+
		"(`muster account key list ORGANIZATION` shows them)", name, ErrNoSuchAccount)
}

// RevokeKey revokes a key immediately. Revoking a revoked key changes nothing.
func (a *Accounts) RevokeKey(ctx context.Context, id string) (event.Key, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k, ok := a.directory.Key(id)
	if !ok {
		return k, noSuchKey(id)
	}
	if !k.RevokedAt.IsZero() {
		return k, nil
	}
	k.RevokedAt = a.time()
	if err := a.write(ctx, event.TypeKey, k.EventKey(), k); err != nil {
		return k, fmt.Errorf("revoke key %s: %w", id, err)
	}
	return k, nil
}

func (a *Accounts) time() time.Time { return a.now().UTC() }

// write publishes the new state to the topic and waits until the directory has read it back, so
// that the next operation of this process sees it.
func (a *Accounts) write(ctx context.Context, kind, key string, state any) error {
	value, err := json.Marshal(state, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode account event: %w", err)
	}
	return a.publish(ctx, kind, key, value)
}

// publish is write for an encoded state, or nil to remove it.
func (a *Accounts) publish(ctx context.Context, kind, key string, value []byte) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("generate account event ID: %w", err)
	}
	headers := bus.SetEvent(nil, bus.Event{
		ID: id.String(), Type: kind, Source: eventSource, Subject: key, Time: a.time(), ContentType: "application/json",
	})
	m := kafka.Message{Topic: event.TopicAccount, Key: []byte(key), Value: value, Headers: bus.SetTrace(ctx, headers)}
	if err := bus.WriteAll(ctx, a.writer, []kafka.Message{m}); err != nil {
		return fmt.Errorf("write account event: %w", err)
	}
	if err := a.directory.Await(ctx, m.Key, m.Value); err != nil {
		return fmt.Errorf("read account event back: %w", err)
	}
	return nil
}
