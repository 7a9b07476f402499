package queryapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"muster/schemas/event"
)

// AccountsFile is a declarative description of organizations and their keys.
type AccountsFile struct {
	// Plans adds named plans to the built-in ones.
	Plans         map[string]PlanEntry `yaml:"plans"`
	Organizations []OrganizationEntry  `yaml:"organizations"`
}

// PlanEntry is a plan's numbers. Omitted numbers are those of the default plan.
type PlanEntry struct {
	RequestsPerMinute *int64           `yaml:"requests_per_minute"`
	MonthlyRequests   *int64           `yaml:"monthly_requests"`
	Credits           *int64           `yaml:"credits"`
	Prices            map[string]int64 `yaml:"prices"`
}

// OrganizationEntry is an organization, identified by its name, and by its ID if several
// organizations have that name.
type OrganizationEntry struct {
	Name   string     `yaml:"name"`
	ID     string     `yaml:"id"`
	Plan   string     `yaml:"plan"`
	Active *bool      `yaml:"active"`
	Keys   []KeyEntry `yaml:"keys"`
}

// KeyEntry is a key, identified by its name within the organization. After a rotation two keys have
// that name, and the entry applies to both. A missing key is created from Key or, if that is empty,
// generated. Omitted scopes (a list) and expiry (a time) stay unchanged.
type KeyEntry struct {
	Name string `yaml:"name"`
	// Scopes and ExpiresAt are nodes to distinguish an empty value, such as an empty template variable, from a
	// missing one.
	Scopes    yaml.Node `yaml:"scopes"`
	ExpiresAt yaml.Node `yaml:"expires_at"`
	Key       string    `yaml:"key"`
	Revoked   bool      `yaml:"revoked"`
}

// limits returns the scopes and expiry of the entry; zero values are omitted ones.
func (k KeyEntry) limits() (scopes []string, expires time.Time, err error) {
	if !k.Scopes.IsZero() {
		if err := k.Scopes.Decode(&scopes); err != nil {
			return nil, expires, fmt.Errorf("line %d: scopes must be a list of names, such as [enrich, search]",
				k.Scopes.Line)
		}
		if len(scopes) == 0 {
			return nil, expires, fmt.Errorf("scopes is empty: name some of %s, or omit scopes for all scopes of a "+
				"new key, or the current ones",
				strings.Join(event.Scopes(), ", "))
		}
	}
	for _, s := range scopes {
		if !slices.Contains(event.Scopes(), s) {
			return nil, expires, fmt.Errorf("unknown scope %q; scopes are %s", s, strings.Join(event.Scopes(), ", "))
		}
	}
	if !k.ExpiresAt.IsZero() {
		if err := k.ExpiresAt.Decode(&expires); err != nil {
			return nil, expires, fmt.Errorf("line %d: expires_at must be a time, such as 2030-01-31T00:00:00Z",
				k.ExpiresAt.Line)
		}
		if expires.IsZero() {
			return nil, expires, errors.New("expires_at is empty: write a time, such as 2030-01-31T00:00:00Z, " +
				"or omit expires_at for no expiry of a new key, or the current one")
		}
	}
	return scopes, expires, nil
}

// ReadAccountsFile parses a file strictly. An unknown key is an error that suggests the closest
// known key.
func ReadAccountsFile(content []byte) (AccountsFile, error) {
	var f AccountsFile
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return f, fmt.Errorf("accounts file: %w", err)
	}
	if err := checkAccounts(&document, reflect.TypeFor[AccountsFile]()); err != nil {
		return f, fmt.Errorf("accounts file: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(content))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return f, fmt.Errorf("accounts file: %w", err)
	}
	return f, f.validate()
}

func (f AccountsFile) validate() error {
	type identity struct{ name, id string }
	names := make(map[identity]bool)
	for name, p := range f.Plans {
		if _, err := p.limits(); err != nil {
			return fmt.Errorf("accounts file: plans.%s: %w", name, err)
		}
	}
	for i, o := range f.Organizations {
		at := fmt.Sprintf("accounts file: organizations[%d]", i)
		if strings.TrimSpace(o.Name) == "" {
			return fmt.Errorf("%s: name is missing", at)
		}
		id := identity{strings.TrimSpace(o.Name), o.ID}
		if names[id] {
			return fmt.Errorf("%s: duplicate organization %q", at, o.Name)
		}
		names[id] = true
		if _, err := f.plan(o.Plan); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		keys := make(map[string]bool)
		for j, k := range o.Keys {
			if k.Name == "" || keys[k.Name] {
				return fmt.Errorf("%s.keys[%d]: name is missing or not unique", at, j)
			}
			keys[k.Name] = true
			if k.Key != "" {
				if _, err := event.ParseAPIKey(k.Key); err != nil {
					return fmt.Errorf("%s.keys[%d]: %w", at, j, err)
				}
			}
			if _, _, err := k.limits(); err != nil {
				return fmt.Errorf("%s.keys[%d]: %w", at, j, err)
			}
		}
	}
	return nil
}

func (p PlanEntry) limits() (event.Limits, error) {
	l := event.DefaultLimits()
	for _, n := range []struct{ from, to *int64 }{
		{p.RequestsPerMinute, &l.RequestsPerMinute}, {p.MonthlyRequests, &l.MonthlyRequests}, {p.Credits, &l.Credits},
	} {
		if n.from != nil {
			*n.to = *n.from
		}
	}
	prices := map[string]*int64{
		"person_enrich": &l.Prices.PersonEnrich, "company_enrich": &l.Prices.CompanyEnrich, "search": &l.Prices.Search,
		"discover": &l.Prices.Discover, "webset": &l.Prices.Webset, "context": &l.Prices.Context,
	}
	for name, price := range p.Prices {
		if prices[name] == nil {
			return l, fmt.Errorf(
				"unknown price %q; prices are person_enrich, company_enrich, search, discover, webset and context",
				name)
		}
		*prices[name] = price
	}
	if l.Prices.Search != event.SearchPrice {
		return l, fmt.Errorf("the price of search cannot be %d: a result always costs %d credit; remove search from "+
			"prices",
			l.Prices.Search, event.SearchPrice)
	}
	return l, l.Validate()
}

// plan returns a plan by name, from the file or built in.
func (f AccountsFile) plan(name string) (Plan, error) {
	set(&name, DefaultPlan)
	if p, ok := f.Plans[name]; ok {
		limits, err := p.limits()
		return Plan{Name: name, Limits: limits}, err
	}
	limits, ok := event.PlanLimits(name)
	if !ok {
		return Plan{}, fmt.Errorf("unknown plan %q: define it under plans, or use a built-in one (%s, %s)",
			name, event.PlanDefault, event.PlanDevelopment)
	}
	return Plan{Name: name, Limits: limits}, nil
}

// Applied is one change made by [Accounts.Apply].
type Applied struct {
	OrganizationID string `json:"organization_id"`
	Organization   string `json:"organization"`
	Change         string `json:"change"`
	// Key is a generated secret key; it is not available later.
	Key string `json:"key,omitempty"`
}

// Apply changes the accounts to match the file and returns the changes; applying it again changes
// nothing. Organizations and keys that are not in the file stay unchanged. After a failure,
// applying the file again completes it.
func (a *Accounts) Apply(ctx context.Context, f AccountsFile) ([]Applied, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	// Ambiguous names are rejected before anything changes.
	for _, entry := range f.Organizations {
		if _, _, err := a.findOrganization(entry); err != nil {
			return nil, fmt.Errorf("apply %q: %w", entry.Name, err)
		}
	}
	var done []Applied
	for _, entry := range f.Organizations {
		changes, err := a.applyOrganization(ctx, f, entry)
		done = append(done, changes...)
		if err != nil {
			return done, fmt.Errorf("apply %q: %w", entry.Name, err)
		}
	}
	return done, nil
}

func (a *Accounts) applyOrganization(
	ctx context.Context, f AccountsFile, entry OrganizationEntry,
) (done []Applied, err error) {
	plan, err := f.plan(entry.Plan)
	if err != nil {
		return nil, err
	}
	o, known, err := a.findOrganization(entry)
	if err != nil {
		return nil, err
	}
	note := func(change, key string) {
		done = append(done, Applied{OrganizationID: o.ID, Organization: o.Name, Change: change, Key: key})
	}
	if !known {
		if o, err = a.CreateOrganizationOn(ctx, entry.Name, plan); err != nil {
			return done, err
		}
		note("organization created, plan "+plan.Name, "")
	} else if entry.Plan != "" && (o.Plan != plan.Name || o.LimitsOf() != plan.Limits) {
		if o, err = a.SetPlan(ctx, o.ID, plan); err != nil {
			return done, err
		}
		note("plan "+plan.Name, "")
	}
	if active := entry.Active; active != nil && *active != o.Active {
		if o, err = a.SetActive(ctx, o.ID, *active); err != nil {
			return done, err
		}
		note(map[bool]string{true: "activated", false: "deactivated"}[*active], "")
	}
	for _, k := range entry.Keys {
		changes, key, err := a.applyKey(ctx, o.ID, k)
		for _, change := range changes {
			note(change, key)
		}
		if err != nil {
			return done, fmt.Errorf("key %q: %w", k.Name, err)
		}
	}
	return done, nil
}

// OrganizationsNamed returns the organizations with a name, oldest first.
func (a *Accounts) OrganizationsNamed(name string) []event.Organization {
	return a.directory.Named(strings.TrimSpace(name))
}

// findOrganization returns the organization of an entry; known is false if it must be created.
func (a *Accounts) findOrganization(entry OrganizationEntry) (o event.Organization, known bool, err error) {
	named := a.OrganizationsNamed(entry.Name)
	var ids []string
	for _, o := range named {
		if o.ID == entry.ID {
			return o, true, nil
		}
		ids = append(ids, o.ID)
	}
	switch {
	case entry.ID != "":
		return o, false, fmt.Errorf("no organization with this name has the ID %q", entry.ID)
	case len(named) > 1:
		return o, false, fmt.Errorf("%d organizations have this name: set \"id\" to one of %s",
			len(named), strings.Join(ids, ", "))
	case len(named) == 1:
		return named[0], true, nil
	}
	return o, false, nil
}

// applyKey returns the changes made, and the secret key if one was generated.
func (a *Accounts) applyKey(
	ctx context.Context, organization string, entry KeyEntry,
) (changes []string, shown string, err error) {
	scopes, expires, err := entry.limits()
	if err != nil {
		return nil, "", err
	}
	now := a.time()
	exists := false
	for _, k := range a.Keys(organization) {
		// A replaced key past its grace period is not the current key.
		if k.Name != entry.Name || !k.RevokedAt.IsZero() || k.ReplacedBy != "" && !k.ValidAt(now) {
			continue
		}
		exists = true
		var change string
		switch {
		case !entry.Revoked:
			change, err = a.amendKey(ctx, k.ID, scopes, expires)
		case k.ValidAt(now):
			_, err = a.RevokeKey(ctx, k.ID)
			change = "revoked"
		}
		if err != nil {
			return changes, "", err
		}
		if change != "" {
			changes = append(changes, fmt.Sprintf("key %s (%s) %s", entry.Name, k.ID, change))
		}
	}
	if exists || entry.Revoked {
		return changes, "", nil
	}
	options := KeyOptions{Name: entry.Name, Scopes: scopes, ExpiresAt: expires}
	if entry.Key != "" {
		given, err := event.ParseAPIKey(entry.Key)
		if err != nil {
			return nil, "", err
		}
		options.Given = &given
	}
	_, key, err := a.CreateKey(ctx, organization, options)
	if err != nil {
		return nil, "", err
	}
	if options.Given == nil {
		shown = key.Reveal()
	}
	return []string{"key " + entry.Name + " created"}, shown, nil
}

// amendKey sets the scopes and expiry that an entry has, and returns a description of the changes.
// The expiry of a replaced key can only be moved earlier: its grace period is not extended.
func (a *Accounts) amendKey(ctx context.Context, id string, scopes []string, expires time.Time) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k, ok := a.directory.Key(id)
	if !ok {
		return "", noSuchKey(id)
	}
	var changes []string
	if len(scopes) > 0 {
		scopes = slices.Compact(slices.Sorted(slices.Values(scopes)))
		if current := slices.Compact(slices.Sorted(slices.Values(k.Scopes))); !slices.Equal(scopes, current) {
			k.Scopes = scopes
			changes = append(changes, "scopes "+strings.Join(scopes, ", "))
		}
	}
	if end := expires.UTC(); !end.IsZero() && !end.Equal(k.ExpiresAt) &&
		(k.ReplacedBy == "" || k.ExpiresAt.IsZero() || end.Before(k.ExpiresAt)) {
		k.ExpiresAt = end
		changes = append(changes, "expires "+end.Format(time.RFC3339))
	}
	if len(changes) == 0 {
		return "", nil
	}
	if err := k.Validate(); err != nil {
		return "", fmt.Errorf("change key %s: %w", id, err)
	}
	if err := a.write(ctx, event.TypeKey, k.EventKey(), k); err != nil {
		return "", fmt.Errorf("change key %s: %w", id, err)
	}
	return strings.Join(changes, "; "), nil
}
