package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/deploy/instance"
	"muster/deploy/standalone"
	"muster/platform/engine"
)

// dataFolder is one with a file, and an archive of it.
func dataFolder(t *testing.T) (c cli, dir, archive string) {
	t.Helper()
	base := t.TempDir()
	dir, archive = filepath.Join(base, "data"), filepath.Join(base, "archive")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "clickhouse"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "clickhouse", "part"), []byte("packed"), 0o600))
	c = cli{t: t, env: map[string]string{"MUSTER_DATA_DIR": dir, "MUSTER_SECRET_KEY": strings.Repeat("s", 64), "MUSTER_ENGINE_PASSWORD": "p"}}
	c.run(0, "backup", "create", archive)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "clickhouse", "part"), []byte("changed"), 0o600))
	return c, dir, archive
}

// A restore leaves the data folder where it is, which may be a disk of its own or
// behind a link.
func TestRestoreKeepsTheFolder(t *testing.T) {
	c, dir, archive := dataFolder(t)
	before, err := os.Stat(dir)
	require.NoError(t, err)
	raw, err := os.ReadFile(archive)
	require.NoError(t, err)
	half := archive + ".half"
	require.NoError(t, os.WriteFile(half, raw[:len(raw)/2], 0o600))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	beside := func() []string {
		paths, err := filepath.Glob(filepath.Dir(dir) + "/*")
		require.NoError(t, err)
		return paths
	}
	had := beside()

	c.run(2, "--data-dir", link, "backup", "restore", half, "--no-erasures")
	require.Equal(t, had, beside())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.Contains(t, []string{"clickhouse", "lock"}, e.Name(), "a restore that failed leaves nothing")
	}
	_, errors := c.run(2, "--data-dir", link, "backup", "restore", archive)
	require.Contains(t, errors, "--no-erasures", "an empty disk knows of no erasures")

	out, _ := c.run(0, "--data-dir", link, "backup", "restore", archive, "--no-erasures")
	got, err := os.ReadFile(filepath.Join(dir, "clickhouse", "part"))
	require.NoError(t, err)
	require.Equal(t, "packed", string(got))
	after, err := os.Stat(dir)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)
	kept, err := filepath.Glob(dir + ".before-*/clickhouse/part")
	require.NoError(t, err)
	require.Len(t, kept, 1)
	require.Contains(t, out, "kept "+dir+".before-")
	got, err = os.ReadFile(kept[0])
	require.NoError(t, err)
	require.Equal(t, "changed", string(got))

	nothing := filepath.Join(t.TempDir(), "nothing")
	require.NoError(t, os.Symlink(filepath.Join(t.TempDir(), "gone"), nothing))
	_, errors = c.run(2, "--data-dir", nothing, "backup", "restore", archive, "--no-erasures")
	require.Contains(t, errors, "leads to nothing")
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A folder that a restore has made goes only with a restore that has put nothing
// into it.
func TestRestoreIntoNothing(t *testing.T) {
	c, _, archive := dataFolder(t)
	dir := filepath.Join(t.TempDir(), "new")
	c.run(2, "--data-dir", dir, "backup", "restore", archive+".none", "--no-erasures")
	require.NoDirExists(t, dir)

	got := run([]string{"--data-dir", dir, "backup", "restore", archive, "--no-erasures"},
		streams{in: strings.NewReader(""), out: fullDisk{}, err: io.Discard}, func(name string) string { return c.env[name] })
	require.Equal(t, 2, got, "what could not be said is an error")
	part, err := os.ReadFile(filepath.Join(dir, "clickhouse", "part"))
	require.NoError(t, err)
	require.Equal(t, "packed", string(part))
}

// What an engine serves is neither packed nor replaced, whoever runs it.
func TestBackupOfAServedEngine(t *testing.T) {
	c, dir, archive := dataFolder(t)
	unlock, err := engine.Lock(t.Context(), filepath.Join(dir, "clickhouse"))
	require.NoError(t, err)
	_, errors := c.run(2, "backup", "create", archive+".2", "--wait", "1ms")
	require.Contains(t, errors, "the engine of the data folder")
	require.NoFileExists(t, archive+".2")
	unlock()
	c.run(0, "backup", "create", archive+".2")

	release, err := standalone.Lock(dir)
	require.NoError(t, err)
	defer release()
	_, errors = c.run(2, "engine", "--clickhouse-addr", "127.0.0.1:0")
	require.Contains(t, errors, standalone.ErrInUse.Error())
}

// What is on servers of one's own is in no archive, and that is told.
func TestBackupWithoutServers(t *testing.T) {
	c, dir, archive := dataFolder(t)
	for variable, what := range map[string]string{"KAFKA_BROKERS": "topics", "CLICKHOUSE_DSN": "tables"} {
		file := archive + what
		_, errors := c.with(variable, "server:1").run(1, "backup", "create", file)
		require.Contains(t, errors, "the archive has no "+what+":")
		c.run(0, "backup", "verify", file)
	}
	require.NoError(t, instance.Write(dir, instance.Instance{Kafka: "server:1"}))
	_, errors := c.run(1, "backup", "create", archive+".ran")
	require.Contains(t, errors, "the archive has no topics:", "it ran here, and left no log")
}

// The lock's file names a process that may have ended, and another one may have its number.
func TestStop(t *testing.T) {
	dir := t.TempDir()
	c := cli{t: t, env: map[string]string{"MUSTER_DATA_DIR": dir}}
	out, _ := c.run(0, "stop")
	require.Contains(t, out, "nothing serves from")
	lock := filepath.Join(dir, "lock")
	open, err := os.Create(lock)
	require.NoError(t, err)
	other := exec.Command("sleep", "600")
	other.ExtraFiles = []*os.File{open} // as the holder has it
	require.NoError(t, other.Start())
	require.NoError(t, open.Close())
	t.Cleanup(func() { _ = other.Process.Kill() })
	require.NoError(t, os.WriteFile(lock, []byte(strconv.Itoa(other.Process.Pid)+"\n"), 0o600))
	out, _ = c.run(0, "stop")
	require.Contains(t, out, "nothing serves from")
	require.True(t, instance.Alive(other.Process.Pid))

	release, err := standalone.Lock(dir)
	require.NoError(t, err)
	pid, err := standalone.Holder(dir)
	require.NoError(t, err)
	require.Equal(t, os.Getpid(), pid)
	// It is asked to stop, and waited for.
	require.NoError(t, os.WriteFile(lock, []byte(strconv.Itoa(other.Process.Pid)+"\n"), 0o600))
	_, errors := c.run(2, "stop", "--wait", "1ms")
	require.Contains(t, errors, "still runs")
	require.Error(t, other.Wait(), "ended by a signal")
	release()
	c.run(0, "stop")
}
