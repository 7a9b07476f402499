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

// ErrNoSuchAccount is the error of operations on an organization or key that
// does not exist.
var ErrNoSuchAccount = errors.New("no such organization or key")

// DefaultPlan is the plan of an organization that is created without one.
const DefaultPlan = event.PlanDefault

// eventSource is the CloudEvents source of account events.
const eventSource = "/muster/account"

// AccountsConfig is what [OpenAccounts] works with.
type AccountsConfig struct {
	Bus    bus.Config
	Logger *slog.Logger     // default: none
	Now    func() time.Time // default: time.Now
}

// Accounts reads and changes organizations and API keys, for operators'
// commands. Changes are on the account topic, acknowledged, when a method
// returns; replicas of the service have them a moment later. It is safe for
// concurrent use, but two processes that change the same organization or key at
// the same time overwrite each other.
type Accounts struct {
	now       func() time.Time
	directory *account.Directory
	follower  *bus.Follower
	writer    *bus.Writer

	mu sync.Mutex // a change is a read and a write
}

// OpenAccounts returns once all accounts are read. Close must be called.
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

// Close ends following and writing.
func (a *Accounts) Close() error {
	if err := errors.Join(a.writer.Close(), a.follower.Close()); err != nil {
		return fmt.Errorf("close accounts: %w", err)
	}
	return nil
}

// Organizations returns all organizations, oldest first.
func (a *Accounts) Organizations() []event.Organization { return a.directory.Organizations() }

// Organization returns the organization with an ID or, if no ID matches, the only one with that name, regardless of letter
// case. It returns [ErrNoSuchAccount] if there is none, and an error that lists the IDs if several have the name.
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
		return event.Organization{}, fmt.Errorf("organization %q: %w: give an id or a name that `muster account list` shows", idOrName, ErrNoSuchAccount)
	case 1:
		return named[0], nil
	}
	return event.Organization{}, fmt.Errorf("organization %q: %d organizations have this name: give the id, one of %s", idOrName, len(ids), strings.Join(ids, ", "))
}

// Keys returns the keys of an organization, revoked ones too, oldest first.
func (a *Accounts) Keys(organization string) []event.Key { return a.directory.Keys(organization) }

// CreateOrganization creates an active organization on a built-in plan; an
// empty one is [DefaultPlan].
func (a *Accounts) CreateOrganization(ctx context.Context, name, plan string) (event.Organization, error) {
	p, err := PlanOf(plan, -1, -1, -1)
	if err != nil {
		return event.Organization{}, fmt.Errorf("create organization: %w", err)
	}
	return a.CreateOrganizationOn(ctx, name, p)
}

// SetActive activates or deactivates an organization; the calls of an inactive
// one are answered with 403.
func (a *Accounts) SetActive(ctx context.Context, organization string, active bool) (event.Organization, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o, err := a.Organization(organization)
	if err != nil {
		return o, err
	}
	o.Active, o.UpdatedAt = active, a.time()
	a.note(&o, map[bool]string{true: "activated", false: "deactivated"}[active])
	if err := a.write(ctx, event.TypeOrganization, o.EventKey(), o); err != nil {
		return o, fmt.Errorf("change organization %s: %w", organization, err)
	}
	return o, nil
}

// KeyOptions describes a new API key.
type KeyOptions struct {
	Name string
	// Scopes defaults to all of event.Scopes().
	Scopes []string
	// ExpiresAt is when the key ends to be valid; zero means never.
	ExpiresAt time.Time
	// Replaces is the id of the key that the new one takes over from.
	Replaces string
	// Given is the key itself, when it exists already; nil: a new one is drawn.
	Given *event.APIKey
}

// CreateKey creates an API key of an organization. The key itself is in the
// second result and nowhere else: show it once.
func (a *Accounts) CreateKey(ctx context.Context, organization string, options KeyOptions) (event.Key, event.APIKey, error) {
	o, err := a.Organization(organization)
	if err != nil {
		return event.Key{}, event.APIKey{}, err
	}
	if len(options.Scopes) == 0 {
		options.Scopes = event.Scopes()
	}
	now := a.time()
	if !options.ExpiresAt.IsZero() && !options.ExpiresAt.After(now) {
		return event.Key{}, event.APIKey{}, errors.New("create key: it would have expired already")
	}
	secret, err := a.freshKey()
	if options.Given != nil {
		secret = *options.Given
		if _, taken := a.directory.Key(secret.ID()); taken {
			err = errors.New("a key with this public part exists already")
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

// freshKey draws a key whose public id nobody has.
func (a *Accounts) freshKey() (event.APIKey, error) {
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

// noSuchKey is the error of an id that no key has. What is too long for an id may be a
// key, mistyped: it is not repeated.
func noSuchKey(id string) error {
	name := strconv.Quote(id)
	if len(id) > 8 {
		name = "that is given"
	}
	return fmt.Errorf("key %s: %w: it goes by its public part, the 8 characters behind mk_live_, which `muster account key list ORGANIZATION` shows", name, ErrNoSuchAccount)
}

// RevokeKey ends a key's validity at once. Revoking it again changes nothing.
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

// write states the new state on the topic, and returns when it has come back
// from there: the next operation of this process builds on it.
func (a *Accounts) write(ctx context.Context, kind, key string, state any) error {
	value, err := json.Marshal(state, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode account event: %w", err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("name account event: %w", err)
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
