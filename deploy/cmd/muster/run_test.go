package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/deploy/internal/instance"
	"muster/deploy/internal/standalone"
	"muster/ingest"
	"muster/platform/broker/brokertest"
	"muster/platform/polltest"
)

// logged receives the log of a process, line by line.
type logged func(line string)

func (l logged) Write(p []byte) (int, error) {
	l(string(p))
	return len(p), nil
}

func TestRunIngest_StoresPushedVersionsInTheDataDirectory(t *testing.T) {
	env := map[string]string{"KAFKA_BROKERS": strings.Join(brokertest.Start(t).Addrs(), ","),
		"MUSTER_SECRET_KEY": strings.Repeat("s", 64), ingest.OperatorTokenEnv: "token"}
	for _, stateless := range []bool{false, true} {
		var ready atomic.Bool // from the log
		log := logged(func(line string) {
			if strings.Contains(line, "msg=ready service=ingest admin=http://127.0.0.1:") {
				ready.Store(true)
			}
		})
		c := &command{std: streams{in: strings.NewReader(""), out: io.Discard, err: log},
			getenv: func(name string) string { return env[name] }, dataDir: t.TempDir(), logLevel: "info",
			logFormat: "text"}
		env, err := c.environment(t.Context(), "ingest", "127.0.0.1:0")
		require.NoError(t, err)
		env.stateless = stateless
		require.NoError(t, standalone.EnsureTopics(t.Context(), env.kafka, 0, env.tel.Logger))
		ctx, cancel := context.WithCancel(t.Context())
		unit, err := buildIngest(ctx, env)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- runAlone(ctx, "ingest", unit, env, "127.0.0.1:0", nil) }()
		known := func() bool {
			_, err := os.Stat(filepath.Join(c.ingestState(), "versions", "topics.json"))
			return err == nil
		}
		polltest.Until(t, time.Minute, func() bool { return ready.Load() && (stateless || known()) })
		cancel()
		require.NoError(t, <-ended)
		require.Equal(t, !stateless, known())
	}
}

// The file may belong to another user.
func TestInstance_UnreadableFileIsNotReportedAsStopped(t *testing.T) {
	c := cli{t: t, env: map[string]string{"MUSTER_DATA_DIR": t.TempDir()}}
	_, errors := c.run(2, "account", "list")
	require.Contains(t, errors, "no running muster")
	release, err := instance.Lock(c.env["MUSTER_DATA_DIR"])
	require.NoError(t, err)
	defer release()
	require.NoError(t, os.Mkdir(filepath.Join(c.env["MUSTER_DATA_DIR"], instance.FileName), 0o700))
	_, errors = c.run(2, "account", "list")
	require.Contains(t, errors, instance.FileName)
	require.NotContains(t, errors, "no running muster")
}
