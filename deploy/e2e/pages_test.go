package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/deploy/internal/instance"
)

// docPage is a documentation page whose commands are run.
type docPage struct {
	t      *testing.T
	dir    string
	blocks []string
}

// openPage reads the sh blocks of a page, to be run in a separate directory.
func openPage(t *testing.T, name string) *docPage {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "docs", name))
	require.NoError(t, err)
	p := &docPage{t: t, dir: t.TempDir()}
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(raw), -1) {
		p.blocks = append(p.blocks, m[1])
	}
	// The program name runs the binary on free ports.
	require.NoError(t, os.Mkdir(filepath.Join(p.dir, "bin"), 0o700))
	script := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = up ]; then shift\n"+
		"exec %[1]s up --api-addr 127.0.0.1:0 --ingest-addr 127.0.0.1:0 --admin-addr 127.0.0.1:0 --clickhouse-addr "+
		"127.0.0.1:0 --kafka-addr 127.0.0.1:0 \"$@\"\nfi\nexec %[1]s \"$@\"\n", binary)
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "bin", "muster"), []byte(script), 0o700))
	return p
}

// next runs the next block of the page.
func (p *docPage) next() string {
	p.t.Helper()
	require.NotEmpty(p.t, p.blocks)
	block := p.blocks[0]
	p.blocks = p.blocks[1:]
	ctx, cancel := context.WithTimeout(p.t.Context(), startTimeout)
	defer cancel()
	out, err := os.CreateTemp(p.dir, "output-*") // a file, since background processes would keep a pipe open
	require.NoError(p.t, err)
	defer func() { _ = out.Close() }()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", block)
	cmd.Dir = p.dir
	cmd.Env = append(environment(), "PATH="+filepath.Join(p.dir, "bin")+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = out, out
	runErr := cmd.Run()
	text, err := os.ReadFile(out.Name())
	require.NoError(p.t, err)
	log, _ := os.ReadFile(filepath.Join(p.dir, "muster.log"))
	require.NoError(p.t, runErr, "%s\n%s\n%s", block, text, lastLines(string(log), 20))
	return string(text)
}

// running returns the instance that a block has started.
func (p *docPage) running(dataDir string) *platform {
	p.t.Helper()
	dir := filepath.Join(p.dir, dataDir)
	raw, err := os.ReadFile(filepath.Join(dir, "lock"))
	require.NoError(p.t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	require.NoError(p.t, err)
	p.t.Cleanup(func() {
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			p.t.Logf("killed %d", pid)
		}
	})
	in, err := instance.Read(dir)
	require.NoError(p.t, err)
	return &platform{Instance: in, dataDir: dir}
}

// isFound reports whether enrichment finds an account of the code host.
func isFound(t *testing.T, p *platform, username string) bool {
	t.Helper()
	return strings.Contains(ask(t, p, "/v1/person/enrich", map[string]any{"codehost": username}),
		`"websets_matched":["codehost"]`)
}

// People who were erased after the backup stay erased, with erasures from the old directory or from a file.
func TestBackupPage(t *testing.T) {
	t.Parallel()
	pg := openPage(t, "backup.md")
	first := start(t, filepath.Join(pg.dir, ".muster"), "--sample", "40")
	usernames := strings.Fields(first.muster(t, "sql", "--format", "tsv",
		"SELECT codehost_username FROM muster.codehost_people FINAL WHERE NOT deleted AND type = 'User' ORDER BY "+
			"user_id LIMIT 2"))
	usernames = usernames[len(usernames)-2:]
	stays, goes := usernames[0], usernames[1]
	require.True(t, isFound(t, first, stays))
	require.True(t, isFound(t, first, goes))

	require.Contains(t, pg.next(), "complete: ")
	p := pg.running(".muster")
	require.Equal(t, first.APIKey, p.APIKey)

	p.muster(t, "erase", "codehost_username="+goes)
	later := filepath.Join(t.TempDir(), "later.ndjson")
	require.NoError(t,
		os.WriteFile(later, []byte(`{"profile_id":"later1","username":"came-later","last_updated":"2026-11-20"}`+"\n"),
			0o600))
	p.muster(t, "ingest", "network-person", later)
	p.muster(t, "status", "--wait")
	eventually(t, time.Minute, func() (bool, string) { return !isFound(t, p, goes), "the erased person is shown" })
	require.Regexp(t, `erasures.ndjson: [1-9]`, pg.next())

	check := func(p *platform) {
		t.Helper()
		require.True(t, isFound(t, p, stays))
		require.False(t, isFound(t, p, goes), "a backup restored an erased person")
		require.NotContains(t,
			ask(t, p, "/v1/person/enrich",
				map[string]any{"network_username": "came-later", "websets": []string{"network"}}), "came-later",
			"the directory is from before the backup")
		eventuallyEvery(t, time.Minute, 250*time.Millisecond, func() (bool, string) {
			n := p.muster(t, "sql", "--format", "tsv",
				"SELECT count() FROM muster.codehost_people WHERE codehost_username = '"+goes+"'")
			return strings.HasSuffix(strings.TrimSpace(n), "0"), "rows of the erased person remain: " + n
		})
	}
	restored := pg.next()
	require.Regexp(t, `[1-9]\d* erasures imported`, restored)
	require.Regexp(t, `kept /\S*/\.muster\.before-`, restored)
	p = pg.running(".muster")
	check(p)
	require.NoError(t, syscall.Kill(p.PID, syscall.SIGTERM))

	require.Regexp(t, `[1-9]\d* erasures imported`, pg.next())
	require.Empty(t, pg.blocks)
	elsewhere := start(t, filepath.Join(pg.dir, "restored"), "--no-sample")
	check(elsewhere)

	// Incomplete archives, and restores without the erasures since the backup, are rejected, and change nothing.
	archive := filepath.Join(pg.dir, "backup.tar.zst")
	raw, err := os.ReadFile(archive)
	require.NoError(t, err)
	half := filepath.Join(t.TempDir(), "half.tar.zst")
	require.NoError(t, os.WriteFile(half, raw[:len(raw)/2], 0o600))
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	for name, c := range map[string]struct {
		dir  string
		args []string
		want string
	}{
		"no erasures": {nowhere, []string{"backup", "restore", archive}, "--no-erasures"},
		"truncated":   {nowhere, []string{"backup", "restore", half, "--no-erasures"}, "archive"},
		"running": {elsewhere.dataDir,
			[]string{"backup", "create", filepath.Join(t.TempDir(), "x"), "--wait", "1ms"}, "in use by another muster"},
		"file exists": {filepath.Join(pg.dir, ".muster"), []string{"backup", "create", archive}, "already exists"},
		"no data":     {nowhere, []string{"backup", "create", filepath.Join(t.TempDir(), "y")}, "nowhere"},
	} {
		got, err := muster(t.Context(), c.dir, c.args...)
		require.NoError(t, err)
		require.Equal(t, 2, got.status, name)
		require.Contains(t, got.errors, c.want, name)
	}
	require.NoDirExists(t, nowhere)

	// An instance that was started on an empty disk has no erasures.
	fresh := start(t, filepath.Join(pg.dir, "fresh"), "--no-sample")
	got, err := muster(t.Context(), fresh.dataDir, "backup", "erasures", filepath.Join(pg.dir, "erasures.ndjson"))
	require.NoError(t, err)
	require.Equal(t, 2, got.status)
	require.Contains(t, got.errors, "unknown to this instance")
	fresh.muster(t, "stop")
	got, err = muster(t.Context(), fresh.dataDir, "backup", "restore", filepath.Join(pg.dir, "backup.tar.zst"))
	require.NoError(t, err)
	require.Equal(t, 2, got.status)
	require.Contains(t, got.errors, "does not continue the backed-up one")
}

// The upgrade and the way back work.
func TestUpgradePage(t *testing.T) {
	t.Parallel()
	pg := openPage(t, "upgrade.md")
	start(t, filepath.Join(pg.dir, ".muster"), "--sample", "20")
	out := pg.next()
	require.Contains(t, out, "0 of ")
	require.Contains(t, out, "projector")
	pg.running(".muster")
	require.Contains(t, pg.next(), "restored .muster as of ")
	require.Empty(t, pg.blocks)
}
