package main

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/deploy/erasure"
	"muster/platform/bus"
	"muster/platform/polltest"
	"muster/platform/service"
	"muster/schemas/event"
	"muster/schemas/suppress"
)

// with returns a copy of the cli with an environment variable changed.
func (c cli) with(name, value string) cli {
	c.env = maps.Clone(c.env)
	c.env[name] = value
	return c
}

// startFollower runs the suppression follower of a service until the test ends. Its error is sent to ended.
func startFollower(t *testing.T, c cli) (f *erasure.Follower, ended <-chan error) {
	t.Helper()
	secret, err := service.NewRootSecret([]byte(c.env[service.SecretEnv]))
	require.NoError(t, err)
	f, err = erasure.NewFollower(secret, bus.Config{Brokers: []string{c.env["KAFKA_BROKERS"]}},
		slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(cancel)
	return f, done
}

func stored(t *testing.T, c cli, topic string) (n int64) {
	t.Helper()
	offsets, err := bus.EndOffsets(t.Context(), bus.Config{Brokers: []string{c.env["KAFKA_BROKERS"]}}, []string{topic})
	require.NoError(t, err)
	for _, o := range offsets {
		n += o.End
	}
	return n
}

// A root secret created by a command would make the first erasure stop every service.
func TestCommands_CreateNoRootSecret(t *testing.T) {
	c := newCLI(t).with(service.SecretEnv, "").with("CLICKHOUSE_DSN", "http://127.0.0.1:1/muster")
	out, _ := c.run(0, "account", "create", "Acme", "--json")
	id := parsed[accountView](t, out).OrganizationID
	orders := filepath.Join(t.TempDir(), "orders.ndjson")
	require.NoError(t,
		os.WriteFile(orders,
			[]byte(`{"identifiers": [{"type": "user_id", "value": 1}], "requested_at": "2026-11-21"}`+"\n"), 0o600))
	for _, args := range [][]string{
		{"erase", "--timeout", "0", "email=ada@example.com"}, {"ingest", "erasure", orders},
		{"subject", "show", "email=ada@example.com"},
		{"webhook", "secret", "create", id}, {"erase", "keys"}, {"run", "projector"},
	} {
		_, errors := c.run(2, args...)
		require.Contains(t, errors, "MUSTER_SECRET_KEY is not set", args)
	}
	require.NoFileExists(t, filepath.Join(c.env["MUSTER_DATA_DIR"], "secret.key"))
	require.Zero(t, stored(t, c, event.TopicErasure))
}

func TestCommands_RejectAnotherRootSecret(t *testing.T) {
	right := newCLI(t)
	wrong := right.with(service.SecretEnv, strings.Repeat("w", 64))
	out, _ := right.run(0, "account", "create", "Acme", "--json")
	id := parsed[accountView](t, out).OrganizationID
	f, ended := startFollower(t, right)
	polltest.Until(t, time.Minute, f.Set().HasOwner)
	replica, _ := startFollower(t, wrong)
	polltest.Until(t, time.Minute, replica.Set().IsLoaded)
	require.ErrorIs(t, replica.Set().CheckOwner(), suppress.ErrOtherKey, "reports the mismatch and keeps serving")

	for _, args := range [][]string{{"erase", "--timeout", "0", "email=ada@example.com"},
		{"webhook", "secret", "create", id}} {
		_, errors := wrong.run(2, args...)
		require.Contains(t, errors, "another root secret", args)
	}
	require.EqualValues(t, 1, stored(t, right, event.TopicErasure), "owner entries")
	wrong.run(1, "erase", "keys")
	right.run(0, "erase", "--timeout", "0", "email=ada@example.com")
	right.run(0, "erase", "keys")
	require.Empty(t, ended, "the service keeps running")
}

// The steps are those of deploy/docs/erasure.md.
func TestEraseForeign_RemovesEntriesOfAnotherKey(t *testing.T) {
	right := newCLI(t)
	wrong := right.with(service.SecretEnv, strings.Repeat("w", 64))
	wrong.run(0, "erase", "--timeout", "0", "email=ada@example.com", "user_id=1")
	_, ended := startFollower(t, right)
	require.ErrorIs(t, <-ended, suppress.ErrOtherKey)

	out, errors := right.run(1, "erase", "keys", "--json")
	require.Contains(t, errors, "another root secret")
	keys := parsed[[]erasure.KeyUse](t, out)
	require.Len(t, keys, 1)
	require.Equal(t, 2, keys[0].Entries)
	require.Len(t, keys[0].Requests, 1)
	kept := filepath.Join(t.TempDir(), "foreign.ndjson")
	_, errors = wrong.run(2, "erase", "keys", "--remove", keys[0].ID, "--save-removed", kept)
	require.Contains(t, errors, "is the key of the present root secret")
	require.NoFileExists(t, kept)
	right.run(0, "erase", "keys", "--remove", keys[0].ID, "--save-removed", kept)
	raw, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(raw), "\n"))

	f, ended := startFollower(t, right)
	polltest.Until(t, time.Minute, f.Set().HasOwner)
	require.Empty(t, ended, "it starts before the log is compacted")
	right.run(0, "erase", "--timeout", "0", "email=ada@example.com")
	out, _ = right.run(0, "erase", "keys")
	require.Contains(t, out, "this")
	file := filepath.Join(t.TempDir(), "erasures.ndjson")
	out, _ = right.run(0, "backup", "erasures", file)
	require.Contains(t, out, ": 3 entries", "an entry and two requests")
}

func TestEraseForeign_WorksInAStoppedDataDirectory(t *testing.T) {
	dir := t.TempDir()
	right := cli{t: t, env: map[string]string{"MUSTER_DATA_DIR": dir, service.SecretEnv: strings.Repeat("s", 64)}}
	_, errors := right.run(2, "erase", "keys")
	require.Contains(t, errors, "has no log of an embedded broker")
	withEmbeddedBroker(t, dir, func(cfg bus.Config) {
		right.with(service.SecretEnv, strings.Repeat("w", 64)).with("KAFKA_BROKERS", cfg.Brokers[0]).run(0, "erase",
			"--timeout", "0", "user_id=1")
	})
	out, _ := right.run(1, "erase", "keys", "--json")
	id := parsed[[]erasure.KeyUse](t, out)[0].ID
	right.run(0, "erase", "keys", "--remove", id, "--save-removed", filepath.Join(t.TempDir(), "foreign.ndjson"))
	right.run(0, "erase", "keys")
}
