package queryapi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	v1 "muster/query-api/internal/v1"
	"muster/schemas/event"
)

// rotationTime is longer than a rotation of a key takes, with the difference of two clocks.
const rotationTime = time.Minute

// Plan is a named set of limits and prices.
type Plan struct {
	Name   string
	Limits event.Limits
}

// NewPlan returns a plan by name: the built-in plan of that name, overridden by the numbers that are
// not negative. If the name is not a built-in plan, at least one number is required.
func NewPlan(name string, requestsPerMinute, monthlyRequests, credits int64) (Plan, error) {
	set(&name, DefaultPlan)
	limits, builtIn := event.PlanLimits(name)
	if given := overwrite(&limits, requestsPerMinute, monthlyRequests, credits); !builtIn && given == 0 {
		return Plan{}, fmt.Errorf("plan %q is not built in (built in: %s, %s): pass its numbers",
			name, event.PlanDefault, event.PlanDevelopment)
	}
	return newPlan(name, limits)
}

func newPlan(name string, limits event.Limits) (Plan, error) {
	if err := limits.Validate(); err != nil {
		return Plan{}, fmt.Errorf("plan %s: %w", name, err)
	}
	return Plan{Name: name, Limits: limits}, nil
}

// overwrite copies the numbers that are not negative into limits, and returns their count.
func overwrite(limits *event.Limits, requestsPerMinute, monthlyRequests, credits int64) (given int) {
	for _, n := range []struct {
		value int64
		into  *int64
	}{{requestsPerMinute, &limits.RequestsPerMinute}, {monthlyRequests, &limits.MonthlyRequests},
		{credits, &limits.Credits}} {
		if n.value >= 0 {
			*n.into = n.value
			given++
		}
	}
	return given
}

// changedPlan returns the named plan for an organization that already has a plan, overridden by the
// numbers that are not negative.
//
// A plan that keeps its name keeps its other numbers and its prices. A built-in plan brings its
// own. For any other plan all three numbers are required; the prices cannot be changed here and
// stay.
func changedPlan(o event.Organization, name string, requestsPerMinute, monthlyRequests, credits int64) (Plan, error) {
	current := o.Plan
	set(&name, DefaultPlan)
	set(&current, DefaultPlan)
	limits, builtIn := event.PlanLimits(name)
	if name == current || !builtIn {
		limits = o.LimitsOf()
	}
	if given := overwrite(&limits, requestsPerMinute, monthlyRequests, credits); name != current && !builtIn &&
		given < 3 {
		return Plan{}, fmt.Errorf("%q is neither the organization's current plan (%s) nor built in (%s, %s): give "+
			"its three numbers",
			name, current, event.PlanDefault, event.PlanDevelopment)
	}
	return newPlan(name, limits)
}

func (p Plan) String() string {
	return fmt.Sprintf("%s (%d requests a minute, %d requests and %d credits a month)",
		p.Name, p.Limits.RequestsPerMinute, p.Limits.MonthlyRequests, p.Limits.Credits)
}

// CreateOrganizationOn creates an active organization on a plan.
func (a *Accounts) CreateOrganizationOn(ctx context.Context, name string, plan Plan) (event.Organization, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return event.Organization{}, fmt.Errorf("create organization: %w", err)
	}
	now := a.time()
	o := event.Organization{
		ID: id.String(), Name: strings.TrimSpace(name), Plan: plan.Name, Limits: &plan.Limits, Active: true,
		CreatedAt: now, UpdatedAt: now,
	}
	a.recordChange(&o, "created, plan "+plan.String())
	if err := o.Validate(); err != nil {
		return event.Organization{}, fmt.Errorf("create organization: %w", err)
	}
	if err := a.write(ctx, event.TypeOrganization, o.EventKey(), o); err != nil {
		return event.Organization{}, fmt.Errorf("create organization: %w", err)
	}
	return o, nil
}

// SetPlan sets the plan of an organization. It takes effect with the next call; usage of the
// current month is kept.
func (a *Accounts) SetPlan(ctx context.Context, organization string, plan Plan) (event.Organization, error) {
	return a.setPlan(ctx, organization, func(event.Organization) (Plan, error) { return plan, nil })
}

// ChangePlan sets the plan of an organization by name, or changes numbers of its current plan.
// Negative numbers count as not set: they keep their value if the plan keeps its name, and are
// otherwise those of the built-in plan.
func (a *Accounts) ChangePlan(
	ctx context.Context, organization, name string, requestsPerMinute, monthlyRequests, credits int64,
) (event.Organization, error) {
	return a.setPlan(ctx, organization, func(o event.Organization) (Plan, error) {
		return changedPlan(o, name, requestsPerMinute, monthlyRequests, credits)
	})
}

func (a *Accounts) setPlan(
	ctx context.Context, organization string, planFor func(event.Organization) (Plan, error),
) (event.Organization, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o, err := a.Organization(organization)
	if err != nil {
		return o, err
	}
	plan, err := planFor(o)
	if err != nil {
		return o, fmt.Errorf("set plan of %s: %w", organization, err)
	}
	o.Plan, o.Limits, o.UpdatedAt = plan.Name, &plan.Limits, a.time()
	a.recordChange(&o, "plan "+plan.String())
	if err := o.Validate(); err != nil {
		return o, fmt.Errorf("set plan: %w", err)
	}
	if err := a.write(ctx, event.TypeOrganization, o.EventKey(), o); err != nil {
		return o, fmt.Errorf("set plan of %s: %w", organization, err)
	}
	return o, nil
}

// recordChange appends a change to an organization's history.
func (a *Accounts) recordChange(o *event.Organization, what string) {
	by := "unknown"
	if u, err := user.Current(); err == nil {
		by = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		by += "@" + host
	}
	o.Record(event.Change{At: a.time(), What: what, By: by})
}

// RotateKey creates a replacement for a key, which stays valid for grace so that callers can
// switch. The last result is the only copy of the new secret key: show it once. It returns
// [v1.ErrKeyRotating] if another process rotates the key at the same time.
func (a *Accounts) RotateKey(
	ctx context.Context, id string, grace time.Duration,
) (old, created event.Key, secret event.APIKey, err error) {
	old, ok := a.directory.Key(id)
	if !ok {
		return old, created, secret, noSuchKey(id)
	}
	return a.rotateKey(ctx, old, grace)
}

// RotateKeyOnce is RotateKey for a key that was not rotated before; otherwise it returns [v1.ErrKeyRotating].
func (a *Accounts) RotateKeyOnce(
	ctx context.Context, id string, grace time.Duration,
) (old, created event.Key, secret event.APIKey, err error) {
	old, ok := a.directory.Key(id)
	switch {
	case !ok:
		return old, created, secret, noSuchKey(id)
	case old.ReplacedBy != "":
		return old, created, secret, fmt.Errorf("rotate key %s: %w", id, v1.ErrKeyRotating)
	}
	return a.rotateKey(ctx, old, grace)
}

// rotateKey rotates a key that was read in the state old.
func (a *Accounts) rotateKey(
	ctx context.Context, old event.Key, grace time.Duration,
) (_, created event.Key, secret event.APIKey, err error) {
	id := old.ID
	if grace < 0 {
		return old, created, secret, errors.New("rotate key: grace period is negative")
	}
	if !old.ValidAt(a.time()) {
		return old, created, secret, fmt.Errorf("rotate key %s: key is no longer valid; create a new one", id)
	}
	created, secret, err = a.CreateKey(ctx, old.OrganizationID,
		KeyOptions{Name: old.Name, Scopes: old.Scopes, ExpiresAt: old.ExpiresAt, Replaces: old.ID})
	if err != nil {
		return old, created, secret, err
	}
	if a.isRotatedElsewhere(old, created) {
		err := fmt.Errorf("rotate key %s: %w", id, v1.ErrKeyRotating)
		if _, revokeErr := a.RevokeKey(ctx, created.ID); revokeErr != nil {
			err = errors.Join(err, revokeErr)
		}
		return old, event.Key{}, event.APIKey{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	// It may have been revoked meanwhile.
	if now, ok := a.directory.Key(id); ok {
		old = now
	}
	if end := a.time().Add(grace); old.ExpiresAt.IsZero() || end.Before(old.ExpiresAt) {
		old.ExpiresAt = end
	}
	// Revoke, too: an expiry time alone would not end the key on replicas whose clock is behind.
	if grace == 0 && old.RevokedAt.IsZero() {
		old.RevokedAt = a.time()
	}
	old.ReplacedBy = created.ID
	if err := a.write(ctx, event.TypeKey, old.EventKey(), old); err != nil {
		return old, created, secret,
			fmt.Errorf("rotate key %s: new key created, but the old key was not expired: %w", id, err)
	}
	return old, created, secret, nil
}

// isRotatedElsewhere reports whether another call rotates the same key. Each call first publishes its new key and reads
// the topic, which has one partition, up to it: of two calls, at least the one whose key is second sees the other's.
// Keys from an earlier rotation, or from one that was interrupted rotationTime ago, do not count.
func (a *Accounts) isRotatedElsewhere(old, created event.Key) bool {
	if now, ok := a.directory.Key(old.ID); ok && now.ReplacedBy != old.ReplacedBy {
		return true
	}
	since := created.CreatedAt.Add(-rotationTime)
	if last, ok := a.directory.Key(old.ReplacedBy); ok && last.CreatedAt.After(since) {
		since = last.CreatedAt
	}
	return slices.ContainsFunc(a.directory.Keys(old.OrganizationID), func(k event.Key) bool {
		return k.Replaces == old.ID && k.ID != created.ID && k.RevokedAt.IsZero() && k.CreatedAt.After(since)
	})
}
