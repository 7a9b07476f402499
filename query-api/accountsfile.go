package queryapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"muster/schemas/event"
)

// AccountsFile is a declarative description of organizations and their keys.
type AccountsFile struct {
	// Plans are named here, beside the built-in ones.
	Plans         map[string]PlanEntry `yaml:"plans"`
	Organizations []OrganizationEntry  `yaml:"organizations"`
}

// PlanEntry is a plan's numbers; those that are left out are the default plan's.
type PlanEntry struct {
	RequestsPerMinute *int64           `yaml:"requests_per_minute"`
	MonthlyRequests   *int64           `yaml:"monthly_requests"`
	Credits           *int64           `yaml:"credits"`
	Prices            map[string]int64 `yaml:"prices"`
}

// OrganizationEntry is an organization, told by its name.
type OrganizationEntry struct {
	Name   string     `yaml:"name"`
	Plan   string     `yaml:"plan"`
	Active *bool      `yaml:"active"`
	Keys   []KeyEntry `yaml:"keys"`
}

// KeyEntry is a key, told by its name within the organization. A key that does
// not exist is created: from Key, when that is given, else drawn.
type KeyEntry struct {
	Name      string    `yaml:"name"`
	Scopes    []string  `yaml:"scopes"`
	ExpiresAt time.Time `yaml:"expires_at"`
	Key       string    `yaml:"key"`
	Revoked   bool      `yaml:"revoked"`
}

// ReadAccountsFile reads a file strictly: an unknown field is an error.
func ReadAccountsFile(content []byte) (AccountsFile, error) {
	var f AccountsFile
	d := yaml.NewDecoder(bytes.NewReader(content))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return f, fmt.Errorf("accounts file: %w", err)
	}
	return f, f.validate()
}

func (f AccountsFile) validate() error {
	names := make(map[string]bool)
	for name, p := range f.Plans {
		if _, err := p.limits(); err != nil {
			return fmt.Errorf("accounts file: plans.%s: %w", name, err)
		}
	}
	for i, o := range f.Organizations {
		at := fmt.Sprintf("accounts file: organizations[%d]", i)
		if strings.TrimSpace(o.Name) == "" {
			return fmt.Errorf("%s: it has no name", at)
		}
		if names[o.Name] {
			return fmt.Errorf("%s: %q is there twice", at, o.Name)
		}
		names[o.Name] = true
		if _, err := f.plan(o.Plan); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		keys := make(map[string]bool)
		for j, k := range o.Keys {
			if k.Name == "" || keys[k.Name] {
				return fmt.Errorf("%s.keys[%d]: every key needs a name of its own", at, j)
			}
			keys[k.Name] = true
			if k.Key != "" {
				if _, err := event.ParseAPIKey(k.Key); err != nil {
					return fmt.Errorf("%s.keys[%d]: %w", at, j, err)
				}
			}
			for _, s := range k.Scopes {
				if !slices.Contains(event.Scopes(), s) {
					return fmt.Errorf("%s.keys[%d]: unknown scope %q; scopes are %s", at, j, s, strings.Join(event.Scopes(), ", "))
				}
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
			return l, fmt.Errorf("unknown price %q; prices are person_enrich, company_enrich, search, discover, webset and context", name)
		}
		*prices[name] = price
	}
	return l, l.Validate()
}

// plan finds a plan by name, in the file or among the built-in ones.
func (f AccountsFile) plan(name string) (Plan, error) {
	set(&name, DefaultPlan)
	if p, ok := f.Plans[name]; ok {
		limits, err := p.limits()
		return Plan{Name: name, Limits: limits}, err
	}
	limits, ok := event.PlanLimits(name)
	if !ok {
		return Plan{}, fmt.Errorf("there is no plan %q, neither in the file nor built in (%s, %s)", name, event.PlanDefault, event.PlanDevelopment)
	}
	return Plan{Name: name, Limits: limits}, nil
}

// Applied is a change that Apply has made.
type Applied struct {
	OrganizationID string `json:"organization_id"`
	Organization   string `json:"organization"`
	Change         string `json:"change"`
	// Key is a key that was drawn, shown this once.
	Key string `json:"key,omitempty"`
}

// Apply brings the accounts to what the file says, and returns what it changed:
// nothing when it is applied again. What the file does not name stays as it is.
// When it fails midway, applying it again goes on.
func (a *Accounts) Apply(ctx context.Context, f AccountsFile) ([]Applied, error) {
	if err := f.validate(); err != nil {
		return nil, err
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

func (a *Accounts) applyOrganization(ctx context.Context, f AccountsFile, entry OrganizationEntry) (done []Applied, err error) {
	plan, err := f.plan(entry.Plan)
	if err != nil {
		return nil, err
	}
	var o event.Organization
	for _, known := range a.Organizations() {
		if known.Name == entry.Name {
			o = known
			break
		}
	}
	note := func(change, key string) {
		done = append(done, Applied{OrganizationID: o.ID, Organization: o.Name, Change: change, Key: key})
	}
	if o.ID == "" {
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
		change, key, err := a.applyKey(ctx, o.ID, k)
		if err != nil {
			return done, fmt.Errorf("key %q: %w", k.Name, err)
		}
		if change != "" {
			note(change, key)
		}
	}
	return done, nil
}

// applyKey returns the change that it made, if any, and the key if it drew one.
func (a *Accounts) applyKey(ctx context.Context, organization string, entry KeyEntry) (change, shown string, err error) {
	now := a.time()
	for _, k := range a.Keys(organization) {
		if k.Name != entry.Name || !k.RevokedAt.IsZero() && !entry.Revoked {
			continue
		}
		if entry.Revoked && k.ValidAt(now) {
			_, err := a.RevokeKey(ctx, k.ID)
			return "key " + entry.Name + " revoked", "", err
		}
		return "", "", nil
	}
	if entry.Revoked {
		return "", "", nil
	}
	options := KeyOptions{Name: entry.Name, Scopes: entry.Scopes, ExpiresAt: entry.ExpiresAt}
	if entry.Key != "" {
		given, err := event.ParseAPIKey(entry.Key)
		if err != nil {
			return "", "", err
		}
		options.Given = &given
	}
	_, key, err := a.CreateKey(ctx, organization, options)
	if err != nil {
		return "", "", err
	}
	if options.Given == nil {
		shown = key.Reveal()
	}
	return "key " + entry.Name + " created", shown, nil
}
