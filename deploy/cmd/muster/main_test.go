package main

import (
	"bytes"
	"log" //nolint:depguard // the target of libraries
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// net/http prints unsolicited responses there.
func TestRun_DiscardsStandardLog(t *testing.T) {
	var said bytes.Buffer
	log.SetOutput(&said)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	c := cli{t: t}
	c.run(0, "version")
	log.Print("Unsolicited response")
	require.Empty(t, said.String())
}

func TestLogFlags_ApplyToCommandsAndSignals(t *testing.T) {
	c := cli{t: t}
	_, errors := c.run(2, "--log-level", "foo", "version")
	require.Contains(t, errors, `--log-level: log level "foo"`)
	_, errors = c.run(2, "--log-format", "foo", "status")
	require.Contains(t, errors, `--log-format: invalid value "foo": want auto, text or json`)

	said := func(args ...string) string {
		t.Helper()
		var out, log bytes.Buffer
		c := &command{std: streams{out: &out, err: &log}, getenv: func(string) string { return "" },
			signals: new(deferredHandler)}
		logger := slog.New(c.signals)
		logger.Error("too early")
		root := newRoot(c)
		root.SetOut(&out)
		root.SetArgs(append(args, "version"))
		require.NoError(t, root.ExecuteContext(t.Context()))
		logger.Info("stopping")
		return log.String()
	}
	require.Contains(t, said(), `"msg":"stopping"`)
	require.NotContains(t, said(), "too early")
	require.Contains(t, said("--log-format", "text"), "msg=stopping")
	require.Empty(t, said("--log-level", "error"))
}
