package standalone

import (
	"log/slog"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/deploy/instance"
	"muster/deploy/topics"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/platform/service"
)

// A taken address is told before anything is prepared.
func TestAddressesAreLookedAtFirst(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	const free = "127.0.0.1:0"
	for flag, change := range map[string]func(*Config){
		"--api-addr":    func(c *Config) { c.APIAddr = taken.Addr().String() },
		"--ingest-addr": func(c *Config) { c.IngestAddr = taken.Addr().String() },
		"--admin-addr":  func(c *Config) { c.AdminAddr = taken.Addr().String() },
	} {
		cfg := Config{DataDir: t.TempDir(), APIAddr: free, IngestAddr: free, AdminAddr: free, ClickHouseAddr: free, KafkaAddr: free, Sample: 3}
		change(&cfg)
		require.ErrorContains(t, Run(t.Context(), cfg, Deps{Getenv: func(string) string { return "" }}), "another one: "+flag)
		files, err := filepath.Glob(cfg.DataDir + "/*")
		require.NoError(t, err)
		require.Equal(t, []string{filepath.Join(cfg.DataDir, "lock")}, files)
	}
	require.NoError(t, Config{APIAddr: free, IngestAddr: free, AdminAddr: free}.listenable(t.Context()))
}

// A start that fails after it has made a key leaves it to the next one.
func TestFailedStartsShareAKey(t *testing.T) {
	kafka := bus.Config{Brokers: brokertest.Start(t).Addrs()}
	logger := slog.New(slog.DiscardHandler)
	require.NoError(t, topics.Ensure(t.Context(), kafka, 0, logger))
	cfg, deps := Config{DataDir: t.TempDir()}, Deps{Telemetry: &service.Telemetry{Logger: logger}}
	var keys []string
	for range 2 {
		in := describe(cfg, kafka, clickHouseBackend{})
		_, err := prepareAccounts(t.Context(), cfg, kafka, deps, &in)
		require.NoError(t, err)
		keys = append(keys, in.APIKey)
	}
	require.NotEmpty(t, keys[0])
	require.Equal(t, keys[0], keys[1])
	left, err := instance.Read(cfg.DataDir)
	require.NoError(t, err)
	require.Zero(t, left.PID, "nobody is told that it runs")
}
