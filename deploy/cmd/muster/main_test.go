package main

import (
	"bytes"
	"fmt"
	"log" //nolint:depguard // the target of libraries
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"muster/deploy/internal/instance"
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

// writeRunning makes this process the running instance of a data directory, as the commands find it.
func writeRunning(t *testing.T, dir string, in instance.Instance) {
	t.Helper()
	release, err := instance.Lock(dir)
	require.NoError(t, err)
	t.Cleanup(release)
	in.PID = os.Getpid()
	require.NoError(t, instance.Write(dir, in))
}

// The process ID of a killed instance may belong to another program by now: here, to the test itself.
func TestCommands_StoppedInstanceIsNotRunning(t *testing.T) {
	dir := t.TempDir()
	c := cli{t: t, env: map[string]string{"MUSTER_DATA_DIR": dir}}
	stopped := instance.Instance{
		Kafka: "127.0.0.1:1", ClickHouseURL: "http://127.0.0.1:1/muster", BaseURL: "http://127.0.0.1:1",
		AdminURL: "http://127.0.0.1:1", APIKey: "key", PID: os.Getpid(),
	}
	require.NoError(t, instance.Write(dir, stopped))
	refused := func(want string) {
		t.Helper()
		for _, args := range [][]string{
			{"status"}, {"sql", "SELECT 1"}, {"erase", "list"}, {"account", "list"}, {"rejected", "list"},
			{"webhook", "list"}, {"replay", "projector"}, {"mcp"}, {"enrich", os.DevNull, "--column", "email=email"},
		} {
			_, errors := c.run(2, args...)
			require.Contains(t, errors, want, args)
			require.NotContains(t, errors, "dial tcp", args)
		}
	}
	refused(fmt.Sprintf("no running muster at data directory %q: start one with `muster up --data-dir %s`, set ", dir,
		dir))

	// A start with the same process ID, as in a container, is not ready with the addresses of the previous one.
	release, err := instance.Lock(dir)
	require.NoError(t, err)
	refused(fmt.Sprintf("process %d has locked it, but is still starting", os.Getpid()))
	release()
	require.NoError(t, instance.Write(dir, stopped))
	release, err = instance.LockFor(dir, "muster backup create")
	require.NoError(t, err)
	refused("(muster backup create) has locked it: wait until that command ends")
	release()
}

// The walk includes commands that are added later, and those of cobra.
func TestGroups_RejectUnknownSubcommands(t *testing.T) {
	c := cli{t: t, env: map[string]string{"MUSTER_DATA_DIR": t.TempDir()}}
	groups := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			walk(child)
		}
		if !cmd.HasSubCommands() {
			return
		}
		groups++
		path := strings.Fields(cmd.CommandPath())[1:]
		_, errors := c.run(2, append(path, "frobnicate")...)
		require.NotEmpty(t, errors)
		if strings.Contains(cmd.Use, " ") {
			return // erase and ingest have arguments of their own
		}
		unknown := fmt.Sprintf("unknown command %q for %q: ", "frobnicate", cmd.CommandPath())
		require.Contains(t, errors, unknown)
		_, errors = c.run(2, append(append([]string{"help"}, path...), "frobnicate")...)
		require.Contains(t, errors, unknown)
		for _, child := range cmd.Commands() {
			if child.Hidden || len(child.Name()) < 3 {
				continue
			}
			_, errors = c.run(2, append(path, child.Name()+"x")...)
			require.Contains(t, errors, fmt.Sprintf("did you mean %q? ", child.Name()))
		}
		if isGroup(cmd) {
			help, _ := c.run(0, path...)
			require.Contains(t, help, "Usage:\n  "+cmd.CommandPath()+" [command]\n")
			same, _ := c.run(0, append(path, "--help")...)
			require.Equal(t, help, same)
			_, errors = c.run(2, append(path, "frobnicate", "--json")...)
			require.Contains(t, errors, unknown)
			_, errors = c.run(2, append(path, "--frobnicate")...)
			require.Contains(t, errors, "unknown flag: --frobnicate")
		}
	}
	walk(newRoot(&command{signals: new(deferredHandler)}))
	require.Greater(t, groups, 10)
}

// Nothing starts with a value that a service would reject later: the data directory is not created.
func TestUp_RejectsInvalidValuesFirst(t *testing.T) {
	const memory = "is not a number of MiB from 1 to 1048576"
	const origin = `--cors-origin: invalid origin "foo": want a scheme and a host, such as https://app.example.com`
	for _, tc := range []struct {
		env  map[string]string
		args []string
		want string
	}{
		{args: []string{"--search-index-memory", "-5"}, want: `"-5" ` + memory},
		{args: []string{"--search-index-memory", "0"}, want: `"0" ` + memory},
		{args: []string{"--search-index-memory", "99999999999999"}, want: memory},
		{
			env:  map[string]string{"MUSTER_SEARCH_INDEX_MEMORY": "-1"},
			want: `MUSTER_SEARCH_INDEX_MEMORY: "-1" ` + memory,
		},
		{args: []string{"--cors-origin", "foo"}, want: origin},
		{env: map[string]string{"MUSTER_CORS_ORIGIN": "foo"}, want: origin},
		{
			env:  map[string]string{"CLICKHOUSE_DSN": "mysql://x"},
			want: `CLICKHOUSE_DSN has the unknown scheme "mysql": use http://, https://, clickhouse://`,
		},
		{env: map[string]string{"KAFKA_BROKERS": "kafka://x:9092"}, want: "comma-separated list without a scheme"},
		{env: map[string]string{"OPENSEARCH_URL": "ftp://x"}, want: "OPENSEARCH_URL: nodes are http:// or https:// URLs"},
		{env: map[string]string{"REDIS_URL": "http://x"}, want: "REDIS_URL is "},
		{
			env:  map[string]string{"MUSTER_ANALYST_DSN": "host:8123"},
			want: "MUSTER_ANALYST_DSN: not the address of ClickHouse's HTTP interface, which SQL needs, such as http://",
		},
		{env: map[string]string{"SEARXNG_URL": "ftp://x"}, want: "SEARXNG_URL"},
	} {
		c := cli{t: t, env: map[string]string{"MUSTER_DATA_DIR": filepath.Join(t.TempDir(), "data")}}
		maps.Copy(c.env, tc.env)
		_, errors := c.run(2, append([]string{"up"}, tc.args...)...)
		require.Contains(t, errors, tc.want)
		require.NotContains(t, errors, "--api-addr")
		require.NoDirExists(t, c.env["MUSTER_DATA_DIR"])

		// No server listens at these addresses: an invalid value is an error before a connection to them is tried.
		c.env["MUSTER_SECRET_KEY"] = strings.Repeat("s", 64)
		for name, value := range map[string]string{
			"KAFKA_BROKERS": "127.0.0.1:1", "CLICKHOUSE_DSN": "http://127.0.0.1:1",
		} {
			if c.env[name] == "" {
				c.env[name] = value
			}
		}
		if tc.env["SEARXNG_URL"] != "" {
			continue // of another service
		}
		_, errors = c.run(2, append([]string{"run", "query-api"}, tc.args...)...)
		require.Contains(t, errors, tc.want)
		require.NotContains(t, errors, "127.0.0.1:1")
	}
}

func TestAccountCreate_NeedsAName(t *testing.T) {
	for _, name := range []string{"", " \t"} {
		_, errors := cli{t: t}.run(2, "account", "create", name)
		require.Equal(t, "muster: NAME is empty: give a name of the organization\n", errors)
	}
}
