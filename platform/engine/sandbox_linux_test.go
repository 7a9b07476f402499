package engine_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"muster/platform/engine"
	"muster/platform/engine/enginetest"
)

// The sandbox is the second line of defense after TestAnalyst_CannotWriteOrReachFilesHostsAndPrograms; it also applies
// to the service user.
func TestSandbox_EngineReadsOnlyItsFiles(t *testing.T) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || abi < 2 {
		return // this kernel has no Landlock, or an old one
	}
	t.Setenv("MUSTER_SECRET_KEY", "topsecret")
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("topsecret\n"), 0o600))
	e, err := enginetest.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	run := func(query string) string {
		t.Helper()
		result, err := ask(t.Context(), e.Addr(), query)
		require.NoError(t, err, query)
		return result
	}
	confined := func() {
		t.Helper()
		for _, path := range []string{
			secret, "/proc/self/root" + secret, "/proc/self/cwd/supervisor.go",
			fmt.Sprintf("/proc/%d/environ", os.Getpid()), fmt.Sprintf("/proc/%d/root%s", os.Getpid(), secret),
			fmt.Sprintf("/proc/%d/cwd/supervisor.go", os.Getpid()),
			fmt.Sprintf("/proc/%d/maps", os.Getpid()), "/etc/shadow", "/root/.bashrc",
		} {
			for _, query := range []string{
				"SELECT file('" + path + "')", "SELECT * FROM file('" + path + "', 'LineAsString')",
			} {
				result, err := ask(t.Context(), e.Addr(), query)
				require.Error(t, err, "%s: %s", query, result)
			}
		}
		environment := run("SELECT file('/proc/self/environ')")
		require.Contains(t, environment, "HOME=")
		require.NotContains(t, environment, "topsecret")
		_, err := ask(t.Context(), e.Addr(),
			"INSERT INTO FUNCTION file('"+filepath.Join(dir, "written")+"', 'CSV', 'a UInt8') SELECT 1")
		require.Error(t, err)
		require.NoFileExists(t, filepath.Join(dir, "written"))
		_, err = ask(t.Context(), e.Addr(), "SELECT * FROM executable('/bin/true', 'TSV', 'a String')")
		require.Error(t, err)
	}
	confined()

	// The engine can use its own files.
	run("CREATE DATABASE d")
	run("CREATE TABLE d.t (a UInt64, s String) ENGINE = MergeTree ORDER BY a PARTITION BY a % 2")
	run("INSERT INTO d.t SELECT number, toString(number) FROM numbers(1000)")
	run("INSERT INTO d.t SELECT number, 'x' FROM numbers(1000)")
	run("OPTIMIZE TABLE d.t FINAL")
	run("ALTER TABLE d.t UPDATE s = 'y' WHERE a = 1 SETTINGS mutations_sync = 2")
	run("ALTER TABLE d.t DETACH PARTITION 1")
	run("ALTER TABLE d.t ATTACH PARTITION 1")
	run("CREATE TABLE d.u AS d.t")
	run("ALTER TABLE d.u REPLACE PARTITION 0 FROM d.t")
	run("ALTER TABLE d.t MOVE PARTITION 1 TO TABLE d.u")
	run("EXCHANGE TABLES d.t AND d.u")
	run("RENAME TABLE d.t TO d.v")
	run("ALTER TABLE d.v FREEZE")
	require.Equal(t, "2000\n", run("SELECT count() FROM d.v"))
	require.Equal(t, "499999\n", run("SELECT max(number) FROM (SELECT number FROM numbers(500000) "+
		"ORDER BY cityHash64(number) "+
		"SETTINGS max_bytes_before_external_sort = 100000, max_bytes_ratio_before_external_sort = 0)"))
	require.Equal(t, "2026-07-01 13:00:00\n",
		run("SELECT toTimeZone(toDateTime('2026-07-01 12:00:00', 'UTC'), 'Europe/Lisbon')"))
	run("DROP TABLE d.u SYNC")

	// Also after a crash.
	require.NoError(t, e.Kill(t.Context()))
	require.Equal(t, "2000\n", run("SELECT count() FROM d.v"))
	confined()
}

// noNewPrivs reports whether a process is sandboxed.
func noNewPrivs(t *testing.T, pid int) bool {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	return strings.Contains(string(status), "NoNewPrivs:\t1\n")
}

// An engine with a link to a directory outside of its own starts without the sandbox.
func TestSandbox_StartsWithoutItIfNecessary(t *testing.T) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || abi < 2 {
		return // this kernel has no Landlock, or an old one
	}
	elsewhere := filepath.Join(t.TempDir(), "metadata")
	require.NoError(t, os.Mkdir(elsewhere, 0o700))
	var metadata string
	var log syncBuffer
	e, err := enginetest.Start(t.Context(), func(c *engine.SupervisorConfig) {
		metadata = filepath.Join(c.Server.Dir, "clickhouse", "metadata")
		require.NoError(t, os.MkdirAll(filepath.Dir(metadata), 0o700))
		require.NoError(t, os.Symlink(elsewhere, metadata))
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	require.False(t, noNewPrivs(t, e.PID()))
	require.Contains(t, log.String(), "started without a sandbox")
	require.Contains(t, log.String(), "ermission denied")

	require.NoError(t, os.Remove(metadata))
	require.NoError(t, os.Rename(elsewhere, metadata))
	require.NoError(t, e.Kill(t.Context()))
	require.True(t, noNewPrivs(t, e.PID()))
}
