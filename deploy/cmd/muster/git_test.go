package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIngestGit_LastLineNamesTheFlagThatKeepsDroppedCommits(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	commit := func(email string) {
		t.Helper()
		git("-c", "user.name=A", "-c", "user.email="+email, "commit", "-q", "--allow-empty", "-m", "change")
	}
	last := func(text string) string {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		return lines[len(lines)-1]
	}
	git("init", "-q", "-b", "main")
	commit("ane@bro.example")
	commit("ane@bro.example")
	c := cli{t: t, env: map[string]string{"MUSTER_DATA_DIR": filepath.Join(t.TempDir(), "data")}}

	_, errors := c.run(1, "ingest", "git", dir, "--dry-run")
	require.Equal(t,
		"muster: ingest git: nothing was published: 2 commits of 1 author dropped, because no account is known; "+
			"pass --make-accounts to keep them, or --authors FILE", last(errors))
	out, _ := c.run(0, "ingest", "git", dir, "--dry-run", "--make-accounts")
	require.Contains(t, last(out), "total")
	commit("7+bo@users.noreply.codehost.example")
	out, _ = c.run(0, "ingest", "git", dir, "--dry-run")
	require.Equal(t, "2 commits of 1 author dropped, because no account is known; "+
		"pass --full-history --make-accounts to keep them, or --full-history --authors FILE", last(out))

	_, errors = c.run(2, "ingest", "git", t.TempDir(), "--dry-run")
	require.Contains(t, last(errors), "no git repository in")
}

func TestIngestGit_ReportsNoNewCommits(t *testing.T) {
	c := newCLI(t)
	dir := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q"},
		{"-c", "user.name=Ada", "-c", "user.email=ada@mail.example", "commit", "-q", "--allow-empty", "-m", "one"},
	} {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	const nothing = "No new commits since the last run; --full-history reads everything again."
	c.run(1, "ingest", "git", dir)
	out, errors := c.run(0, "ingest", "git", "--make-accounts", dir)
	require.NotContains(t, out, nothing, "nothing was kept before")
	require.Contains(t, errors, "--owner ID:USERNAME --full-history")
	out, _ = c.run(0, "ingest", "git", "--make-accounts", dir)
	require.Contains(t, out, nothing)
	out, _ = c.run(0, "ingest", "git", "--make-accounts", "--full-history", dir)
	require.Contains(t, out, "codehost-commit")
	require.NotContains(t, out, nothing)
}
