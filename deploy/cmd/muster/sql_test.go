package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/deploy/internal/instance"
	"muster/platform/tlsclient/tlstest"
)

// Client certificates apply to CLICKHOUSE_DSN only.
func TestSQL_EmbeddedEngineIgnoresClientCertificates(t *testing.T) {
	server := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("1\n")) }))
	t.Cleanup(server.Close)
	authority, err := tlstest.NewAuthority()
	require.NoError(t, err)
	files, err := authority.Write(t.TempDir(), "muster")
	require.NoError(t, err)
	c := cli{t: t, env: files.Env("CLICKHOUSE")}
	c.env["MUSTER_DATA_DIR"] = t.TempDir()
	writeRunning(t, c.env["MUSTER_DATA_DIR"],
		instance.Instance{Kafka: "127.0.0.1:1", ClickHouseURL: server.URL + "/muster"})
	out, _ := c.run(0, "sql", "--format", "tsv", "SELECT 1")
	require.Equal(t, "1\n", out)
}

func TestSQL_ErrorsSuggestTheFix(t *testing.T) {
	answers := map[string]string{
		"SELEC 1": "Code: 164. DB::Exception: default: Cannot execute query in readonly mode. (READONLY) (version " +
			"26.7.2.1)\n",
		"SELECT 1 FROM persons": "Code: 60. DB::Exception: Unknown table expression identifier 'persons' in scope " +
			"SELECT 1 FROM persons. Maybe you meant system.errors?. (UNKNOWN_TABLE) (version 26.7.2.1)",
		"SELECT 1": "Code: 73. DB::Exception: Code: 73. DB::Exception: Code: 73. DB::Exception: Unknown format " +
			"bogus. (UNKNOWN_FORMAT) (version 26.7.2.1). (UNKNOWN_FORMAT) (version 26.7.2.1). (UNKNOWN_FORMAT) " +
			"(version 26.7.2.1)",
		"SELECT 2": "Code: 73. DB::Exception: Unknown format Nope. Maybe you meant: ['One','Npy']. " +
			"(UNKNOWN_FORMAT) (version 26.7.2.1)",
		"SELECT nam": "Code: 47. DB::Exception: Unknown expression identifier `nam`. (UNKNOWN_IDENTIFIER) (version " +
			"26.7.2.1)",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		statement, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(answers[string(statement)]))
	}))
	t.Cleanup(server.Close)
	c := cli{t: t, env: map[string]string{
		"CLICKHOUSE_DSN": server.URL + "/muster", "MUSTER_DATA_DIR": t.TempDir(),
	}}
	_, errors := c.run(1, "sql", "SELEC 1")
	require.Contains(t, errors, "only SELECT, WITH, SHOW, DESCRIBE, EXISTS and EXPLAIN are allowed")
	_, errors = c.run(1, "sql", "SELECT 1 FROM persons;")
	require.Contains(t, errors, "identifier 'persons'")
	require.Contains(t, errors, "the views are people, ")
	require.NotContains(t, errors, "system.errors")
	_, errors = c.run(1, "sql", "--format", "bogus", "SELECT 1")
	require.Equal(t,
		"muster: the format \"bogus\" is unknown; the formats are csv, json, markdown, table, tsv, vertical, "+
			"and those of ClickHouse (SELECT name FROM system.formats)\n", errors)
	_, errors = c.run(1, "sql", "SELECT 2")
	require.Contains(t, errors, `the format "Nope" is unknown`)
	_, errors = c.run(1, "sql", "SELECT nam")
	require.Equal(t, "muster: "+answers["SELECT nam"]+"\n", errors)
}

// Such a user may not set readonly.
func TestSQL_WorksForAReadOnlyUser(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := "readonly"; r.URL.Query().Has(name) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte("Code: 164. DB::Exception: Cannot modify '" + name +
				"' setting in readonly mode. (READONLY) (version 26.7.2.1)\n"))
			return
		}
		_, _ = w.Write([]byte("1\n"))
	}))
	t.Cleanup(server.Close)
	c := cli{t: t, env: map[string]string{
		"CLICKHOUSE_DSN":  strings.Replace(server.URL, "//", "//analyst:secret@", 1) + "/muster",
		"MUSTER_DATA_DIR": t.TempDir(),
	}}
	out, _ := c.run(0, "sql", "--format", "tsv", "SELECT 1")
	require.Equal(t, "1\n", out)
}

func TestSQL_NeedsAnHTTPAddress(t *testing.T) {
	c := cli{t: t, env: map[string]string{"CLICKHOUSE_DSN": "clickhouse://host:9000/muster"}}
	_, errors := c.run(2, "sql", "SELECT 1")
	require.Contains(t, errors, "CLICKHOUSE_DSN: not the address of ClickHouse's HTTP interface, which SQL needs")
}
