package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shows requires that `muster subject show` tells what is held of the subject, where
// it came from, and of the calls of this test.
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
	eventually(t, 20*time.Second, func() (bool, string) {
		p.musterJSON(t, &report, "subject", "show", "--json", "user_id="+s.ids["codehost"], "profile_id="+s.ids["network"])
		return len(report.Received) > 0, "no call in the ledger"
	})
	tables := map[string]bool{}
	for _, row := range report.Rows {
		tables[row.Table] = true
		if row.Table != "discoveries" {
			require.NotEmpty(t, row.Message.Run, row.Table)
			require.NotEmpty(t, row.Message.File, row.Table)
		}
	}
	require.True(t, tables["network_people"] && tables["codehost_people"] && tables["lookups"], tables)
	require.NotEmpty(t, report.Received[0].Organization)
	text := p.muster(t, "subject", "show", "user_id="+s.ids["codehost"])
	require.Contains(t, text, "codehost-person.ndjson:")
	require.Contains(t, text, "Not looked through:")
	none, err := muster(t.Context(), p.dataDir, "subject", "show", "codehost_username=nobody-of-this-name")
	require.NoError(t, err)
	require.Equal(t, 1, none.status, none.errors)
}
