package standalone

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/deploy/internal/instance"
	"muster/ingest"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/platform/engine"
	"muster/platform/service"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

func TestRun_ChecksAddressesFirst(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	const free = "127.0.0.1:0"
	for flag, change := range map[string]func(*Config){
		"--api-addr":        func(c *Config) { c.APIAddr = taken.Addr().String() },
		"--ingest-addr":     func(c *Config) { c.IngestAddr = taken.Addr().String() },
		"--admin-addr":      func(c *Config) { c.AdminAddr = taken.Addr().String() },
		"--kafka-addr":      func(c *Config) { c.KafkaAddr = taken.Addr().String() },
		"--clickhouse-addr": func(c *Config) { c.ClickHouseAddr = taken.Addr().String() },
	} {
		cfg := Config{DataDir: t.TempDir(), APIAddr: free, IngestAddr: free, AdminAddr: free, ClickHouseAddr: free,
			KafkaAddr: free, Sample: 3}
		change(&cfg)
		require.ErrorContains(t, Run(t.Context(), cfg, Deps{Getenv: func(string) string { return "" }}),
			"change it with "+flag)
		files, err := filepath.Glob(cfg.DataDir + "/*")
		require.NoError(t, err)
		require.Equal(t, []string{filepath.Join(cfg.DataDir, "lock")}, files)
	}
	external := map[string]string{"KAFKA_BROKERS": "a:9092", "CLICKHOUSE_DSN": "http://a"}
	require.NoError(t, Config{
		APIAddr: free, IngestAddr: free, AdminAddr: free, KafkaAddr: taken.Addr().String(),
		ClickHouseAddr: taken.Addr().String(),
	}.checkAddresses(t.Context(), func(name string) string { return external[name] }))
}

func TestRun_WaitsForTheEngineOfAKilledRun(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	const free = "127.0.0.1:0"
	cfg := Config{DataDir: t.TempDir(), APIAddr: free, IngestAddr: free, AdminAddr: free, KafkaAddr: free,
		ClickHouseAddr: taken.Addr().String()}
	require.NoError(t, os.Mkdir(cfg.engineDir(), 0o700))
	unlock, err := engine.Lock(t.Context(), cfg.engineDir())
	require.NoError(t, err)
	ended := time.AfterFunc(200*time.Millisecond, func() {
		_ = taken.Close() // it was open
		unlock()
	})
	defer ended.Stop()
	require.NoError(t, cfg.checkAddresses(t.Context(), func(string) string { return "" }))
}

func TestRun_InterruptedStartIsNoError(t *testing.T) {
	const free = "127.0.0.1:0"
	cfg := Config{DataDir: t.TempDir(), APIAddr: free, IngestAddr: free, AdminAddr: free, KafkaAddr: free,
		ClickHouseAddr: free}
	// Servers that do not answer: the start waits for them.
	env := map[string]string{"KAFKA_BROKERS": "127.0.0.1:1", "CLICKHOUSE_DSN": "http://127.0.0.1:1"}
	ctx, interrupt := context.WithCancelCause(t.Context())
	defer time.AfterFunc(200*time.Millisecond, func() { interrupt(&service.SignalError{Signal: os.Interrupt}) }).Stop()
	require.NoError(t, Run(ctx, cfg, Deps{
		Getenv:    func(name string) string { return env[name] },
		Telemetry: &service.Telemetry{Logger: slog.New(slog.DiscardHandler)},
	}))
	require.Error(t, ctx.Err(), "it started")
}

func TestRun_FailedStartsShareAKey(t *testing.T) {
	kafka := bus.Config{Brokers: brokertest.Start(t).Addrs()}
	logger := slog.New(slog.DiscardHandler)
	require.NoError(t, EnsureTopics(t.Context(), kafka, 0, logger))
	cfg, deps := Config{DataDir: t.TempDir()}, Deps{Telemetry: &service.Telemetry{Logger: logger}}
	var keys []string
	for range 2 {
		in := describe(cfg, kafkaBackend{config: kafka}, clickHouseBackend{})
		_, err := prepareAccounts(t.Context(), cfg, kafka, deps, sampleState{}, &in)
		require.NoError(t, err)
		keys = append(keys, in.APIKey)
	}
	require.NotEmpty(t, keys[0])
	require.Equal(t, keys[0], keys[1])
	left, err := instance.Read(cfg.DataDir)
	require.NoError(t, err)
	require.Zero(t, left.PID, "not reported as running")
}

func TestSample_RunsOfAKilledStartAreRemoved(t *testing.T) {
	dir := t.TempDir()
	cfg := ingest.Config{Bus: bus.Config{Brokers: brokertest.Start(t).Addrs()}, StateDir: ingest.StateDirOf(dir)}
	key, err := suppress.NewKey(make([]byte, suppress.KeySize))
	require.NoError(t, err)
	erased := suppress.NewSet(key)
	erased.Loaded()
	stop := func(folder string) string {
		require.NoError(t, os.MkdirAll(folder, 0o700))
		cut := filepath.Join(folder, "people.ndjson.gz")
		require.NoError(t, os.WriteFile(cut, []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 1}, 0o600))
		s, err := ingest.Files(t.Context(), cfg, ingest.Deps{Logger: slog.New(slog.DiscardHandler), Suppressed: erased},
			record.KindNetworkPerson, []string{cut})
		require.Error(t, err)
		return s.Run
	}
	// Files of the operator in the data directory are kept, whatever their names.
	var theirs, resumable []string
	for _, name := range []string{"sampled", "sample-data", "sample-2024", "muster-sample-data", "muster-sample-"} {
		theirs = append(theirs, filepath.Join(dir, name))
		resumable = append(resumable, stop(filepath.Join(dir, name)))
	}
	ours := filepath.Join(dir, sampleDir+"123")
	stop(ours)
	for range 2 {
		require.NoError(t, forgetSample(dir))
		require.NoDirExists(t, ours)
		for _, folder := range theirs {
			require.FileExists(t, filepath.Join(folder, "people.ndjson.gz"))
		}
		runs, err := ingest.Runs(cfg.StateDir, 0)
		require.NoError(t, err)
		var left []string
		for _, r := range runs {
			left = append(left, r.ID)
		}
		require.ElementsMatch(t, resumable, left)
	}
}
