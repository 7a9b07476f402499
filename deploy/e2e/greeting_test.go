package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/deploy/internal/instance"
	"muster/schemas/event"
)

// The key may have expired or have other scopes. A proxy in the environment is not used.
func TestUp_StartsWithoutExamplesInTheSummary(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir, "--sample", "100")
	first := p.APIKey
	parsed, err := event.ParseAPIKey(first)
	require.NoError(t, err)
	p.muster(t, "account", "key", "rotate", parsed.ID(), "--grace", "1ns")
	p.stop(t)

	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	p = start(t, dir, "--api-addr", "0.0.0.0:0", "--admin-addr", "0.0.0.0:0")
	require.NotEqual(t, first, p.APIKey, "an expired key is replaced")
	require.Contains(t, p.out.String(), "/v1/person/enrich")
	p.muster(t, "status")
	var accounts []struct {
		ID string `json:"organization_id"`
	}
	p.musterJSON(t, &accounts, "account", "list", "--json")
	var made struct {
		Key string `json:"key"`
	}
	p.musterJSON(t, &made, "account", "key", "create", accounts[0].ID, "--scopes", "usage", "--json")
	p.stop(t)

	p.APIKey = made.Key
	require.NoError(t, instance.Write(dir, p.Instance))
	p = start(t, dir)
	require.Equal(t, made.Key, p.APIKey)
	require.NotContains(t, p.out.String(), "/v1/person/enrich")
	require.NotContains(t, p.out.String(), "There are no people yet")
	eventually(t, time.Minute, func() (bool, string) { // another pipe than that of the summary
		log := p.errors.String()
		return strings.Contains(log, "no example found for the startup summary"), log
	})
}
