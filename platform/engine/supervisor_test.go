package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"

	"muster/platform/engine"
	"muster/platform/engine/enginetest"
)

// ask sends a query as the service user.
func ask(ctx context.Context, addr, query string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/", strings.NewReader(query))
	if err != nil {
		return "", err
	}
	req.SetBasicAuth(enginetest.User, enginetest.Password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

func TestKill_KeepsAcknowledgedRows(t *testing.T) {
	e, err := enginetest.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	addr := e.Addr()
	_, err = ask(t.Context(), addr, "CREATE DATABASE d")
	require.NoError(t, err)
	_, err = ask(t.Context(), addr, "CREATE TABLE d.t (k UInt64) ENGINE = MergeTree ORDER BY k")
	require.NoError(t, err)

	var acknowledged sync.Map
	var count atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			conn := openDSN(t, e.DSN("d"))
			for i := 0; ctx.Err() == nil; i++ {
				key := uint64(w*1_000_000 + i)
				batch, err := conn.PrepareBatch(ctx, "INSERT INTO t")
				if err != nil {
					continue
				}
				if batch.Append(key) == nil && batch.Send() == nil {
					acknowledged.Store(key, true)
					count.Add(1)
				}
			}
		})
	}
	for round := range int64(3) {
		target := (round + 1) * 40
		waitFor(t, func() bool { return count.Load() >= target })
		before := e.PID()
		restarted, cancelRestarted := context.WithTimeout(t.Context(), 30*time.Second)
		require.NoError(t, e.Kill(restarted))
		cancelRestarted()
		require.NotEqual(t, before, e.PID())
		require.Equal(t, addr, e.Addr(), "the address is the same after a restart")
	}
	cancel()
	writers.Wait()
	conn := openDSN(t, e.DSN("d"))
	var stored []struct {
		K uint64 `ch:"k"`
	}
	require.NoError(t, conn.Select(t.Context(), &stored, "SELECT k FROM t"))
	seen := make(map[uint64]int)
	for _, row := range stored {
		seen[row.K]++
	}
	acknowledged.Range(func(key, _ any) bool {
		require.Equal(t, 1, seen[key.(uint64)], "key %d", key)
		return true
	})
}

func TestStop_LetsRunningStatementFinish(t *testing.T) {
	e, err := enginetest.Start(t.Context(), func(c *engine.SupervisorConfig) { c.Server.Grace = 10 * time.Second })
	require.NoError(t, err)
	pid := e.PID()
	result := make(chan error, 1)
	go func() {
		body, err := ask(context.WithoutCancel(t.Context()), e.Addr(),
			"SELECT sleepEachRow(0.5) FROM numbers(2) SETTINGS max_block_size = 1 FORMAT Null")
		if err == nil && body != "" {
			err = fmt.Errorf("got %q", body)
		}
		result <- err
	}()
	waitFor(t, func() bool {
		body, err := ask(t.Context(), e.Addr(), "SELECT count() FROM system.processes WHERE query LIKE '%sleepEach%'")
		return err == nil && body == "2\n"
	})
	started := time.Now()
	require.NoError(t, e.Close())
	require.NoError(t, <-result)
	require.Less(t, time.Since(started), 10*time.Second)
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	_, err = ask(t.Context(), e.Addr(), "SELECT 1")
	require.Error(t, err)
}

func TestStop_KillsStatementAfterGrace(t *testing.T) {
	e, err := enginetest.Start(t.Context(),
		func(c *engine.SupervisorConfig) { c.Server.Grace = 200 * time.Millisecond })
	require.NoError(t, err)
	result := make(chan error, 1)
	go func() {
		_, err := ask(context.WithoutCancel(t.Context()), e.Addr(),
			"SELECT sum(sipHash64(number)) FROM numbers(1000000000000)")
		result <- err
	}()
	waitFor(t, func() bool {
		body, err := ask(t.Context(), e.Addr(), "SELECT count() FROM system.processes WHERE query LIKE '%sipHash%'")
		return err == nil && body == "2\n"
	})
	require.NoError(t, e.Close())
	require.Error(t, <-result)
}

func TestStop_KillsEngineThatDoesNotStop(t *testing.T) {
	var log syncBuffer
	e, err := enginetest.Start(t.Context(), func(c *engine.SupervisorConfig) {
		c.StopTimeout, c.Logger = 100*time.Millisecond, slog.New(slog.NewTextHandler(&log, nil))
	})
	require.NoError(t, err)
	pid := e.PID()
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP)) // it handles no SIGTERM now, as if it had no processor
	require.NoError(t, e.Close())
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	require.Contains(t, log.String(), "did not stop in time, killing it")
}

func TestStart_RejectsInvalidConfig(t *testing.T) {
	good := engine.ServerConfig{Dir: t.TempDir(), Addr: "127.0.0.1:0", User: "u", Password: "p"}
	for name, change := range map[string]func(*engine.ServerConfig){
		"no directory":  func(c *engine.ServerConfig) { c.Dir = "" },
		"no password":   func(c *engine.ServerConfig) { c.Password = "" },
		"analyst name":  func(c *engine.ServerConfig) { c.User = "default" },
		"all addresses": func(c *engine.ServerConfig) { c.Addr = ":8123" },
		"other address": func(c *engine.ServerConfig) { c.Addr = "10.0.0.1:8123" },
		"bad address":   func(c *engine.ServerConfig) { c.Addr = "127.0.0.1" },
	} {
		cfg := good
		change(&cfg)
		_, err := engine.Start(t.Context(), engine.SupervisorConfig{Command: []string{"/bin/false"}, Server: cfg})
		require.Error(t, err, name)
	}
	good.Library = "/nonexistent"
	started := time.Now()
	_, err := engine.Start(t.Context(), engine.SupervisorConfig{Command: []string{"/bin/false"}, Server: good})
	require.ErrorContains(t, err, "ended before it served")
	require.Less(t, time.Since(started), 10*time.Second)
}

func TestStart_ReturnsChildsError(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	var printed bytes.Buffer
	_, err = enginetest.Start(t.Context(), func(c *engine.SupervisorConfig) {
		c.Server.Addr, c.Logger = taken.Addr().String(), slog.New(slog.NewTextHandler(&printed, nil))
	})
	require.ErrorContains(t, err, "listen tcp "+taken.Addr().String()+": bind: address already in use")
	require.NotContains(t, printed.String(), "address already in use")
}

func TestStart_NamesUnreadableDefinition(t *testing.T) {
	dir := t.TempDir()
	inDir := func(c *engine.SupervisorConfig) { c.Server.Dir = dir }
	e, err := enginetest.Start(t.Context(), inDir)
	require.NoError(t, err)
	for _, statement := range []string{
		"CREATE DATABASE d", "CREATE TABLE d.`odd name` (a UInt8) ENGINE = MergeTree ORDER BY a",
	} {
		_, err = ask(t.Context(), e.Addr(), statement)
		require.NoError(t, err)
	}
	require.NoError(t, e.Close())
	files, err := filepath.Glob(filepath.Join(dir, "clickhouse", "store", "*", "*", "odd%20name.sql"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	whole, err := os.ReadFile(files[0])
	require.NoError(t, err)
	for _, content := range [][]byte{nil, whole[:len(whole)/2], []byte("garbage")} {
		require.NoError(t, os.WriteFile(files[0], content, 0o600))
		_, err = enginetest.Start(t.Context(), inDir)
		var damaged *engine.MetadataError
		require.ErrorAs(t, err, &damaged)
		require.Equal(t, "odd name", damaged.Name)
		require.Equal(t, files[0], damaged.File)
	}
	require.NoError(t, os.WriteFile(files[0], whole, 0o600))
	e, err = enginetest.Start(t.Context(), inDir)
	require.NoError(t, err)
	require.NoError(t, e.Close())
}

func TestStart_WorksInRemovedWorkingDirectory(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	require.NoError(t, os.Mkdir(gone, 0o700))
	t.Chdir(gone)
	require.NoError(t, os.Remove(gone))
	e, err := enginetest.Start(t.Context())
	require.NoError(t, err)
	require.NoError(t, e.Close())
	_, err = enginetest.Start(t.Context(), func(c *engine.SupervisorConfig) { c.Server.Dir = "relative" })
	require.ErrorContains(t, err, "the working directory does not exist any more")
}

func TestStart_OtherFailuresDoNotDisableSandbox(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	for name, test := range map[string]struct {
		first, addr, failure string
		within               time.Duration
	}{
		"too slow":   {"exec sleep 20", "127.0.0.1:0", "did not serve within", 3 * time.Second},
		"killed":     {"kill -9 $$", "127.0.0.1:0", "signal: killed", time.Minute},
		"port taken": {":", taken.Addr().String(), "address already in use", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			tries := filepath.Join(t.TempDir(), "tries")
			_, err := enginetest.Start(t.Context(), func(c *engine.SupervisorConfig) {
				c.Command = []string{
					"/bin/sh",
					"-c",
					`echo try >>"$0"; if [ "$(wc -l <"$0")" = 1 ]; then ` + test.first + `; fi; exec "$1"`,
					tries,
					exe,
				}
				c.Server.Addr, c.StartTimeout = test.addr, test.within
			})
			require.ErrorContains(t, err, test.failure)
			got, err := os.ReadFile(tries)
			require.NoError(t, err)
			require.Equal(t, "try\n", string(got))
		})
	}
}

const orphanEnv = "MUSTER_ENGINE_ORPHAN_TEST"

// TestOrphanParent is the parent process that TestSupervisor_ChildExitsWithParent kills. It does nothing by itself.
func TestOrphanParent(t *testing.T) {
	if os.Getenv(orphanEnv) == "" {
		return
	}
	e, err := enginetest.Start(t.Context())
	require.NoError(t, err)
	fmt.Fprintf(os.Stdout, "child %d\n", e.PID())
	<-t.Context().Done()
}

func TestSupervisor_ChildExitsWithParent(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe, "-test.run", "^TestOrphanParent$", "-test.timeout", "1m")
	cmd.Env = append(os.Environ(), orphanEnv+"=1", "TMPDIR="+t.TempDir())
	var out syncBuffer
	cmd.Stdout, cmd.Stderr = &out, io.Discard
	cmd.WaitDelay = 10 * time.Second
	require.NoError(t, cmd.Start())
	var child int
	waitFor(t, func() bool {
		_, after, ok := strings.Cut(out.String(), "child ")
		line, _, whole := strings.Cut(after, "\n")
		if !ok || !whole {
			return false
		}
		child, err = strconv.Atoi(line)
		return err == nil
	})
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	waitFor(t, func() bool { return syscall.Kill(child, 0) == syscall.ESRCH || isZombie(child) })
}

// isZombie reports whether a process has ended and was not reaped.
func isZombie(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(status, []byte(") Z "))
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestClient_SurvivesRestart(t *testing.T) {
	conn := openDSN(t, enginetest.DSN(t), func(o *clickhouse.Options) { o.MaxOpenConns = 1 })
	require.NoError(t, conn.Ping(t.Context()))
	enginetest.Kill(t)
	waitFor(t, func() bool { return conn.Ping(t.Context()) == nil })
}
