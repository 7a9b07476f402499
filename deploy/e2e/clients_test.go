//go:build clients

package e2e_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The examples of the Go and the TypeScript client run as a user runs them, and
// get through: enrichment, a walk through a search, a refusal, a verified webhook.
func TestClients(t *testing.T) {
	p := start(t, t.TempDir(), "--sample", "100", "--webhook-allow", "127.0.0.0/8")
	var organizations []account
	p.musterJSON(t, &organizations, "account", "list", "--json")
	var secrets []struct {
		Secret string `json:"secret"`
	}
	p.musterJSON(t, &secrets, "account", "webhook-secret", "show", organizations[0].OrganizationID, "--json")
	username := exampleOf(t, p)
	for name, command := range map[string][]string{
		"Go":         {"go", "run", "muster/query-api/client/example", username},
		"TypeScript": {"node", filepath.Join("..", "..", "query-api", "client-ts", "dist", "example", "example.js"), username},
	} {
		t.Run(name, func(t *testing.T) {
			run := exec.CommandContext(t.Context(), command[0], command[1:]...)
			run.Env = append(environment(), "MUSTER_URL="+p.BaseURL, "KEY="+p.APIKey, "SECRET="+secrets[0].Secret)
			out, err := run.CombinedOutput()
			require.NoError(t, err, "%s", out)
			t.Logf("%s", out)
			for _, line := range []string{
				`(?m)^enrich: .*codehost.*network`, `(?m)^search: (\d+) of \d+$`, `(?m)^refused: .*400.*foreign host`, `(?m)^context: 202$`, `(?m)^webhook: true`,
			} {
				require.Regexp(t, line, string(out))
			}
			require.NotContains(t, string(out), "search: 0 of")
		})
	}
}
