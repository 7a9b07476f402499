package standalone

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"muster/deploy/internal/instance"
	"muster/platform/bus"
	queryapi "muster/query-api"
	"muster/schemas/event"
)

const developmentPlan = "development"

// prepareAccounts applies the accounts file, and sets the API key of in with [developmentKey]. It returns the changes.
func prepareAccounts(ctx context.Context, cfg Config, kafka bus.Config, deps Deps,
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
	if in.APIKey, err = developmentKey(ctx, accounts, earlier); err != nil || in.APIKey == earlier {
		return applied, err
	}
	// Store the key now, so that failing starts do not create one each.
	kept := *in
	kept.PID = 0 // not serving yet
	return applied, instance.Write(cfg.DataDir, kept)
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
	_, created, err := accounts.CreateKey(ctx, organization, queryapi.KeyOptions{Name: "muster up"})
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
