package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/broker/brokertest"
	"muster/platform/console/consoletest"
)

// onTerminal returns the output of a command line on a terminal, and requires its exit status.
func (c cli) onTerminal(status int, args ...string) (out, errors string) {
	c.t.Helper()
	stdout, shownOut := consoletest.Open(c.t)
	stderr, shownErr := consoletest.Open(c.t)
	got := run(args, streams{in: strings.NewReader(""), out: stdout, err: stderr},
		func(name string) string { return c.env[name] })
	require.NoError(c.t, stdout.Close())
	require.NoError(c.t, stderr.Close())
	out, errors = shownOut(), shownErr()
	require.Equal(c.t, status, got, "%s\n%q%q", strings.Join(args, " "), out, errors)
	return out, errors
}

const (
	hostile  = "\x1b]0;pwned\x07\u009b2J"
	harmless = `\u001b]0;pwned\u0007\u009b2J`
)

// Output that is not a terminal is unchanged.
func TestSQL_EscapesControlCharactersOnATerminal(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if statement, err := io.ReadAll(r.Body); err != nil || strings.Contains(string(statement), "nothing") {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = w.Write([]byte("│ " + hostile + " │\n"))
	}))
	t.Cleanup(server.Close)
	c := cli{t: t, env: map[string]string{"CLICKHOUSE_DSN": server.URL + "/muster", "MUSTER_DATA_DIR": t.TempDir()}}
	out, _ := c.onTerminal(0, "sql", "SELECT 1")
	require.Equal(t, "│ "+harmless+" │\n", out)
	_, errors := c.onTerminal(1, "sql", "SELECT nothing")
	require.Contains(t, errors, harmless)

	out, _ = c.run(0, "sql", "SELECT 1")
	require.Equal(t, "│ "+hostile+" │\n", out)
	path := filepath.Join(t.TempDir(), "out")
	c.onTerminal(0, "sql", "--output", path, "SELECT 1")
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "│ "+hostile+" │\n", string(written))
}

func TestIngest_EscapesFileNamesAndRecordsOnATerminal(t *testing.T) {
	dir := t.TempDir()
	c := cli{t: t, env: map[string]string{"KAFKA_BROKERS": brokertest.Start(t).Addrs()[0],
		"MUSTER_DATA_DIR":   filepath.Join(dir, "data"),
		"MUSTER_SECRET_KEY": strings.Repeat("erased people stay out ", 3)}}
	path := filepath.Join(dir, "a"+hostile+"\nb.ndjson")
	require.NoError(t, os.WriteFile(path, []byte(`{"profile_id":"1","last_updated":"\u001b]0;pwned\u0007"}`+"\n"+
		`{"profile_id":"2","last_updated":"2026","username":"u","\u001b]0;pwned\u0007\nb.ndjson":1}`+"\n"), 0o600))
	for _, tc := range []struct {
		status int
		args   []string
		names  bool // the file name is on standard output
	}{
		{1, []string{"ingest", "--dry-run", "network-person", path}, true},
		{1, []string{"ingest", "network-person", path}, false},
		{2, []string{"ingest", "network-person", path + "x"}, false},
		{0, []string{"rejected", "list"}, true},
		{0, []string{"rejected", "list", "--json"}, true},
	} {
		out, errors := c.onTerminal(tc.status, tc.args...)
		require.NotContains(t, out+errors, "\x1b]")
		require.NotContains(t, out+errors, "\u009b")
		require.NotContains(t, out+errors, "\x07")
		if tc.status == 2 { // an error may have several lines, and has the file name as given
			errors = ""
		}
		require.NotContains(t, out+errors, "\nb.ndjson", tc.args)
		if tc.names {
			require.Contains(t, out, harmless)
		}
	}
	out, _ := c.run(0, "rejected", "list", "--json")
	shown, _ := c.onTerminal(0, "rejected", "list", "--json")
	require.Contains(t, out, "\u009b")
	require.Equal(t, parsed[[]deadLetterJSON](t, out), parsed[[]deadLetterJSON](t, shown))
}

func TestSQL_PromptEditsRecallsHelpsAndExits(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		statement, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Query().Get("output_format_pretty_color") != "0" {
			w.WriteHeader(http.StatusBadRequest)
		}
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, string(statement))
		_, _ = w.Write([]byte("1\n"))
	}))
	t.Cleanup(server.Close)
	const left, up = "\x1b[D", "\x1b[A"
	stdin := consoletest.Type(t, "help\rSELEC 1;"+left+left+left+"T\r"+up+"\r\rSELECT\r2;\rexit\rSELECT 3;\r")
	stdout, shownOut := consoletest.Open(t)
	stderr, shownErr := consoletest.Open(t)
	env := map[string]string{"CLICKHOUSE_DSN": server.URL + "/muster", "MUSTER_DATA_DIR": t.TempDir()}
	status := run([]string{"sql"}, streams{in: stdin, out: stdout, err: stderr},
		func(name string) string { return env[name] })
	require.NoError(t, stdout.Close())
	require.NoError(t, stderr.Close())
	out, said := shownOut(), shownErr()
	require.Equal(t, 0, status, said)
	require.Contains(t, said, "DESCRIBE TABLE positions", "help")
	require.Equal(t, []string{"SELECT 1", "SELECT 1", "SELECT\n2"}, asked,
		"statements sent: edited, recalled, none after exit")
	require.NotContains(t, out, "\x1b")
}
