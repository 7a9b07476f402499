package standalone

import (
	"context"
	"errors"
	"fmt"

	"muster/platform/bus"
	queryapi "muster/query-api"
	webhook "muster/webhook-sender"
)

// developmentSecret creates webhook secrets for development organizations that have none, so that their first delivery
// is signed.
func developmentSecret(ctx context.Context, kafka bus.Config, deps Deps, key []byte) (err error) {
	accounts, err := queryapi.OpenAccounts(ctx, queryapi.AccountsConfig{Bus: kafka, Logger: deps.Telemetry.Logger})
	if err != nil {
		return fmt.Errorf("read the accounts: %w", err)
	}
	defer func() { err = errors.Join(err, accounts.Close()) }()
	secrets, err := webhook.OpenSecrets(ctx, webhook.SecretsConfig{Bus: kafka, Key: key, Logger: deps.Telemetry.Logger})
	if err != nil {
		return fmt.Errorf("read the webhook secrets: %w", err)
	}
	defer func() { err = errors.Join(err, secrets.Close()) }()
	for _, o := range accounts.Organizations() {
		if o.Plan != developmentPlan || !o.Active {
			continue
		}
		have, err := secrets.List(o.ID, false)
		if err != nil {
			return fmt.Errorf("read the webhook secrets: %w", err)
		}
		if len(have) > 0 {
			continue
		}
		if _, err := secrets.Create(ctx, o.ID); err != nil {
			return fmt.Errorf("create the development webhook secret: %w", err)
		}
	}
	return nil
}
