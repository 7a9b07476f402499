package standalone

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"muster/deploy/instance"
	"muster/platform/bus"
	queryapi "muster/query-api"
	"muster/schemas/event"
)

const developmentPlan = "development"

// prepareAccounts applies the accounts file and returns what that changed, and puts the key of
// [developmentKey] into the instance's description.
func prepareAccounts(ctx context.Context, cfg Config, kafka bus.Config, deps Deps, in *instance.Instance) (applied []queryapi.Applied, err error) {
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
	// A start that fails from here on, again and again, is not to leave a key each time.
	kept := *in
	kept.PID = 0 // nobody is served yet
	return applied, instance.Write(cfg.DataDir, kept)
}

// developmentKey returns an API key of an organization on the development plan:
// the one that an earlier run left in the instance's description, as long as it
// is valid, else a new one. A key is shown only once, so that a lost one cannot
// be found again.
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
