package broker

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRestoreBackup_UndoesInterruptedCompaction(t *testing.T) {
	write := func(t *testing.T, dir string, files map[string]string) {
		t.Helper()
		for name, text := range files {
			path := filepath.Join(partitionsDir(dir), name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		}
	}
	read := func(t *testing.T, dir string) map[string]string {
		t.Helper()
		out := make(map[string]string)
		paths, err := filepath.Glob(filepath.Join(partitionsDir(dir), "*", "*"))
		require.NoError(t, err)
		for _, path := range paths {
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			name, err := filepath.Rel(partitionsDir(dir), path)
			require.NoError(t, err)
			out[name] = string(raw)
		}
		return out
	}
	log := map[string]string{"a-0/0.dat": "aa", "a-0/5.dat": "bb", "b-0/0.dat": "cc"}
	remove := func(names ...string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			for _, name := range names {
				require.NoError(t, os.Remove(filepath.Join(partitionsDir(dir), name)))
			}
		}
	}
	for name, compact := range map[string]func(t *testing.T, dir string){
		"nothing changed yet": func(*testing.T, string) {},
		"files removed":       remove("a-0/0.dat", "a-0/5.dat"),
		"files written": func(t *testing.T, dir string) {
			remove("a-0/0.dat", "a-0/5.dat")(t, dir)
			write(t, dir, map[string]string{"a-0/0.dat": "a", "a-0/3.dat": "b"})
		},
		"restore interrupted": func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(partitionsDir(dir))) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, log)
			require.NoError(t, backupLog(dir))
			compact(t, dir)
			restored, err := restoreBackup(dir)
			require.NoError(t, err)
			require.True(t, restored)
			require.Equal(t, log, read(t, dir))
			restored, err = restoreBackup(dir)
			require.NoError(t, err)
			require.False(t, restored, "second call")
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 1, "only the log is left")
		})
	}
	t.Run("compaction complete", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, log)
		require.NoError(t, backupLog(dir))
		remove("a-0/0.dat")(t, dir)
		require.NoError(t, removeBackup(dir))
		restored, err := restoreBackup(dir)
		require.NoError(t, err)
		require.False(t, restored)
		require.NotContains(t, read(t, dir), "a-0/0.dat")
	})
	t.Run("backup incomplete", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, log)
		require.NoError(t, linkPartitions(partitionsDir(dir), filepath.Join(dir, partialBackupDir)))
		restored, err := restoreBackup(dir)
		require.NoError(t, err)
		require.False(t, restored)
		require.Equal(t, log, read(t, dir))
	})
}

func TestGate_HoldsResponses(t *testing.T) {
	failure := newFailure()
	g := newGate(failure)
	require.NoError(t, g.wait())
	release := g.hold()
	waited := make(chan error, 1)
	go func() { waited <- g.wait() }()
	select {
	case err := <-waited:
		t.Fatal("did not wait", err)
	case <-time.After(50 * time.Millisecond):
	}
	release()
	require.NoError(t, <-waited)
	require.NoError(t, g.wait())

	release = g.hold()
	go func() { waited <- g.wait() }()
	failure.set(ErrLogWriteFailed)
	require.ErrorIs(t, <-waited, ErrLogWriteFailed, "no response after a failure")
	release()
	require.ErrorIs(t, g.wait(), ErrLogWriteFailed)
}

// startStuck starts a broker and a compaction that cannot end while the directory stuckDir exists.
func startStuck(t *testing.T) (b *Broker, ended <-chan error, stuckDir string) {
	t.Helper()
	logged := make(chan string, 100)
	b, err := Start(t.Context(), Config{DataDir: t.TempDir(), Logger: slog.New(errorChannel(logged))})
	require.NoError(t, err)
	end := make(chan error, 1)
	compact := func() { go func() { end <- b.Compact(t.Context()) }() }
	stuckDir = filepath.Join(b.dir, removedBackupDir)
	deadline := time.After(time.Minute)
	compact()
	for {
		select {
		case <-logged:
			return b, end, stuckDir
		case err := <-end:
			t.Log("the directory did not exist, or was created too early:", err)
			compact()
		case <-deadline:
			t.Fatal("no compaction logged an error")
		default:
			_ = os.MkdirAll(filepath.Join(stuckDir, "x"), 0o700) // may fail: a compaction removes it when it begins
		}
	}
}

func TestCompact_HoldsResponsesUntilBackupIsRemoved(t *testing.T) {
	b, ended, stuckDir := startStuck(t)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	held := func() bool {
		b.gate.mu.Lock()
		defer b.gate.mu.Unlock()
		return b.gate.held != nil
	}
	require.True(t, held())
	require.DirExists(t, filepath.Join(b.dir, backupDir))
	select {
	case err := <-ended:
		t.Fatal("ended", err)
	case <-time.After(100 * time.Millisecond):
	}

	require.NoError(t, os.RemoveAll(stuckDir))
	require.NoError(t, <-ended)
	require.False(t, held())
	require.NoDirExists(t, filepath.Join(b.dir, backupDir))
}

// errorChannel is a log handler that sends the messages of errors.
type errorChannel chan string

func (errorChannel) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelError
}

func (c errorChannel) Handle(_ context.Context, r slog.Record) error {
	select {
	case c <- r.Message:
	default:
	}
	return nil
}

func (c errorChannel) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c errorChannel) WithGroup(string) slog.Handler      { return c }

func TestClose_WaitsForCompaction(t *testing.T) {
	b, err := Start(t.Context(), Config{DataDir: t.TempDir()})
	require.NoError(t, err)
	begun, goOn := make(chan struct{}), make(chan struct{})
	b.free = func(string) (int64, error) {
		close(begun)
		<-goOn
		return reservedBytes, nil
	}
	compacted, closed := make(chan error, 1), make(chan error, 1)
	go func() { compacted <- b.Compact(t.Context()) }()
	<-begun
	go func() { closed <- b.Close() }()
	<-b.gate.shutting
	select {
	case err := <-closed:
		t.Fatal("did not wait", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(goOn)
	require.NoError(t, <-compacted)
	require.NoError(t, <-closed)
	require.NoDirExists(t, filepath.Join(b.dir, backupDir))
	require.FileExists(t, filepath.Join(b.dir, closedFile))
	require.ErrorIs(t, b.Compact(t.Context()), errClosed)
}

// Close must not save the state of a log that the next start replaces by the backup.
func TestClose_FailsWhileBackupCannotBeRemoved(t *testing.T) {
	b, ended, _ := startStuck(t)
	require.ErrorIs(t, b.Close(), ErrLogWriteFailed)
	require.ErrorIs(t, <-ended, ErrLogWriteFailed)
	require.DirExists(t, filepath.Join(b.dir, backupDir))
	require.NoFileExists(t, filepath.Join(b.dir, closedFile))
}

func TestPreserveEndOffset_LeavesLinkedFilesUnchanged(t *testing.T) {
	dir, linked := t.TempDir(), filepath.Join(t.TempDir(), "linked.dat")
	path := filepath.Join(dir, "9.dat")
	message := make([]byte, len(emptyBatch(9, 9))+8)
	require.NoError(t, os.WriteFile(path, message, 0o600))
	require.NoError(t, os.Link(path, linked))
	require.NoError(t, os.WriteFile(path+".new", []byte("an interrupted write"), 0o600))
	require.NoError(t, preserveEndOffset(dir, 10))
	before, err := os.Stat(linked)
	require.NoError(t, err)
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.False(t, os.SameFile(before, after))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, raw, len(emptyBatch(9, 9)))
	require.NoFileExists(t, path+".new")
	raw, err = os.ReadFile(linked)
	require.NoError(t, err)
	require.Equal(t, message, raw)
}
