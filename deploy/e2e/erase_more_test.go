package e2e_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/deploy/e2e/internal/oracle"
)

// download writes a download of California's platform: a ZIP file of lists with IDs and SHA-256 hashes in base64.
func download(t *testing.T, lists map[string]string) string {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for name, text := range lists {
		f, err := w.Create("20260312_4821_" + name + ".csv")
		require.NoError(t, err)
		_, err = f.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	path := filepath.Join(t.TempDir(), "20260312_4821_DROP.zip")
	require.NoError(t, os.WriteFile(path, buf.Bytes(), 0o600))
	return path
}

func listed(standard string) string {
	sum := sha256.Sum256([]byte(standard))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// imports requires that a deletion list takes effect, also for records that arrive later, that the responses have the
// status of each row, that a repeated import changes nothing, and that a Removed file ends the suppression of a row.
func imports(t *testing.T, p *platform, goes, exempt subject) {
	t.Helper()
	found := func(email string) bool {
		return !strings.HasPrefix(ask(t, p, "/v1/person/enrich", map[string]any{"email": email, "websets": both}),
			`{"websets_matched":[]`)
	}
	const later, number = "not-here-yet@lists.example", "9165550142"
	require.True(t, found(goes.emails[0]))
	require.True(t, found(exempt.emails[0]))
	lists := download(t, map[string]string{
		"Email": "ID,Hash\n" + strings.Join([]string{
			"aaaaaaaaaaa1," + listed(goes.emails[0]), "aaaaaaaaaaa2," + listed(later), "aaaaaaaaaaa3," +
				listed(exempt.emails[0]),
		}, "\n") + "\n",
		"Phone": "ID,Hash\nbbbbbbbbbbb1," + listed(number) + "\n",
	})
	exempted := filepath.Join(t.TempDir(), "exempt")
	require.NoError(t, os.WriteFile(exempted, []byte("aaaaaaaaaaa3\n"), 0o600))
	responses := filepath.Join(t.TempDir(), "responses")
	p.muster(t, "erase", "import-drop", lists, "--dry-run", "--exempt", exempted, "--response", responses)
	require.True(t, found(goes.emails[0]), "a dry run changes nothing")
	require.NoDirExists(t, responses)

	answers := map[string]string{"Email": "Id,Status\naaaaaaaaaaa1,3\naaaaaaaaaaa2,5\naaaaaaaaaaa3,2\n",
		"Phone": "Id,Status\nbbbbbbbbbbb1,5\n"}
	for range 2 { // a repeated import gives the same responses
		p.muster(
			t,
			"erase",
			"import-drop",
			lists,
			"--exempt",
			exempted,
			"--response",
			responses,
			"--requested-by",
			"a test",
		)
		for name, want := range answers {
			got, err := os.ReadFile(filepath.Join(responses, "20260312_4821_"+name+".csv"))
			require.NoError(t, err)
			require.Equal(t, want, string(got), name)
		}
		require.False(t, found(goes.emails[0]))
		require.True(t, found(exempt.emails[0]))
	}

	// A person without a match is suppressed when a record arrives.
	latecomers := filepath.Join(t.TempDir(), "later.ndjson")
	require.NoError(t, os.WriteFile(latecomers, fmt.Appendf(nil, `{"profile_id":"later-1","username":"later-1",`+
		`"emails":[%q],"last_updated":"2026-11-01"}
{"profile_id":"later-2","username":"later-2","mobile_phone":"(916) 555-0142","last_updated":"2026-11-01"}
`, later), 0o600))
	come := func() (first, second bool) {
		p.muster(t, "ingest", "--again", oracle.NetworkPerson, latecomers)
		p.muster(t, "status", "--wait", "--timeout", "3m")
		shown := func(name string) bool {
			return strings.Contains(ask(t, p, "/v1/webset/network/person", map[string]any{"network": name}), name)
		}
		return shown("later-1"), shown("later-2")
	}
	first, second := come()
	require.False(t, first || second, "people on a list are suppressed later")
	p.muster(t, "erase", "import-drop",
		download(t, map[string]string{"Removed": "ID,Hash,ListType\naaaaaaaaaaa2," + listed(later) + ",Email\n"}))
	eventuallyEvery(t, time.Minute, 250*time.Millisecond, func() (bool, string) {
		first, second = come()
		return first, "a withdrawn row still suppresses its person"
	})
	require.False(t, second)
}

// erasedWithinDeadline requires that an erasure without --now waits for a quarter of --erasure-deadline, and is removed
// from tables, logs and files before its end.
func erasedWithinDeadline(t *testing.T) {
	t.Parallel()
	const limit = 4 * time.Minute
	world := generate(t, 80, 9)
	all := subjects(t, world, 2)
	p := start(t, newDataDir(t), "--no-sample", "--erasure-deadline", limit.String())
	ingestAll(t, p, world)
	for _, s := range all {
		args := []string{"erase", "--timeout", "0"}
		for _, id := range s.identifiers() {
			args = append(args, id[0]+"="+id[1])
		}
		p.muster(t, args...)
	}
	var requests []struct {
		At        time.Time `json:"at"`
		State     string    `json:"state"`
		DeletedAt time.Time `json:"deleted_at"`
	}
	eventuallyEvery(t, limit, time.Second, func() (bool, string) {
		p.musterJSON(t, &requests, "erase", "list", "--json")
		return len(requests) == 2 && requests[0].State == "deleted" && requests[1].State == "deleted",
			fmt.Sprint(requests)
	})
	for _, r := range requests {
		took := r.DeletedAt.Sub(r.At)
		t.Logf("deleted after %s", took.Round(time.Second))
		require.LessOrEqual(t, took, limit)
		require.Greater(t, took, limit/4-20*time.Second, "it waits to batch requests")
	}
	inTables(t, p, all)
	inTopics(t, p, all)
	inFiles(t, p.dataDir, all)
	p.stop(t)
}
