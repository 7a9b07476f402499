package queryapi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/google/uuid"

	"muster/schemas/event"
)

// Plan is what an organization has bought.
type Plan struct {
	Name   string
	Limits event.Limits
}

// PlanOf is a plan by name: that of the name, when it is built in, with other
// numbers where they are given (not negative).
func PlanOf(name string, requestsPerMinute, monthlyRequests, credits int64) (Plan, error) {
	set(&name, DefaultPlan)
	limits, builtIn := event.PlanLimits(name)
	if given := overwrite(&limits, requestsPerMinute, monthlyRequests, credits); !builtIn && given == 0 {
		return Plan{}, fmt.Errorf("there is no built-in plan %q (%s, %s are): give its numbers", name, event.PlanDefault, event.PlanDevelopment)
	}
	return newPlan(name, limits)
}

func newPlan(name string, limits event.Limits) (Plan, error) {
	if err := limits.Validate(); err != nil {
		return Plan{}, fmt.Errorf("plan %s: %w", name, err)
	}
	return Plan{Name: name, Limits: limits}, nil
}

// overwrite puts those numbers into limits that are given (not negative), and
// returns how many they are.
func overwrite(limits *event.Limits, requestsPerMinute, monthlyRequests, credits int64) (given int) {
	for _, n := range []struct {
		value int64
		into  *int64
	}{{requestsPerMinute, &limits.RequestsPerMinute}, {monthlyRequests, &limits.MonthlyRequests}, {credits, &limits.Credits}} {
		if n.value >= 0 {
			*n.into = n.value
			given++
		}
	}
	return given
}

// changedPlan is the plan of a name for an organization that has one already,
// with other numbers where they are given (not negative). A plan that keeps its
// name keeps its other numbers and its prices. A built-in one brings its own.
// Of any other nothing is known: all three numbers are needed, and the prices,
// which cannot be given here, stay.
func changedPlan(o event.Organization, name string, requestsPerMinute, monthlyRequests, credits int64) (Plan, error) {
	present := o.Plan
	set(&name, DefaultPlan)
	set(&present, DefaultPlan)
	limits, builtIn := event.PlanLimits(name)
	if name == present || !builtIn {
		limits = o.LimitsOf()
	}
	if given := overwrite(&limits, requestsPerMinute, monthlyRequests, credits); name != present && !builtIn && given < 3 {
		return Plan{}, fmt.Errorf("%q is neither the organization's present plan (%s) nor built in (%s, %s): give its three numbers",
			name, present, event.PlanDefault, event.PlanDevelopment)
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
		ID: id.String(), Name: strings.TrimSpace(name), Plan: plan.Name, Limits: &plan.Limits, Active: true, CreatedAt: now, UpdatedAt: now,
	}
	a.note(&o, "created, plan "+plan.String())
	if err := o.Validate(); err != nil {
		return event.Organization{}, fmt.Errorf("create organization: %w", err)
	}
	if err := a.write(ctx, event.TypeOrganization, o.EventKey(), o); err != nil {
		return event.Organization{}, fmt.Errorf("create organization: %w", err)
	}
	return o, nil
}

// SetPlan gives an organization a plan. It holds from the next call on; what was
// used of the month stays used.
func (a *Accounts) SetPlan(ctx context.Context, organization string, plan Plan) (event.Organization, error) {
	return a.setPlan(ctx, organization, func(event.Organization) (Plan, error) { return plan, nil })
}

// ChangePlan gives an organization the plan of a name, or other numbers of its
// present one. Numbers that are negative are not given: they stay as they are
// when the plan keeps its name, and are otherwise a built-in plan's.
func (a *Accounts) ChangePlan(
	ctx context.Context, organization, name string, requestsPerMinute, monthlyRequests, credits int64,
) (event.Organization, error) {
	return a.setPlan(ctx, organization, func(o event.Organization) (Plan, error) {
		return changedPlan(o, name, requestsPerMinute, monthlyRequests, credits)
	})
}

func (a *Accounts) setPlan(ctx context.Context, organization string, planFor func(event.Organization) (Plan, error)) (event.Organization, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o, err := a.Organization(organization)
	if err != nil {
		return o, err
	}
	plan, err := planFor(o)
	if err != nil {
		return o, fmt.Errorf("change the plan of %s: %w", organization, err)
	}
	o.Plan, o.Limits, o.UpdatedAt = plan.Name, &plan.Limits, a.time()
	a.note(&o, "plan "+plan.String())
	if err := o.Validate(); err != nil {
		return o, fmt.Errorf("change the plan: %w", err)
	}
	if err := a.write(ctx, event.TypeOrganization, o.EventKey(), o); err != nil {
		return o, fmt.Errorf("change the plan of %s: %w", organization, err)
	}
	return o, nil
}

// note adds a change to an organization's history.
func (a *Accounts) note(o *event.Organization, what string) {
	by := "unknown"
	if u, err := user.Current(); err == nil {
		by = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		by += "@" + host
	}
	o.Record(event.Change{At: a.time(), What: what, By: by})
}

// RotateKey makes a new key like an existing one, which stays valid for grace:
// two keys live at once while callers change over. The new key itself is in the
// last result and nowhere else: show it once.
func (a *Accounts) RotateKey(ctx context.Context, id string, grace time.Duration) (old, created event.Key, secret event.APIKey, err error) {
	if grace < 0 {
		return old, created, secret, errors.New("rotate key: the old key would have ended already")
	}
	old, ok := a.directory.Key(id)
	if !ok {
		return old, created, secret, noSuchKey(id)
	}
	if !old.ValidAt(a.time()) {
		return old, created, secret, fmt.Errorf("rotate key %s: it is not valid any more; create a new one", id)
	}
	created, secret, err = a.CreateKey(ctx, old.OrganizationID, KeyOptions{Name: old.Name, Scopes: old.Scopes, ExpiresAt: old.ExpiresAt, Replaces: old.ID})
	if err != nil {
		return old, created, secret, err
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
	if grace == 0 && old.RevokedAt.IsZero() { // at once, also where another clock is behind
		old.RevokedAt = a.time()
	}
	old.ReplacedBy = created.ID
	if err := a.write(ctx, event.TypeKey, old.EventKey(), old); err != nil {
		return old, created, secret, fmt.Errorf("rotate key %s: the new key exists now, the old one does not end: %w", id, err)
	}
	return old, created, secret, nil
}
