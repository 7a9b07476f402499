package standalone

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"muster/deploy/internal/instance"
	"muster/platform/bus"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/sampledata"
)

const developmentPlan = "development"

// prepareAccounts applies the accounts file, and sets the API key of in with [developmentKey]. It returns the changes.
// Sample data comes with its own organizations.
func prepareAccounts(ctx context.Context, cfg Config, kafka bus.Config, deps Deps, sample sampleState,
	in *instance.Instance) (applied []queryapi.Applied, err error) {
	accounts, err := queryapi.OpenAccounts(ctx, queryapi.AccountsConfig{Bus: kafka, Logger: deps.Telemetry.Logger})
	if err != nil {
		return nil, fmt.Errorf("read the accounts: %w", err)
	}
	defer func() { err = errors.Join(err, accounts.Close()) }()
	if applied, err = accounts.Apply(ctx, cfg.Accounts); err != nil {
		return applied, err
	}
	earlier := in.APIKey
	if in.APIKey, err = developmentKey(ctx, accounts, earlier); err != nil {
		return applied, err
	}
	if in.APIKey != earlier {
		// Store the key now, so that failing starts do not create one each.
		kept := *in
		kept.PID = 0 // not serving yet
		if err := instance.Write(cfg.DataDir, kept); err != nil {
			return applied, err
		}
	}
	if sample.Loaded {
		return applied, nil
	}
	return applied, createSampleAccounts(ctx, accounts)
}

// createSampleAccounts creates the organizations and keys of the sample data that do not exist.
func createSampleAccounts(ctx context.Context, accounts *queryapi.Accounts) error {
	file, err := queryapi.ReadAccountsFile(sampledata.ExampleAccounts)
	if err != nil {
		return fmt.Errorf("read the accounts of the sample: %w", err)
	}
	exists := make(map[string]bool) // by the keys' names; also if revoked
	for i, entry := range file.Organizations {
		for _, o := range accounts.OrganizationsNamed(entry.Name) {
			for _, k := range accounts.Keys(o.ID) {
				exists[k.Name] = true
			}
		}
		file.Organizations[i].Keys = slices.DeleteFunc(entry.Keys,
			func(k queryapi.KeyEntry) bool { return exists[k.Name] })
	}
	if _, err := accounts.Apply(ctx, file); err != nil {
		return fmt.Errorf("create the accounts of the sample: %w", err)
	}
	for i, entry := range file.Organizations {
		file.Organizations[i].Keys = slices.DeleteFunc(entry.Keys,
			func(k queryapi.KeyEntry) bool { return k.Name != sampledata.RevokedExample })
		for j := range file.Organizations[i].Keys {
			file.Organizations[i].Keys[j].Revoked = true
		}
	}
	if _, err := accounts.Apply(ctx, file); err != nil {
		return fmt.Errorf("revoke a key of the sample: %w", err)
	}
	return nil
}

// developmentKey returns an API key of an organization on the development plan: the one of an earlier run in the
// instance file if it is valid, else a new one. Keys cannot be read back, so a lost one is replaced.
func developmentKey(ctx context.Context, accounts *queryapi.Accounts, earlier string) (key string, err error) {
	var organization string
	for _, o := range accounts.Organizations() {
		if o.Plan == developmentPlan && o.Active {
			organization = o.ID
			break
		}
	}
	if organization == "" {
		o, err := accounts.CreateOrganization(ctx, "Development", developmentPlan)
		if err != nil {
			return "", fmt.Errorf("create the development organization: %w", err)
		}
		organization = o.ID
	}
	if parsed, err := event.ParseAPIKey(earlier); err == nil {
		for _, k := range accounts.Keys(organization) {
			if k.ID == parsed.ID() && parsed.Matches(k.SHA256) && k.ValidAt(time.Now()) {
				return earlier, nil
			}
		}
	}
	_, created, err := accounts.CreateKey(ctx, organization, queryapi.KeyOptions{
		Name: "muster up", Scopes: append(event.DefaultScopes(), event.ScopeAnalyze), // it is the operator's
	})
	if err != nil {
		return "", fmt.Errorf("create the development key: %w", err)
	}
	return created.Reveal(), nil
}

// operatorToken returns the token of an earlier run, or a new one.
func operatorToken(earlier string) string {
	if earlier != "" {
		return earlier
	}
	return "mo_" + rand.Text()
}
