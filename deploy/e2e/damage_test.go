package e2e_test

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Responses do not tell callers to retry.
func TestDamagedTable_IsReportedInErrorsAndStatus(t *testing.T) {
	t.Parallel()
	p := start(t, newDataDir(t), "--no-sample")
	file := filepath.Join(t.TempDir(), "people.ndjson")
	record := `{"user_id": 1, "codehost_username": "known", "last_updated": "2026-01-01", "bio": "` +
		strings.Repeat("a long story ", 2000) + `"}`
	require.NoError(t, os.WriteFile(file, []byte(record), 0o600))
	p.muster(t, "ingest", "codehost-person", file)
	p.muster(t, "status", "--wait")
	folders := p.sql(t,
		"SELECT arrayJoin(data_paths) FROM system.tables WHERE database = 'muster' AND name = 'codehost_answers'")
	require.Len(t, folders, 1)
	p.stop(t)

	parts, err := filepath.Glob(filepath.Join(folders[0], "all_*", "data.bin"))
	require.NoError(t, err)
	require.NotEmpty(t, parts)
	for _, part := range parts {
		raw, err := os.ReadFile(part)
		require.NoError(t, err)
		for i := range raw {
			raw[i] ^= 0xff
		}
		require.NoError(t, os.WriteFile(part, raw, 0o600))
	}
	p = start(t, p.dataDir, "--no-sample")
	answer := p.api().mustGet(t, "/v1/webset/codehost/person", url.Values{"codehost": {"known"}})
	require.Equal(t, http.StatusInternalServerError, answer.status)
	require.Empty(t, answer.header.Get("Retry-After"))
	require.Contains(t, answer.detail(t), "damaged")
	require.NotContains(t, answer.detail(t), "call again")

	const damage = "table codehost_answers is damaged on disk"
	for path, want := range map[string]int{"/readyz": http.StatusServiceUnavailable, "/status.json": http.StatusOK} {
		resp, err := http.Get(p.AdminURL + path)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.StatusCode)
		require.Contains(t, string(body), damage, path)
	}
	got, err := muster(t.Context(), p.dataDir, "status")
	require.NoError(t, err)
	require.Equal(t, 1, got.status)
	require.Contains(t, got.out, "codehost_answers")
	require.Contains(t, got.errors, damage)
	require.Contains(t, p.errors.String(),
		`"level":"ERROR","msg":"clickhouse: table is damaged on disk","table":"codehost_answers"`)

	for _, part := range p.sql(t,
		"SELECT name FROM system.parts WHERE active AND database = 'muster' AND table = 'codehost_answers'") {
		p.sql(t, "ALTER TABLE codehost_answers DETACH PART '"+part+"'")
	}
	p.muster(t, "replay", "answers") // from the other tables
	eventually(t, time.Minute, func() (bool, string) {
		served := p.api().mustGet(t, "/v1/webset/codehost/person", url.Values{"codehost": {"known"}})
		return strings.Contains(string(served.body), "known"), string(served.body)
	})
	p.muster(t, "status")
}

// Removing the engine's directory loses nothing that is in the topics.
func TestNewTables_AreProjectedFromTheTopics(t *testing.T) {
	t.Parallel()
	p := start(t, newDataDir(t), "--no-sample")
	file := filepath.Join(t.TempDir(), "people.ndjson")
	require.NoError(t,
		os.WriteFile(file, []byte(`{"user_id": 1, "codehost_username": "known", "last_updated": "2026-01-01"}`), 0o600))
	p.muster(t, "ingest", "codehost-person", file)
	p.muster(t, "status", "--wait")
	p.stop(t)

	definitions, err := filepath.Glob(filepath.Join(p.dataDir, "clickhouse", "clickhouse", "store", "*", "*",
		"codehost_people.sql"))
	require.NoError(t, err)
	require.Len(t, definitions, 1)
	require.NoError(t, os.Remove(definitions[0]))
	got, err := muster(t.Context(), p.dataDir, "up", "--no-sample", "--api-addr", "127.0.0.1:0", "--ingest-addr",
		"127.0.0.1:0",
		"--admin-addr", "127.0.0.1:0", "--clickhouse-addr", "127.0.0.1:0", "--kafka-addr", "127.0.0.1:0")
	require.NoError(t, err)
	require.Equal(t, 2, got.status)
	require.Contains(t, got.errors, "the database has lost tables: codehost_people")

	require.NoError(t, os.Rename(filepath.Join(p.dataDir, "clickhouse"), filepath.Join(t.TempDir(), "clickhouse")))
	p = start(t, p.dataDir, "--no-sample")
	p.muster(t, "status", "--wait")
	served := p.api().mustGet(t, "/v1/webset/codehost/person", url.Values{"codehost": {"known"}})
	require.Contains(t, string(served.body), "known")
}
