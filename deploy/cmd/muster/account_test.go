package main

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/deploy/internal/standalone"
	"muster/platform/broker"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/schemas/event"
)

// newCLI returns a cli with a broker that has the topics of muster.
func newCLI(t *testing.T) cli {
	t.Helper()
	kafka := bus.Config{Brokers: brokertest.Start(t).Addrs(), ClientID: "muster-test"}
	require.NoError(t, standalone.EnsureTopics(t.Context(), kafka, 0, slog.New(slog.DiscardHandler)))
	return cli{t: t, env: map[string]string{
		"KAFKA_BROKERS": kafka.Brokers[0], "MUSTER_DATA_DIR": filepath.Join(t.TempDir(), "data"),
		"MUSTER_SECRET_KEY": strings.Repeat("s", 64),
	}}
}

// The commands are the first ones in deploy/docs/accounts.md.
func TestAccountPlan_KeepsLimitsThatAreNotGiven(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(repository, "deploy", "docs", "accounts.md"))
	require.NoError(t, err)
	const create, plan = "--plan growth --rpm 600 --monthly-requests 100000 --credits 50000", "growth --credits 80000"
	require.Contains(t, string(page), `muster account create "Acme Ltd" `+create)
	require.Contains(t, string(page), "muster account plan ORGANIZATION "+plan)

	c := newCLI(t)
	out, warned := c.run(0, append([]string{"account", "create", "Acme Ltd", "--json"}, strings.Fields(create)...)...)
	require.Empty(t, warned)
	id := parsed[accountView](t, out).OrganizationID
	out, _ = c.run(0, append([]string{"account", "plan", id}, strings.Fields(plan)...)...)
	require.Contains(t, out, "growth (600 requests a minute, 100000 requests and 80000 credits a month)")

	_, refused := c.run(2, "account", "plan", id, "small", "--rpm", "1000")
	require.Contains(t, refused, "give its three numbers")
	_, refused = c.run(2, "account", "plan", id, "growth", "--credits", "-1")
	require.Contains(t, refused, "--credits: invalid value -1")
}

// Accounts files identify organizations by name.
func TestAccountCreate_WarnsAboutSameName(t *testing.T) {
	c := newCLI(t)
	out, warned := c.run(0, "account", "create", "Acme Ltd", "--json")
	require.Empty(t, warned)
	_, warned = c.run(0, "account", "create", "Acme Ltd", "--no-key")
	require.Contains(t, warned,
		"another organization has this name already ("+parsed[accountView](t, out).OrganizationID+")")

	file := filepath.Join(t.TempDir(), "accounts.yaml")
	require.NoError(t, os.WriteFile(file, []byte("organizations: [{name: Acme Ltd}]"), 0o600))
	_, refused := c.run(2, "account", "apply", file)
	require.Contains(t, refused, "2 organizations have this name")
}

func TestAccount_AcceptsUniqueNames(t *testing.T) {
	c := newCLI(t)
	out, _ := c.run(0, "account", "create", "Beta Ltd", "--json")
	id := parsed[accountView](t, out).OrganizationID
	for _, args := range [][]string{
		{"account", "show"}, {"account", "key", "list"}, {"account", "key", "create"}, {"account", "deactivate"},
		{"account", "activate"},
		{"webhook", "secret", "create"}, {"webhook", "secret", "show"}, {"webhook", "secret", "rotate"},
	} {
		c.run(0, append(args, "Beta Ltd")...)
	}
	out, _ = c.run(0, "account", "show", "beta ltd")
	require.Contains(t, out, id)
	out, _ = c.run(0, "account", "plan", "Beta Ltd", "growth", "--rpm", "600", "--monthly-requests", "1000",
		"--credits", "500")
	require.Contains(t, out, id)
	_, refused := c.run(2, "webhook", "secret", "create", "Beta Ltd")
	require.Regexp(t, "muster webhook secret show "+id+".*muster webhook secret rotate "+id, refused)
	out, _ = c.run(0, "account", "create", "Beta Ltd", "--no-key", "--json")
	_, refused = c.run(2, "account", "show", "Beta Ltd")
	require.Contains(t, refused, id)
	require.Contains(t, refused, parsed[accountView](t, out).OrganizationID)
	out, _ = c.run(0, "account", "show", id)
	require.Contains(t, out, "Beta Ltd")
}

func TestAccount_ErrorsDoNotShowMistypedKeys(t *testing.T) {
	c := newCLI(t)
	out, _ := c.run(0, "account", "create", "Acme Ltd", "--json")
	key, err := event.ParseAPIKey(parsed[accountView](t, out).Key)
	require.NoError(t, err)
	for _, args := range [][]string{
		{"account", "show"}, {"account", "key", "list"}, {"account", "key", "create"}, {"account", "deactivate"},
		{"webhook", "secret", "create"},
	} {
		_, refused := c.run(2, append(args, "Acme Inc")...)
		require.Contains(t, refused, `organization "Acme Inc": no such organization or key: pass an ID or name from `+
			"`muster account list`", args)
	}
	for _, scopes := range []string{"", ","} {
		_, refused := c.run(2, "account", "key", "create", parsed[accountView](t, out).OrganizationID,
			"--scopes", scopes)
		require.Contains(t, refused, "enrich", "it lists the allowed values")
	}
	mistyped := key.Reveal()[:len(key.Reveal())-1]
	for _, verb := range []string{"rotate", "revoke"} {
		_, refused := c.run(2, "account", "key", verb, mistyped)
		require.Contains(t, refused, "the 8 characters after mk_live_", verb)
		require.NotContains(t, refused, mistyped, verb)
		out, _ = c.run(0, "account", "key", verb, key.Reveal())
		require.Contains(t, out, key.ID(), verb)
	}
}

func TestCommands_TimeOutOnUnusableBrokers(t *testing.T) {
	guarded := brokertest.StartConfig(t, broker.Config{
		DataDir: t.TempDir(), Users: []broker.User{{Mechanism: "SCRAM-SHA-256", Name: "muster", Password: "secret"}},
	})
	for name, broker := range map[string]struct{ addr, says string }{
		"unreachable": {"127.0.0.1:1", "connection refused"},
		"no topics":   {brokertest.Start(t).Addrs()[0], "does not exist (`muster migrate` creates it)"},
		"a password":  {guarded.Addrs()[0], "pass its data directory with --data-dir"},
	} {
		for _, args := range [][]string{{"account", "create", "Mallory"}, {"account", "list"},
			{"webhook", "endpoint", "list"}, {"webhook", "endpoint", "resume", "ep_a"}} {
			t.Run(name+": "+strings.Join(args, " "), func(t *testing.T) {
				t.Parallel()
				env := map[string]string{"KAFKA_BROKERS": broker.addr, "MUSTER_DATA_DIR": t.TempDir()}
				c := &command{
					std:            streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard},
					getenv:         func(name string) string { return env[name] },
					connectTimeout: 3 * time.Second, signals: new(deferredHandler),
				}
				root := newRoot(c)
				root.SetArgs(args)
				err := root.ExecuteContext(t.Context())
				require.ErrorContains(t, err, "timed out after 3s")
				require.ErrorContains(t, err, broker.says)
			})
		}
	}
}
