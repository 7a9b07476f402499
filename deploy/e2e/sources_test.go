package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
)

// history is a git repository with commits by several authors.
type history struct {
	dir string
	at  time.Time
}

func newHistory(t *testing.T) *history {
	t.Helper()
	h := &history{dir: t.TempDir(), at: time.Date(2025, 3, 4, 5, 0, 0, 0, time.UTC)}
	h.git(t, "init", "-q", "-b", "main")
	h.git(t, "remote", "add", "origin", "https://codehost.example/amara-o/harmattan.git")
	return h
}

func (h *history) git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", h.dir}, args...)...)
	date := fmt.Sprintf("%d +0000", h.at.Unix())
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_DATE="+date,
		"GIT_COMMITTER_DATE="+date)
	out, err := cmd.Output()
	require.NoError(t, err, "git %v", args)
	return strings.TrimSpace(string(out))
}

// commit creates n commits and returns their hashes, newest first.
func (h *history) commit(t *testing.T, name, email string, n int) (hashes []string) {
	t.Helper()
	for i := range n {
		h.at = h.at.Add(time.Minute)
		require.NoError(t,
			os.WriteFile(filepath.Join(h.dir, "main.go"), fmt.Appendf(nil, "package main // %s", h.at), 0o600))
		h.git(t, "add", "main.go")
		h.git(t, "-c", "user.name="+name, "-c", "user.email="+email, "commit", "-q", "-m",
			fmt.Sprintf("Change %d by %s", i, name))
		hashes = append([]string{h.git(t, "rev-parse", "HEAD")}, hashes...)
	}
	return hashes
}

// codehostRecord has the fields of the codehost webset that the test compares.
type codehostRecord struct {
	UserID    int64  `json:"user_id"`
	Username  string `json:"codehost_username"`
	FullName  string `json:"full_name"`
	Followers *int64 `json:"followers"`
	Repos     []struct {
		FullName string `json:"full_name"`
		Language string `json:"language"`
	} `json:"repos"`
	Commits []struct {
		SHA  string `json:"sha"`
		Repo struct {
			FullName string `json:"full_name"`
		} `json:"repo"`
	} `json:"commits"`
}

func codehostPerson(t *testing.T, p *platform, name string) codehostRecord {
	t.Helper()
	a, err := p.api().do(t.Context(), http.MethodGet, "/v1/webset/codehost/person?codehost="+name, nil, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	var r codehostRecord
	require.NoError(t, json.Unmarshal(a.body, &r))
	return r
}

// Records from git, HTTP push, CSV and a mapping are served like records from files.
func TestSources_AreServedAlike(t *testing.T) {
	t.Parallel()
	p := start(t, newDataDir(t), "--no-sample")

	// The authors of a repository with their commits.
	h := newHistory(t)
	amara := h.commit(t, "Amara Okonkwo", "101+amara-o@users.noreply.codehost.example", 5)
	jun := h.commit(t, "박준호", "jun@mail.example", 3)
	unknown := filepath.Join(t.TempDir(), "authors.csv")
	p.muster(t, "ingest", "git", h.dir, "--unattributed-file", unknown)
	p.muster(t, "status", "--wait", "--timeout", "1m")
	r := codehostPerson(t, p, "amara-o")
	require.Equal(t, int64(101), r.UserID)
	require.Equal(t, "Amara Okonkwo", r.FullName)
	require.Len(t, r.Repos, 1)
	require.Equal(t, "amara-o/harmattan", r.Repos[0].FullName)
	require.Equal(t, "Go", r.Repos[0].Language)
	served := func(r codehostRecord) (hashes []string) {
		for _, c := range r.Commits {
			require.Equal(t, "amara-o/harmattan", c.Repo.FullName)
			hashes = append(hashes, c.SHA)
		}
		return hashes
	}
	require.Equal(t, amara, served(r), "newest first")

	// The operator adds a missing author; only that author's records are new.
	list, err := os.ReadFile(unknown)
	require.NoError(t, err)
	require.Contains(t, string(list), "jun@mail.example,,,박준호,3")
	require.NoError(t,
		os.WriteFile(unknown,
			[]byte(strings.Replace(string(list), "jun@mail.example,,,", "jun@mail.example,202,jun-ho,", 1)), 0o600))
	out := p.muster(t, "ingest", "git", h.dir, "--authors", unknown, "--full-history", "--json")
	require.Contains(t, out, `"unchanged": 5`, "published records are not published again")
	more := h.commit(t, "Amara Okonkwo", "101+amara-o@users.noreply.codehost.example", 1)
	out = p.muster(t, "ingest", "git", h.dir, "--json")
	require.Contains(t, out, `"read": 1,`)
	p.muster(t, "status", "--wait", "--timeout", "1m")
	require.Equal(t, jun, served(codehostPerson(t, p, "jun-ho")))
	require.Equal(t, append(more, amara...), served(codehostPerson(t, p, "amara-o")))

	// A crawled profile, here from HTTP push, replaces one derived from commits, even if it is older.
	push := func(kind, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.IngestURL+"/ingest/v1/"+kind,
			strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+p.OperatorToken)
		req.Header.Set("Content-Type", "application/x-ndjson")
		res, err := newClient().Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		raw, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(raw)
	}
	status, text := push("codehost-person",
		`{"user_id":101,"codehost_username":"amara-o","last_updated":"2020-01-01","full_name":"A. Okonkwo",`+
			`"followers":7}`+"\nnonsense\n")
	require.Equal(t, http.StatusOK, status, text)
	require.Contains(t, text, `"acknowledged":{"lines":2,`)
	require.Contains(t, text, `"code":"syntax"`)

	// CSV, and a mapping.
	dir := t.TempDir()
	table := filepath.Join(dir, "people.csv")
	require.NoError(t,
		os.WriteFile(table,
			[]byte("profile_id,username,last_updated,full_name,location.city,connections\np1,csv-person,2026-01-01,Of A Table,Lagos,12\n"), 0o600))
	p.muster(t, "ingest", "network-person", table)
	dump := filepath.Join(dir, "dump.ndjson")
	require.NoError(t,
		os.WriteFile(dump,
			[]byte(`{"login":"kim","id":303,"type":"User","name":"Kim","followers":3,`+
				`"created_at":"2020-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z"}`+"\n"), 0o600))
	p.muster(t, "ingest", "--map", "codehost-rest", dump)
	p.muster(t, "status", "--wait", "--timeout", "1m")

	r = codehostPerson(t, p, "amara-o")
	require.Equal(t, "A. Okonkwo", r.FullName)
	require.EqualValues(t, 7, *r.Followers)
	require.Len(t, r.Commits, 6)
	require.Equal(t, "Kim", codehostPerson(t, p, "kim").FullName)
	a, err := p.api().do(t.Context(), http.MethodGet, "/v1/webset/network/person?network=csv-person", nil, nil)
	require.NoError(t, err)
	require.Contains(t, string(a.body), `"city":"Lagos"`)
	require.Contains(t, string(a.body), `"connections":12`)
	p.stop(t)
}
