package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/schemas/record"
)

// Dry runs do not overwrite it either. The error is reported before anything is read.
func TestGit_DoesNotOverwriteUnknownFile(t *testing.T) {
	r := newRepository(t)
	r.commit("Bob", "bob@x.example", "a.go", "package a")
	authors := filepath.Join(t.TempDir(), "authors.csv")
	const filled = "email,user_id,username\nann@x.example,77,ann\n"
	require.NoError(t, os.WriteFile(authors, []byte(filled), 0o600))
	s, err := ingest.Git(t.Context(), ingest.Config{DryRun: true}, ingest.Deps{},
		ingest.GitConfig{Authors: authors, UnknownAuthors: authors, FullHistory: true}, []string{r.dir})
	require.ErrorContains(t, err, "exists and may have been completed")
	require.Empty(t, s.Run)
	after, err := os.ReadFile(authors)
	require.NoError(t, err)
	require.Equal(t, filled, string(after))
}

func TestGit_WritesUnknownToPipe(t *testing.T) {
	r := newRepository(t)
	r.commit("Bob", "bob@x.example", "a.go", "package a")
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = read.Close() }()
	_, err = ingest.Git(t.Context(), ingest.Config{DryRun: true}, ingest.Deps{},
		ingest.GitConfig{UnknownAuthors: fmt.Sprintf("/dev/fd/%d", write.Fd()), FullHistory: true}, []string{r.dir})
	requireExit(t, ingest.ExitRejected, err)
	require.NoError(t, write.Close())
	list, err := io.ReadAll(read)
	require.NoError(t, err)
	require.Equal(t, "email,user_id,username,name,commits\nbob@x.example,,,Bob,1\n", string(list))
}

// repository is a git repository of a test.
type repository struct {
	t   *testing.T
	dir string
	at  time.Time
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := newRepositoryIn(t, t.TempDir())
	r.git("remote", "add", "origin", "git@codehost.example:Jane/dunes.git")
	return r
}

// newRepositoryIn creates a repository without a remote.
func newRepositoryIn(t *testing.T, dir string) *repository {
	t.Helper()
	r := &repository{t, dir, time.Date(2024, 1, 2, 3, 0, 0, 0, time.UTC)}
	require.NoError(t, os.MkdirAll(dir, 0o700))
	r.git("init", "-q", "-b", "main")
	return r
}

// git runs git in the repository and returns its output.
func (r *repository) git(args ...string) string {
	r.t.Helper()
	return r.gitAs("Tester", "tester@x.example", args...)
}

func (r *repository) gitAs(name, email string, args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", append([]string{"-C", r.dir}, args...)...)
	date := fmt.Sprintf("%d +0100", r.at.Unix())
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME="+name, "GIT_AUTHOR_EMAIL="+email, "GIT_AUTHOR_DATE="+date,
		"GIT_COMMITTER_NAME="+name, "GIT_COMMITTER_EMAIL="+email, "GIT_COMMITTER_DATE="+date)
	out, err := cmd.Output()
	require.NoError(r.t, err, "git %v", args)
	return strings.TrimSpace(string(out))
}

// commit writes and commits a file, one hour after the previous commit, on HEAD or on the given parents.
func (r *repository) commit(name, email, file, text string, parents ...string) string {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(filepath.Join(r.dir, file), []byte(text), 0o600))
	r.git("add", file)
	r.at = r.at.Add(time.Hour)
	if len(parents) == 0 {
		r.gitAs(name, email, "commit", "-q", "-m", "Change "+file)
		return r.git("rev-parse", "HEAD")
	}
	args := []string{"commit-tree", "-m", "Change " + file, r.git("write-tree")}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	h := r.gitAs(name, email, args...)
	r.git("update-ref", "HEAD", h)
	return h
}

const (
	jane = "12+jane@users.noreply.codehost.example"
	kim  = "kim@mail.example"
)

func TestGit_PublishesOnlyNewHistory(t *testing.T) {
	cfg := stateful(t)
	r := newRepository(t)
	r.commit(
		"Jane",
		jane,
		".mailmap",
		"Kim Park <kim@work.example> <kim@mail.example>\nKim Park <kim@work.example> "+
			"<34+kim@users.noreply.codehost.example>\n",
	)
	first := r.commit("K", kim, "a.go", "package a")
	r.commit("Jané", jane, "b.go", "package b")
	second := r.commit("Stranger", "stranger@mail.example", "c.md", "c")

	unknown := filepath.Join(t.TempDir(), "unknown.csv")
	var log bytes.Buffer
	deps := ingest.Deps{Logger: logger(&log)}
	s, err := ingest.Git(t.Context(), cfg, deps, ingest.GitConfig{UnknownAuthors: unknown}, []string{r.dir})
	require.NoError(t, err)
	require.True(t, s.Reconciles(), "%s", s)
	require.True(t, s.Files[0].Complete)
	require.Equal(t, ingest.Counts{Read: 3, Published: 3}, counts(s, record.KindCodehostCommit))
	require.Equal(t, ingest.Counts{Read: 2, Published: 2}, counts(s, record.KindCodehostPerson))
	require.Equal(t, ingest.Counts{Read: 1, Published: 1}, counts(s, record.KindCodehostRepo))
	require.Equal(t, ingest.Counts{Read: 1, Dropped: 1}, counts(s, ingest.SourceObject))
	require.Equal(t, ingest.Unattributed{Commits: 1, Authors: 1, Noted: true}, s.Unattributed)
	require.Equal(
		t,
		"1 commit of 1 author dropped, because no account is known; pass --full-history --make-accounts to keep them, "+
			"or --full-history --authors FILE",
		s.Unattributed.String(),
	)
	require.NotContains(t, log.String(), "stranger@")
	list, err := os.ReadFile(unknown)
	require.NoError(t, err)
	require.Equal(t, "email,user_id,username,name,commits\nstranger@mail.example,,,Stranger,1\n", string(list))

	commits := values(t, cfg.Bus, record.KindCodehostCommit)
	require.JSONEq(
		t,
		`{"user_id":34,"sha":"`+first+`","author_date":"2024-01-02T05:00:00Z","message":"Change a.go","author_name":"K",
		"author_email":"kim@mail.example","author_login":"kim","repo":{"full_name":"Jane/dunes","language":"Go"}}`,
		commits["34/"+first],
	)
	people := values(t, cfg.Bus, record.KindCodehostPerson)
	require.JSONEq(
		t,
		`{"user_id":12,"last_updated":"1970-01-01T00:28:24.175200Z","codehost_username":"jane",`+
			`"full_name":"Jané","names":["Jané","Jane"]}`,
		people["12"],
	)
	require.JSONEq(
		t,
		`{"user_id":34,"last_updated":"1970-01-01T00:28:24.171600Z","codehost_username":"kim","full_name":"Kim `+
			`Park","names":["Kim Park","K"],"emails":["kim@work.example","kim@mail.example"]}`,
		strings.Replace(people["34"], evidence(t, people["34"]), "1970-01-01T00:28:24.171600Z", 1),
	)
	for key, text := range values(t, cfg.Bus, record.KindCodehostRepo) {
		require.True(t, strings.HasPrefix(key, "12/"), key)
		require.Contains(
			t, text,
			`"updated_at":"2024-01-02T07:00:00Z","name":"dunes","full_name":"Jane/dunes",`+
				`"created_at":"2024-01-02T04:00:00Z","language":"Go"`,
		)
	}

	// Nothing is new.
	s, err = ingest.Git(t.Context(), cfg, deps, ingest.GitConfig{}, []string{r.dir})
	require.NoError(t, err)
	require.Zero(t, s.Total())

	// A merged branch from the middle, and a bare copy: only new commits.
	side := r.commit("Jane", jane, "d.go", "package d", first)
	r.commit("Jane", jane, "e.go", "package e", second, side)
	s, err = ingest.Git(t.Context(), cfg, deps, ingest.GitConfig{}, []string{r.dir})
	require.NoError(t, err)
	require.Equal(t, ingest.Counts{Read: 2, Published: 2}, counts(s, record.KindCodehostCommit))
	require.Equal(t, int64(0), counts(s, ingest.SourceObject).Read)
	bare := filepath.Join(t.TempDir(), "copy.git")
	r.git("clone", "-q", "--bare", r.dir, bare)
	authors := write(t, "authors.csv", []byte("email,user_id,username\nstranger@mail.example,56,stranger\n"))
	s, err = ingest.Git(t.Context(), cfg, deps, ingest.GitConfig{Authors: authors, OwnerID: 9, OwnerName: "org"},
		[]string{bare, r.dir})
	require.NoError(t, err)
	require.Equal(t, int64(6), counts(s, record.KindCodehostCommit).Read)
	require.Contains(t, values(t, cfg.Bus, record.KindCodehostCommit), "56/"+second)
	require.Len(t, s.Files, 2)

	// Full history: published records are not republished.
	s, err = ingest.Git(t.Context(), cfg, deps, ingest.GitConfig{FullHistory: true}, []string{r.dir})
	require.NoError(t, err)
	require.Equal(t, int64(5), counts(s, record.KindCodehostCommit).Read)
	require.Zero(t, counts(s, record.KindCodehostPerson).Unfinished)
	require.True(t, s.Reconciles())
}

func stateful(t *testing.T) ingest.Config {
	t.Helper()
	cfg := config(t)
	cfg.StateDir = t.TempDir()
	return cfg
}

func evidence(t *testing.T, text string) string {
	t.Helper()
	var r struct {
		LastUpdated string `json:"last_updated"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &r))
	require.True(t, strings.HasPrefix(r.LastUpdated, "1970-01-01T00:28:24.17"))
	return r.LastUpdated
}

func TestGit_SynthesizesAccounts(t *testing.T) {
	cfg := stateful(t)
	r := newRepository(t)
	h := r.commit("Uma Test", "Uma.Test@mail.example", "a", "a")
	s, err := ingest.Git(t.Context(), cfg, ingest.Deps{}, ingest.GitConfig{MakeAccounts: true}, []string{r.dir})
	require.NoError(t, err)
	require.Equal(t, int64(1), counts(s, record.KindCodehostCommit).Published)
	require.Zero(t, counts(s, record.KindCodehostRepo), "jane's account is unknown")
	for key, text := range values(t, cfg.Bus, record.KindCodehostPerson) {
		require.Contains(t, text, `"emails":["uma.test@mail.example"]`)
		require.Contains(t, values(t, cfg.Bus, record.KindCodehostCommit), key+"/"+h)
	}
}

func TestGit_DroppingAllCommitsFails(t *testing.T) {
	cfg := stateful(t)
	r := newRepository(t)
	r.commit("Ane Bro", "ane@bro.example", "a", "a")
	r.commit("Ane Bro", "Ane@bro.example", "a", "b")
	s, err := ingest.Git(t.Context(), cfg, ingest.Deps{}, ingest.GitConfig{}, []string{r.dir})
	requireExit(t, ingest.ExitRejected, err)
	require.ErrorContains(t, err,
		"2 commits of 1 author dropped, because no account is known; pass --make-accounts to keep them")
	require.True(t, s.Reconciles())
	require.Equal(t, ingest.Counts{Read: 2, Dropped: 2}, s.Total())

	// The history counts as unread, so the flag alone is enough.
	s, err = ingest.Git(t.Context(), cfg, ingest.Deps{}, ingest.GitConfig{MakeAccounts: true}, []string{r.dir})
	require.NoError(t, err)
	require.Equal(t, int64(2), counts(s, record.KindCodehostCommit).Published)
	require.Zero(t, s.Unattributed)
	s, err = ingest.Git(t.Context(), cfg, ingest.Deps{}, ingest.GitConfig{}, []string{r.dir})
	require.NoError(t, err)
	require.Zero(t, s.Total())
}

func TestGit_ReadsDirectoryOfRepositories(t *testing.T) {
	cfg := stateful(t)
	root := t.TempDir()
	one := newRepositoryIn(t, filepath.Join(root, "one"))
	one.commit("Ane Bro", "ane@bro.example", "a", "a")
	one.commit("Ane Bro", "ane@bro.example", "a", "b")
	newRepositoryIn(t, filepath.Join(root, "group", "two")).commit("Bo Lie", "bo@lie.example", "a", "a")
	three := newRepository(t)
	three.commit("Cy Rud", "cy@rud.example", "a", "a")
	three.git("clone", "-q", "--bare", three.dir, filepath.Join(root, "three.git"))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "notes"), 0o700))
	damaged := newRepositoryIn(t, filepath.Join(root, "damaged"))
	require.NoError(t, os.WriteFile(filepath.Join(damaged.dir, ".git", "config"), []byte("[core"), 0o600))

	s, err := ingest.Git(t.Context(), cfg, ingest.Deps{}, ingest.GitConfig{MakeAccounts: true}, []string{root})
	requireExit(t, ingest.ExitFailed, err)
	require.ErrorContains(t, err, "bad config")
	require.Len(t, s.Files, 4)
	require.Equal(t, int64(4), counts(s, record.KindCodehostCommit).Published, "other repositories are read")
	found := map[string]int{}
	for _, text := range values(t, cfg.Bus, record.KindCodehostCommit) {
		var c record.CodehostCommit
		require.NoError(t, json.Unmarshal([]byte(text), &c))
		found[c.AuthorEmail]++
	}
	require.Equal(t, map[string]int{"ane@bro.example": 2, "bo@lie.example": 1, "cy@rud.example": 1}, found)
	require.NoError(t, os.RemoveAll(damaged.dir))
	s, err = ingest.Git(t.Context(), cfg, ingest.Deps{}, ingest.GitConfig{MakeAccounts: true}, []string{root})
	require.NoError(t, err)
	require.Zero(t, s.Total(), "full history was read")
}

func TestGit_InvalidArgumentsPublishNothing(t *testing.T) {
	cfg := stateful(t)
	r := newRepository(t)
	bad := write(t, "authors.csv", []byte("x\n"))
	for name, c := range map[string]struct {
		git  ingest.GitConfig
		dirs []string
		want string
	}{
		"none":    {dirs: nil, want: "no repository given"},
		"absent":  {dirs: []string{filepath.Join(r.dir, "absent")}, want: "no such file"},
		"no repo": {dirs: []string{t.TempDir()}, want: "no git repository in"},
		"authors": {git: ingest.GitConfig{Authors: bad}, dirs: []string{r.dir}, want: "authors.csv: missing column"},
		"owner":   {git: ingest.GitConfig{OwnerName: "x"}, dirs: []string{r.dir}, want: "a positive ID and a name"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := ingest.Git(t.Context(), cfg, ingest.Deps{}, c.git, c.dirs)
			requireExit(t, ingest.ExitFailed, err)
			require.ErrorContains(t, err, c.want)
			require.Zero(t, s)
		})
	}
	// An empty repository has no records.
	s, err := ingest.Git(t.Context(), cfg, ingest.Deps{}, ingest.GitConfig{}, []string{r.dir})
	require.NoError(t, err)
	require.Zero(t, s.Total())
	// An interrupted run records no position.
	r.commit("Jane", jane, "a", "a")
	ctx, cancel := context.WithCancel(t.Context())
	progress := newWatcher()
	go func() { cancel() }()
	_, err = ingest.Git(ctx, cfg, ingest.Deps{Progress: progress}, ingest.GitConfig{}, []string{r.dir})
	if err != nil { // otherwise the run was faster
		s, err = ingest.Git(t.Context(), cfg, ingest.Deps{}, ingest.GitConfig{}, []string{r.dir})
		require.NoError(t, err)
		require.Equal(t, int64(1), counts(s, record.KindCodehostCommit).Read)
	}
}

func TestGit_LongHistoryTakesBoundedMemory(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 5_000
	}
	dir := t.TempDir()
	run := func(in string, args ...string) {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	run("", "init", "-q", "--bare", ".")
	var b strings.Builder
	message := strings.Repeat("Why this was changed, at some length. ", 20)
	for i := range n {
		fmt.Fprintf(
			&b,
			"commit refs/heads/main\nmark :%d\nauthor U%d <%d+u%d@users.noreply.codehost.example> %d +0000\n"+
				"committer U <u@x> %d +0000\ndata %d\n%s\n",
			i+1, i%500, i%500+1, i%500, 1_700_000_000+i, 1_700_000_000+i, len(message), message,
		)
		if i > 0 {
			fmt.Fprintf(&b, "from :%d\n", i)
		}
		b.WriteByte('\n')
	}
	run(b.String(), "fast-import", "--quiet")
	b.Reset()
	cfg := stateful(t)
	var most uint64
	progress := newWatcher()
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapInuse)
			}
		}
	}()
	began := time.Now()
	cfg.StateDir = "" // the deduplication store has its own tests
	s, err := ingest.Git(t.Context(), cfg, ingest.Deps{Progress: progress}, ingest.GitConfig{}, []string{dir})
	close(stop)
	<-done
	require.NoError(t, err)
	require.Equal(t, int64(n), counts(s, record.KindCodehostCommit).Published)
	require.Equal(t, int64(500), counts(s, record.KindCodehostPerson).Published)
	t.Logf("%d commits in %s, at most %d MiB of heap, the embedded broker's included", n,
		time.Since(began).Round(time.Millisecond), most>>20)
}
