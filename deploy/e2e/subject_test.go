package e2e_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
)

// shows requires that `muster subject show` reports the stored data of the subject, its sources, and this test's calls.
func shows(t *testing.T, p *platform, s subject) {
	t.Helper()
	var report struct {
		Rows []struct {
			Table   string `json:"table"`
			Message struct {
				File string `json:"file"`
				Run  string `json:"run"`
			} `json:"message"`
		} `json:"rows"`
		Received []struct {
			Organization string `json:"organization_id"`
			Endpoint     string `json:"endpoint"`
		} `json:"received"`
	}
	eventually(t, time.Minute, func() (bool, string) {
		p.musterJSON(t, &report, "subject", "show", "--json", "user_id="+s.ids["codehost"],
			"profile_id="+s.ids["network"])
		return len(report.Received) > 0, "no call in the ledger"
	})
	tables := map[string]bool{}
	for _, row := range report.Rows {
		tables[row.Table] = true
		if row.Table != "discoveries" && row.Table != "discovered_links" { // these are from events
			require.NotEmpty(t, row.Message.Run, row.Table)
			require.NotEmpty(t, row.Message.File, row.Table)
		}
	}
	require.True(t, tables["network_people"] && tables["codehost_people"] && tables["lookups"], tables)
	require.NotEmpty(t, report.Received[0].Organization)
	text := p.muster(t, "subject", "show", "user_id="+s.ids["codehost"])
	require.Contains(t, text, "codehost-person.ndjson:")
	require.Contains(t, text, "Not searched:")
	none, err := muster(t.Context(), p.dataDir, "subject", "show", "codehost_username=no-such-username")
	require.NoError(t, err)
	require.Equal(t, 1, none.status, none.errors)
}

// attested requires a valid receipt of the first request, and that a changed one is invalid. The tables have no data
// left; topics may have tombstones.
func attested(t *testing.T, p *platform) {
	t.Helper()
	var all []struct {
		RequestID string `json:"request_id"`
	}
	p.musterJSON(t, &all, "erase", "list", "--json")
	path := filepath.Join(t.TempDir(), "receipt.json")
	run := func(args ...string) result {
		r, err := muster(t.Context(), p.dataDir, args...)
		require.NoError(t, err)
		return r
	}
	made := run("erase", "receipt", all[0].RequestID, "--output", path)
	verified := run("erase", "verify", path)
	require.LessOrEqual(t, made.status, 1, made.errors)
	require.LessOrEqual(t, verified.status, 1, verified.errors)
	require.Contains(t, verified.out, "The signature is valid: request "+all[0].RequestID)
	require.Contains(t, verified.out, "Searched again")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var receipt struct {
		Tables []struct {
			Name      string `json:"name"`
			Remaining int    `json:"remaining"`
		} `json:"tables"`
		Passing []struct {
			Name string `json:"name"`
		} `json:"passing"`
		Files []any            `json:"files"`
		Found map[string]int64 `json:"found"`
		Kept  []any            `json:"kept"`
	}
	require.NoError(t, json.Unmarshal(raw, &receipt))
	require.NotEmpty(t, receipt.Kept)
	require.NotEmpty(t, receipt.Files)
	require.GreaterOrEqual(t, len(receipt.Passing), 8)
	require.Positive(t, receipt.Found["rows of codehost_people"], receipt.Found)
	require.Positive(t, receipt.Found["tombstones of muster.record.codehost-person.v1"], receipt.Found)
	for _, table := range receipt.Tables {
		require.Zero(t, table.Remaining, table.Name)
	}
	require.NoError(t,
		os.WriteFile(path, bytes.Replace(raw, []byte(`"scope": "all"`), []byte(`"scope": "network"`), 1), 0o600))
	changed := run("erase", "verify", path)
	require.Equal(t, 1, changed.status, changed.out)
	require.Contains(t, changed.errors, "invalid signature")
}
