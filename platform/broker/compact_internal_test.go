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

// A log whose compaction was cut off, wherever, is as it was before it.
func TestRestoreLog(t *testing.T) {
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
		"nothing done yet": func(*testing.T, string) {},
		"files removed":    remove("a-0/0.dat", "a-0/5.dat"),
		"files written": func(t *testing.T, dir string) {
			remove("a-0/0.dat", "a-0/5.dat")(t, dir)
			write(t, dir, map[string]string{"a-0/0.dat": "a", "a-0/3.dat": "b"})
		},
		"a restoring cut off": func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(partitionsDir(dir))) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, log)
			require.NoError(t, keepLog(dir))
			compact(t, dir)
			restored, err := restoreLog(dir)
			require.NoError(t, err)
			require.True(t, restored)
			require.Equal(t, log, read(t, dir))
			restored, err = restoreLog(dir)
			require.NoError(t, err)
			require.False(t, restored, "once")
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 1, "nothing is left beside the log")
		})
	}
	t.Run("ended", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, log)
		require.NoError(t, keepLog(dir))
		remove("a-0/0.dat")(t, dir)
		require.NoError(t, dropKept(dir))
		restored, err := restoreLog(dir)
		require.NoError(t, err)
		require.False(t, restored)
		require.NotContains(t, read(t, dir), "a-0/0.dat")
	})
	t.Run("not begun", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, log)
		require.NoError(t, linkPartitions(partitionsDir(dir), filepath.Join(dir, keepingDir)))
		restored, err := restoreLog(dir)
		require.NoError(t, err)
		require.False(t, restored)
		require.Equal(t, log, read(t, dir))
	})
}

func TestAnswersWaitWhileHeld(t *testing.T) {
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
	failure.set(ErrUnwritable)
	require.ErrorIs(t, <-waited, ErrUnwritable, "no answer after a failure")
	release()
	require.ErrorIs(t, g.wait(), ErrUnwritable)
}

// startStuck starts a broker and a compaction that cannot end while there is a folder.
func startStuck(t *testing.T) (b *Broker, ended <-chan error, folder string) {
	t.Helper()
	complaints := make(chan string, 100)
	b, err := Start(t.Context(), Config{DataDir: t.TempDir(), Logger: slog.New(complaining(complaints))})
	require.NoError(t, err)
	end := make(chan error, 1)
	compact := func() { go func() { end <- b.Compact(t.Context()) }() }
	folder = filepath.Join(b.dir, droppedDir)
	deadline := time.After(time.Minute)
	compact()
	for {
		select {
		case <-complaints:
			return b, end, folder
		case err := <-end:
			t.Log("nothing stood in the way, or too early:", err)
			compact()
		case <-deadline:
			t.Fatal("no compaction complained")
		default:
			_ = os.MkdirAll(filepath.Join(folder, "x"), 0o700) // may fail: a compaction that begins clears the way
		}
	}
}

// While a start would put the log of before back, a compaction does not end and nothing is answered.
func TestKeptLogThatCannotBeDropped(t *testing.T) {
	b, ended, folder := startStuck(t)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	held := func() bool {
		b.gate.mu.Lock()
		defer b.gate.mu.Unlock()
		return b.gate.held != nil
	}
	require.True(t, held())
	require.DirExists(t, filepath.Join(b.dir, keptDir))
	select {
	case err := <-ended:
		t.Fatal("ended", err)
	case <-time.After(100 * time.Millisecond):
	}

	require.NoError(t, os.RemoveAll(folder))
	require.NoError(t, <-ended)
	require.False(t, held())
	require.NoDirExists(t, filepath.Join(b.dir, keptDir))
}

// complaining is a handler that hands errors on.
type complaining chan string

func (complaining) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

func (c complaining) Handle(_ context.Context, r slog.Record) error {
	select {
	case c <- r.Message:
	default:
	}
	return nil
}

func (c complaining) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c complaining) WithGroup(string) slog.Handler      { return c }

// Whatever a compaction has to do it does before the folder is released, and kfake with it.
func TestCloseWaitsForACompaction(t *testing.T) {
	b, err := Start(t.Context(), Config{DataDir: t.TempDir()})
	require.NoError(t, err)
	begun, goOn := make(chan struct{}), make(chan struct{})
	b.free = func(string) (int64, error) {
		close(begun)
		<-goOn
		return spareBytes, nil
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
	require.NoDirExists(t, filepath.Join(b.dir, keptDir))
	require.FileExists(t, filepath.Join(b.dir, closedFile))
	require.ErrorIs(t, b.Compact(t.Context()), errClosed)
}

// A compaction that cannot end fails the broker that is closed: nothing is saved beside a
// log that the next start replaces by the one of before.
func TestCloseWhileTheKeptLogCannotBeDropped(t *testing.T) {
	b, ended, _ := startStuck(t)
	require.ErrorIs(t, b.Close(), ErrUnwritable)
	require.ErrorIs(t, <-ended, ErrUnwritable)
	require.DirExists(t, filepath.Join(b.dir, keptDir))
	require.NoFileExists(t, filepath.Join(b.dir, closedFile))
}

// What a compaction keeps under second names stays as it was while the end of a
// partition is written in the place of its messages.
func TestKeepEndLeavesKeptFiles(t *testing.T) {
	dir, kept := t.TempDir(), filepath.Join(t.TempDir(), "kept.dat")
	path := filepath.Join(dir, "9.dat")
	message := make([]byte, len(emptyBatch(9, 9))+8)
	require.NoError(t, os.WriteFile(path, message, 0o600))
	require.NoError(t, os.Link(path, kept))
	require.NoError(t, os.WriteFile(path+".new", []byte("a write that was cut off"), 0o600))
	require.NoError(t, keepEnd(dir, 10))
	before, err := os.Stat(kept)
	require.NoError(t, err)
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.False(t, os.SameFile(before, after))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, raw, len(emptyBatch(9, 9)))
	require.NoFileExists(t, path+".new")
	raw, err = os.ReadFile(kept)
	require.NoError(t, err)
	require.Equal(t, message, raw)
}
