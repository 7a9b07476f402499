package main

import (
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/deploy/internal/instance"
	"muster/deploy/internal/standalone"
	"muster/platform/broker"
	"muster/platform/bus"
	"muster/platform/engine"
)

// dataFolder returns a data directory with a file, and an archive of it.
func dataFolder(t *testing.T) (c cli, dir, archive string) {
	t.Helper()
	base := t.TempDir()
	dir, archive = filepath.Join(base, "data"), filepath.Join(base, "archive")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "clickhouse"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "clickhouse", "part"), []byte("packed"), 0o600))
	c = cli{t: t, env: map[string]string{"MUSTER_DATA_DIR": dir, "MUSTER_SECRET_KEY": strings.Repeat("s", 64),
		"MUSTER_ENGINE_PASSWORD": "p"}}
	c.run(0, "backup", "create", archive)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "clickhouse", "part"), []byte("changed"), 0o600))
	return c, dir, archive
}

// The data directory may be a mount point or a symbolic link.
func TestRestore_KeepsTheDataDirectoryInPlace(t *testing.T) {
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
		require.Contains(t, []string{"clickhouse", "lock"}, e.Name(), "files left by a failed restore")
	}
	_, errors := c.run(2, "--data-dir", link, "backup", "restore", archive)
	require.Contains(t, errors, "--no-erasures", "an empty disk has no erasures")

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
	require.Contains(t, errors, "broken symbolic link")
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestRestore_RemovesACreatedDirectoryOnlyIfItStaysEmpty(t *testing.T) {
	c, _, archive := dataFolder(t)
	dir := filepath.Join(t.TempDir(), "new")
	c.run(2, "--data-dir", dir, "backup", "restore", archive+".none", "--no-erasures")
	require.NoDirExists(t, dir)

	got := run([]string{"--data-dir", dir, "backup", "restore", archive, "--no-erasures"},
		streams{in: strings.NewReader(""), out: fullDisk{}, err: io.Discard},
		func(name string) string { return c.env[name] })
	require.Equal(t, 2, got, "a failed write to standard output is an error")
	part, err := os.ReadFile(filepath.Join(dir, "clickhouse", "part"))
	require.NoError(t, err)
	require.Equal(t, "packed", string(part))
}

func TestBackup_WaitsForTheEngine(t *testing.T) {
	c, dir, archive := dataFolder(t)
	unlock, err := engine.Lock(t.Context(), filepath.Join(dir, "clickhouse"))
	require.NoError(t, err)
	_, errors := c.run(2, "backup", "create", archive+".2", "--wait", "1ms")
	require.Contains(t, errors, "the engine of the data directory")
	require.NoFileExists(t, archive+".2")
	unlock()
	c.run(0, "backup", "create", archive+".2")

	release, err := instance.Lock(dir)
	require.NoError(t, err)
	defer release()
	_, errors = c.run(2, "engine", "--clickhouse-addr", "127.0.0.1:0")
	require.Contains(t, errors, instance.ErrInUse.Error())
}

func TestBackupCreate_RejectsAnArchiveInTheDataDirectory(t *testing.T) {
	c, dir, archive := dataFolder(t)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(filepath.Join(dir, "clickhouse"), link))
	for _, file := range []string{filepath.Join(dir, "a"), filepath.Join(link, "a"),
		filepath.Join(dir, "..", filepath.Base(dir), "a")} {
		_, errors := c.run(2, "backup", "create", file)
		require.Contains(t, errors, "is in the data directory")
	}
	c.run(0, "backup", "create", dir+".2")
	c.run(0, "backup", "verify", archive)
	t.Chdir(link) // another name of the directory
	_, errors := c.run(2, "backup", "create", "a")
	require.Contains(t, errors, "is in the data directory")
}

func TestBackupCreate_ReportsExternalStores(t *testing.T) {
	c, dir, archive := dataFolder(t)
	for variable, what := range map[string]string{"KAFKA_BROKERS": "topics", "CLICKHOUSE_DSN": "tables"} {
		file := archive + what
		_, errors := c.with(variable, "server:1").run(1, "backup", "create", file)
		require.Contains(t, errors, "the archive has no "+what+":")
		c.run(0, "backup", "verify", file)
	}
	require.NoError(t, instance.Write(dir, instance.Instance{Kafka: "server:1"}))
	_, errors := c.run(1, "backup", "create", archive+".ran")
	require.Contains(t, errors, "the archive has no topics:", "an instance ran here without leaving a log")
}

// withEmbeddedBroker runs do with the broker of a data directory, without a password.
func withEmbeddedBroker(t *testing.T, dir string, do func(cfg bus.Config)) {
	t.Helper()
	b, err := broker.Start(t.Context(), broker.Config{DataDir: filepath.Join(dir, "kafka")})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	do(bus.Config{Brokers: b.Addrs()})
}

// served returns a cli for a data directory that an instance without erasures has served, and runs commands meanwhile.
func served(t *testing.T, dir string, commands ...[]string) cli {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	c := cli{t: t, env: map[string]string{"MUSTER_DATA_DIR": dir, "MUSTER_SECRET_KEY": strings.Repeat("s", 64)}}
	withEmbeddedBroker(t, dir, func(cfg bus.Config) {
		for _, args := range commands {
			c.with("KAFKA_BROKERS", cfg.Brokers[0]).run(0, args...)
		}
		require.NoError(t, standalone.EnsureTopics(t.Context(), cfg, 0, slog.New(slog.DiscardHandler)))
	})
	return c
}

// An instance that was started on an empty disk has the same root secret, but lacks the erasures; so has an older state
// of the same directory.
func TestRestore_AcceptsOnlyASuccessorOfTheBackup(t *testing.T) {
	base := t.TempDir()
	dir, early, late := filepath.Join(base, "data"), filepath.Join(base, "early"), filepath.Join(base, "late")
	served(t, dir).run(0, "backup", "create", early)
	served(t, dir, []string{"erase", "--timeout", "0", "user_id=1"}).run(0, "backup", "create", late)
	c := served(t, dir, []string{"erase", "--timeout", "0", "user_id=2"}, []string{"erase", "withdraw", "user_id=1"})
	for _, archive := range []string{late, early, late} {
		out, _ := c.run(0, "backup", "restore", archive)
		require.Regexp(t, `[1-9]\d* erasures imported`, out)
	}

	fresh := served(t, filepath.Join(base, "fresh"))
	asked := served(t, filepath.Join(base, "asked"), []string{"erase", "--timeout", "0", "user_id=1"})
	refused := func(c cli, archive string) {
		t.Helper()
		_, errors := c.run(2, "backup", "restore", archive)
		require.Contains(t, errors, "does not continue the backed-up one")
		require.Contains(t, errors, "--no-erasures")
	}
	refused(fresh, early)
	refused(fresh, late)
	refused(asked, late)
	fresh.run(0, "backup", "restore", early, "--no-erasures")
	refused(fresh, late)
}

func TestRestore_ListsRegainedAccess(t *testing.T) {
	base := t.TempDir()
	dir, archive := filepath.Join(base, "data"), filepath.Join(base, "archive")
	c := served(t, dir)
	withInstance := func(do func(c cli)) {
		t.Helper()
		withEmbeddedBroker(t, dir, func(cfg bus.Config) { do(c.with("KAFKA_BROKERS", cfg.Brokers[0])) })
	}
	var organization, left, key, rotated string
	withInstance(func(c cli) {
		for name, id := range map[string]*string{"Acme": &organization, "Left": &left} {
			out, _ := c.run(0, "account", "create", name, "--json")
			*id = parsed[accountView](t, out).OrganizationID
		}
		out, _ := c.run(0, "account", "key", "create", organization)
		key = strings.Fields(out)[1][len("mk_live_"):][:8]
		out, _ = c.run(0, "account", "key", "create", organization)
		rotated = strings.Fields(out)[1][len("mk_live_"):][:8]
		c.run(0, "account", "key", "create", organization)
	})
	c.run(0, "backup", "create", archive)
	withInstance(func(c cli) {
		c.run(0, "account", "key", "revoke", key)
		// The old key would have expired in an hour. After the restore it does not, and the new key is lost.
		c.run(0, "account", "key", "rotate", rotated, "--grace", "1h")
		c.run(0, "account", "deactivate", left)
	})
	out, _ := c.run(0, "backup", "restore", archive)
	_, said, _ := strings.Cut(out, "rotated since.\n")
	require.Equal(t,
		"  muster account key revoke "+key+"\n  muster account key rotate "+rotated+
			"\n  muster account deactivate "+left+"\n", said)
	withInstance(func(c cli) {
		for line := range strings.Lines(said) {
			c.run(0, strings.Fields(line)[1:]...)
		}
	})
}

func TestRestore_RepairsALogThatLostMessages(t *testing.T) {
	base := t.TempDir()
	dir, archive, erasures := filepath.Join(base, "data"), filepath.Join(base, "archive"),
		filepath.Join(base, "erasures")
	served(t, dir).run(0, "backup", "create", archive)
	c := served(t, dir, []string{"account", "create", "Acme"}, []string{"erase", "--timeout", "0", "user_id=1"},
		[]string{"backup", "erasures", erasures})
	spoil := func(topic string) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(dir, "kafka", "log", "partitions", topic+"-*", "*.dat"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, f := range files {
			require.NoError(t, os.Truncate(f, 0))
		}
	}
	spoil("muster.event.account.v1")
	for range 2 { // reading does not change the log
		_, err := broker.Start(t.Context(), broker.Config{DataDir: filepath.Join(dir, "kafka")})
		require.ErrorContains(t, err, "muster.event.account.v1")
		_, errors := c.run(2, "backup", "restore", archive+".none")
		require.NotContains(t, errors, "lost messages")
	}
	out, _ := c.run(0, "backup", "restore", archive)
	require.Regexp(t, `[1-9]\d* erasures imported`, out)
	withEmbeddedBroker(t, dir, func(bus.Config) {})

	spoil("muster.event.erasure.v1")
	_, errors := c.run(2, "backup", "restore", archive)
	require.Contains(t, errors, "muster.event.erasure.v1")
	require.Contains(t, errors, "--erasures")
	out, _ = c.run(0, "backup", "restore", archive, "--erasures", erasures)
	require.Regexp(t, `[1-9]\d* erasures imported`, out)
	withEmbeddedBroker(t, dir, func(bus.Config) {})
}

// The file may be the only copy of the erasures.
func TestBackupErasures_DoesNotOverwriteUnknownErasures(t *testing.T) {
	base := t.TempDir()
	file := filepath.Join(base, "erasures.ndjson")
	write := []string{"backup", "erasures", file}
	lost := filepath.Join(base, "lost")
	served(t, lost, write)
	served(t, lost, []string{"erase", "--timeout", "0", "user_id=1", "user_id=2"}, write,
		[]string{"erase", "withdraw", "user_id=1"}, write)
	before, err := os.ReadFile(file)
	require.NoError(t, err)

	fresh := filepath.Join(base, "fresh")
	refused := func(want string) {
		t.Helper()
		withEmbeddedBroker(t, fresh, func(cfg bus.Config) {
			_, errors := served(t, filepath.Join(base, "none")).with("KAFKA_BROKERS", cfg.Brokers[0]).run(2, write...)
			require.Contains(t, errors, want)
		})
		after, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(before), string(after))
	}
	refused("has 2 erasures unknown to this instance")
	served(t, fresh, []string{"erase", "--timeout", "0", "user_id=2"})
	refused("has 1 erasures unknown to this instance") // the withdrawal

	before = []byte("a diary\n")
	require.NoError(t, os.WriteFile(file, before, 0o600))
	refused("is not a file of `muster backup erasures`")
}

// The process in the lock file may have exited, and another process may have its ID.
func TestStop_SignalsOnlyTheLockOwner(t *testing.T) {
	dir := t.TempDir()
	c := cli{t: t, env: map[string]string{"MUSTER_DATA_DIR": dir}}
	out, _ := c.run(0, "stop")
	require.Contains(t, out, "no process serves")
	lock := filepath.Join(dir, "lock")
	open, err := os.Create(lock)
	require.NoError(t, err)
	other := exec.Command("sleep", "600")
	other.ExtraFiles = []*os.File{open} // as the lock owner has it
	require.NoError(t, other.Start())
	require.NoError(t, open.Close())
	t.Cleanup(func() { _ = other.Process.Kill() })
	require.NoError(t, os.WriteFile(lock, []byte(strconv.Itoa(other.Process.Pid)+"\n"), 0o600))
	out, _ = c.run(0, "stop")
	require.Contains(t, out, "no process serves")
	require.NoError(t, other.Process.Signal(syscall.Signal(0)), "still runs")

	release, err := instance.Lock(dir)
	require.NoError(t, err)
	pid, work, err := instance.LockOwner(dir)
	require.NoError(t, err)
	require.Empty(t, work)
	require.Equal(t, os.Getpid(), pid)
	// The owner gets the signal, and stop waits for it.
	require.NoError(t, os.WriteFile(lock, []byte(strconv.Itoa(other.Process.Pid)+"\n"), 0o600))
	_, errors := c.run(2, "stop", "--wait", "1ms")
	require.Contains(t, errors, "is still running")
	require.Error(t, other.Wait(), "ended by a signal")
	release()
	c.run(0, "stop")

	// Other work is not interrupted: a stopped backup would be incomplete.
	release, err = lockDataDir(t.Context(), dir, "muster backup restore", time.Minute)
	require.NoError(t, err)
	defer release()
	_, errors = c.run(2, "stop")
	require.Contains(t, errors, "process "+strconv.Itoa(os.Getpid())+" (muster backup restore) has locked it")
	_, errors = c.run(2, "backup", "create", filepath.Join(t.TempDir(), "a"), "--wait", "1ms")
	require.Contains(t, errors, ", muster backup restore)")
}
