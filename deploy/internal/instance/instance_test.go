package instance_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"muster/deploy/internal/instance"
	"muster/platform/bus"
)

func none(string) string { return "" }

// write makes this process the running instance of a data directory.
func write(t *testing.T, dir string, in instance.Instance) {
	t.Helper()
	release, err := instance.Lock(dir)
	require.NoError(t, err)
	t.Cleanup(release)
	require.NoError(t, instance.Write(dir, in))
}

func TestFind_FileAndEnvironment(t *testing.T) {
	t.Run("no file", func(t *testing.T) {
		_, err := instance.Find(t.TempDir(), none)
		require.ErrorIs(t, err, instance.ErrNotRunning)
		require.ErrorContains(t, err, "muster up --data-dir")
	})
	t.Run("a running process", func(t *testing.T) {
		dir := t.TempDir()
		want := instance.Instance{Kafka: "127.0.0.1:1", ClickHouseURL: "http://127.0.0.1:2", PID: os.Getpid()}
		write(t, dir, want)
		got, err := instance.Find(dir, none)
		require.NoError(t, err)
		require.Equal(t, want, got)
		info, err := os.Stat(filepath.Join(dir, instance.FileName))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "mode of a file with secrets")
	})
	t.Run("a process that does not hold the lock", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, instance.Write(dir, instance.Instance{Kafka: "a", ClickHouseURL: "b", PID: os.Getpid()}))
		_, err := instance.Find(dir, none)
		require.ErrorIs(t, err, instance.ErrNotRunning)
	})
	t.Run("the environment is enough and overrides the file", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, instance.Instance{Kafka: "a", ClickHouseURL: "b", AdminURL: "c", PID: os.Getpid()})
		got, err := instance.Find(dir, func(name string) string {
			return map[string]string{"KAFKA_BROKERS": "k", "CLICKHOUSE_DSN": "d"}[name]
		})
		require.NoError(t, err)
		require.Equal(t, "k", got.Kafka)
		require.Equal(t, "d", got.ClickHouseURL)
		require.Equal(t, "c", got.AdminURL)
	})
	t.Run("external brokers do not get the embedded broker's password", func(t *testing.T) {
		dir := t.TempDir()
		in := instance.Instance{Kafka: "127.0.0.1:1", KafkaUser: "muster", KafkaPassword: "secret", ClickHouseURL: "b",
			PID: os.Getpid()}
		write(t, dir, in)
		got, err := instance.Find(dir, none)
		require.NoError(t, err)
		require.Equal(t, in, got)
		cfg, err := got.Bus(bus.Config{})
		require.NoError(t, err)
		require.Equal(t, []string{"127.0.0.1:1"}, cfg.Brokers)
		require.Equal(t, "SCRAM-SHA-256", cfg.SASL.Name())
		got, err = instance.Find(dir,
			func(name string) string { return map[string]string{"KAFKA_BROKERS": "k:1,l:1"}[name] })
		require.NoError(t, err)
		require.Empty(t, got.KafkaUser+got.KafkaPassword)
		cfg, err = got.Bus(bus.Config{SASL: plain.Mechanism{Username: "u"}})
		require.NoError(t, err)
		require.Equal(t, bus.Config{Brokers: []string{"k:1", "l:1"}, SASL: plain.Mechanism{Username: "u"}}, cfg)
	})
	t.Run("URLs of the environment need a scheme", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, instance.Instance{Kafka: "a", ClickHouseURL: "b", PID: os.Getpid()})
		for _, name := range []string{"MUSTER_ADMIN_URL", "MUSTER_BASE_URL"} {
			for _, address := range []string{"localhost:8082", "127.0.0.1:8082", "host"} {
				_, err := instance.Find(dir, func(n string) string { return map[string]string{name: address}[n] })
				require.ErrorContains(t, err, name+`: "`+address+`" is not an http or https URL`)
			}
		}
	})
	t.Run("a damaged file", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, instance.Instance{})
		require.NoError(t, os.WriteFile(filepath.Join(dir, instance.FileName), []byte("{"), 0o600))
		_, err := instance.Find(dir, none)
		require.ErrorContains(t, err, instance.FileName)
	})
}

// Commands look at the lock, with a shared lock of their own, while the process starts.
func TestLock_ProbesDoNotPreventIt(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	probing := errgroup.Group{}
	for range 4 {
		probing.Go(func() error {
			tick := time.NewTicker(100 * time.Microsecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				if pid, _, err := instance.LockOwner(dir); err != nil || pid != 0 && pid != os.Getpid() {
					return fmt.Errorf("lock owner %d: %w", pid, err)
				}
				<-tick.C
			}
			return nil
		})
	}
	for range 200 {
		release, err := instance.Lock(dir)
		require.NoError(t, err)
		release()
	}
	cancel()
	require.NoError(t, probing.Wait())
}
