package checkpoint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/ingest/internal/checkpoint"
	"muster/ingest/internal/convert"
	"muster/schemas/record"
)

const kind = record.KindNetworkPerson

func begin(t *testing.T, s *checkpoint.Store, id string, files ...checkpoint.File) *checkpoint.Writer {
	t.Helper()
	h, err := s.Begin(checkpoint.Run{ID: id, Kind: kind, Files: files}, time.Now)
	require.NoError(t, err)
	return h
}

func counts(n int64) convert.CountsByKind { return convert.CountsByKind{kind: {Read: n, Published: n}} }

func TestStore_RunLifecycle(t *testing.T) {
	dir := t.TempDir()
	s, err := checkpoint.Open(dir)
	require.NoError(t, err)
	h := begin(t, s, "01a", checkpoint.File{Path: "a"}, checkpoint.File{Path: "b"})
	require.NoError(t, h.Advance(0, 10, 100, 1, counts(9)))
	require.NoError(t, h.Advance(1, 5, 50, 0, counts(5)))
	require.NoError(t, h.Advance(0, 20, 200, 1, counts(9)))
	require.NoError(t, h.Complete(0))

	// Another process can read it but not run it.
	run, err := s.Get("01")
	require.NoError(t, err)
	require.Equal(t, checkpoint.Running, run.State)
	require.Equal(
		t,
		[]checkpoint.File{
			{Path: "a", Line: 20, Offset: 200, Blank: 2, Complete: true},
			{Path: "b", Line: 5, Offset: 50},
		},
		run.Files,
	)
	require.Equal(t, counts(23), run.Counts)
	_, err = s.Resume("01a", "", time.Now)
	require.ErrorIs(t, err, checkpoint.ErrRunning)
	require.ErrorIs(t, s.Remove("01a"), checkpoint.ErrRunning)

	require.NoError(t, h.Finish(checkpoint.Stopped, "enough"))
	h, err = s.Resume("01a", "", time.Now)
	require.NoError(t, err)
	require.Equal(t, 2, h.Run().Attempts)
	require.Empty(t, h.Run().Error)
	require.Equal(t, run.Files, h.Run().Files)
	require.NoError(t, h.Finish(checkpoint.Done, ""))
	run, err = s.Get("01a")
	require.NoError(t, err)
	require.Equal(t, checkpoint.Done, run.State)
	require.Equal(t, counts(23), run.Counts)

	_, err = s.Get("7")
	require.ErrorIs(t, err, checkpoint.ErrUnknown)
	require.NoError(t, begin(t, s, "01b").Finish(checkpoint.Done, ""))
	_, err = s.Get("01")
	require.ErrorContains(t, err, "2 runs")
	require.NoError(t, begin(t, s, "01c").Finish(checkpoint.Stopped, ""))
	// "01d" and "01e" read standard input, so they cannot be resumed.
	require.NoError(t, begin(t, s, "01d", checkpoint.File{Path: "-"}).Finish(checkpoint.Stopped, ""))
	require.NoError(t, begin(t, s, "01e", checkpoint.File{Path: "-"}).Finish(checkpoint.Stopped, ""))
	began := time.Now().Add(-time.Minute)
	require.NoError(t, s.Prune(3, began))
	require.Equal(t, []string{"01e", "01d", "01c", "01b"}, ids(t, s), "the newest three, and the resumable one")
	require.NoError(t, s.Prune(1, began))
	require.Equal(t, []string{"01e", "01c"}, ids(t, s))
	h = begin(t, s, "01b")
	require.NoError(t, s.Prune(1, time.Now().Add(time.Minute)))
	require.Equal(t, []string{"01e", "01b"}, ids(t, s), "running run stays")
	require.NoError(t, h.Finish(checkpoint.Stopped, ""))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "01b", "run.json"), []byte(`{"id`), 0o600))
	runs, err := s.List(0)
	require.ErrorContains(t, err, "01b")
	require.Len(t, runs, 1, "other runs are listed")
}

func TestStore_ReadsOnlyRequestedRuns(t *testing.T) {
	dir := t.TempDir()
	s, err := checkpoint.Open(dir)
	require.NoError(t, err)
	for _, id := range []string{"01", "02", "03", "04", "05"} {
		state := checkpoint.Done
		if id == "04" {
			state = checkpoint.Stopped
		}
		require.NoError(t, begin(t, s, id, checkpoint.File{Path: "a", Absolute: "/a"}).Finish(state, ""))
	}
	for _, id := range []string{"01", "02", "03"} { // reading a complete file would fail
		path := filepath.Join(dir, id, "run.json")
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		head, _, found := strings.Cut(string(raw), `"files"`)
		require.True(t, found)
		require.NoError(t, os.WriteFile(path, []byte(head), 0o600))
	}
	names := func(runs []checkpoint.Run, err error) (ids []string) {
		t.Helper()
		require.NoError(t, err)
		for _, r := range runs {
			ids = append(ids, r.ID)
		}
		return ids
	}
	require.Equal(t, []string{"05", "04"}, names(s.List(2)))
	require.Equal(t, []string{"04"}, names(s.Unfinished()))
	require.NoError(t, s.Prune(4, time.Time{}))
	_, err = s.List(0)
	require.Error(t, err)
	require.NoError(t, s.Prune(4, time.Now().Add(time.Minute)))
	require.Equal(t, []string{"05"}, names(s.List(1)))
	require.Empty(t, names(s.Unfinished()), "stopped before that time")
}

func ids(t *testing.T, s *checkpoint.Store) []string {
	t.Helper()
	runs, err := s.List(0)
	require.NoError(t, err)
	var all []string
	for _, r := range runs {
		all = append(all, r.ID)
	}
	return all
}

// Entries before the truncated end count, and a dead process holds no lock.
func TestJournal_TruncatedEndIsIgnored(t *testing.T) {
	source := t.TempDir()
	s, err := checkpoint.Open(source)
	require.NoError(t, err)
	h := begin(t, s, "run", checkpoint.File{Path: "a"})
	var sizes []int
	journal := filepath.Join(source, "run", fmt.Sprint("journal.", h.Run().Journal))
	for i := range int64(5) {
		require.NoError(t, h.Advance(0, i+1, 10*(i+1), 0, counts(1)))
		raw, err := os.ReadFile(journal)
		require.NoError(t, err)
		sizes = append(sizes, len(raw))
	}
	raw, err := os.ReadFile(journal)
	require.NoError(t, err)
	file, err := os.ReadFile(filepath.Join(source, "run", "run.json"))
	require.NoError(t, err)
	for cut := range len(raw) + 1 {
		dir := filepath.Join(t.TempDir(), "run")
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "run.json"), file, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(journal)), raw[:cut], 0o600))
		copied, err := checkpoint.Open(filepath.Dir(dir))
		require.NoError(t, err)
		run, err := copied.Get("run")
		require.NoError(t, err)
		require.Equal(t, checkpoint.Stopped, run.State)
		want := int64(0)
		for want < 5 && sizes[want] <= cut {
			want++
		}
		require.Equal(t, want, run.Files[0].Line)
		require.Equal(t, 10*want, run.Files[0].Offset)
		require.Equal(t, want, run.Counts[kind].Read)
	}
	require.NoError(t, h.Finish(checkpoint.Stopped, ""))
}

// Readers do not block the run's process and are not taken for it.
func TestStore_ReadersDoNotLockRuns(t *testing.T) {
	source := t.TempDir()
	s, err := checkpoint.Open(source)
	require.NoError(t, err)
	h := begin(t, s, "run", checkpoint.File{Path: "a"})
	file, err := os.ReadFile(filepath.Join(source, "run", "run.json"))
	require.NoError(t, err)
	require.NoError(t, h.Finish(checkpoint.Stopped, ""))
	killed := func() { // state running, but without a lock
		require.NoError(t, os.WriteFile(filepath.Join(source, "run", "new"), file, 0o600))
		require.NoError(t, os.Rename(filepath.Join(source, "run", "new"), filepath.Join(source, "run", "run.json")))
	}
	killed()

	over := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			every := time.NewTicker(500 * time.Microsecond)
			defer every.Stop()
			for {
				select {
				case <-over:
					return
				case <-every.C:
					_, _ = s.List(0)
				}
			}
		})
	}
	defer readers.Wait()
	defer close(over)
	for range 200 {
		runs, err := s.List(0)
		require.NoError(t, err)
		require.Len(t, runs, 1)
		require.Equal(t, checkpoint.Stopped, runs[0].State)
		h, err := s.Resume("run", "", time.Now)
		require.NoError(t, err)
		require.NoError(t, h.Finish(checkpoint.Stopped, ""))
		killed()
	}
}

// A run of another generation has no progress, also after it is killed.
func TestResume_OtherGenerationRestarts(t *testing.T) {
	dir := t.TempDir()
	s, err := checkpoint.Open(dir)
	require.NoError(t, err)
	h := begin(t, s, "run", checkpoint.File{Path: "a", Size: 9}, checkpoint.File{Path: "b"})
	require.NoError(t, h.Advance(0, 10, 100, 1, counts(9)))
	require.NoError(t, h.Complete(0))
	require.NoError(t, h.Finish(checkpoint.Stopped, ""))

	h, err = s.Resume("run", "g", time.Now)
	require.NoError(t, err)
	require.Equal(t, "g", h.Run().Generation)
	run, err := s.Get("run")
	require.NoError(t, err)
	require.Equal(t, []checkpoint.File{{Path: "a", Size: 9}, {Path: "b"}}, run.Files)
	require.Empty(t, run.Counts)
	require.NoError(t, h.Advance(0, 5, 50, 0, counts(5)))
	require.NoError(t, h.Finish(checkpoint.Stopped, ""))

	h, err = s.Resume("run", "g", time.Now)
	require.NoError(t, err)
	require.Equal(t, int64(5), h.Run().Files[0].Line)
	require.Equal(t, counts(5), h.Run().Counts)
	require.Equal(t, 3, h.Run().Attempts)
	require.NoError(t, h.Finish(checkpoint.Stopped, ""))
	h, err = s.Resume("run", "", time.Now)
	require.NoError(t, err)
	require.Zero(t, h.Run().Files[0].Line)
	require.NoError(t, h.Finish(checkpoint.Done, ""))
}

func TestWriter_CompactsLongJournal(t *testing.T) {
	dir := t.TempDir()
	s, err := checkpoint.Open(dir)
	require.NoError(t, err)
	h := begin(t, s, "run", checkpoint.File{Path: "a"})
	const steps = 60_000
	for i := range int64(steps) {
		require.NoError(t, h.Advance(0, i+1, 1000*(i+1), 1, counts(1)))
	}
	require.Greater(t, h.Run().Journal, 1)
	files, err := filepath.Glob(filepath.Join(dir, "run", "journal.*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	run, err := s.Get("run")
	require.NoError(t, err)
	require.Equal(t, counts(steps), run.Counts)
	require.Equal(t, int64(steps), run.Files[0].Line)
	require.Equal(t, int64(steps), run.Files[0].Blank)
	require.NoError(t, h.Finish(checkpoint.Done, ""))
}

func TestWriter_FailedWriteIsNotCounted(t *testing.T) {
	dir := t.TempDir()
	s, err := checkpoint.Open(dir)
	require.NoError(t, err)
	h := begin(t, s, "run", checkpoint.File{Path: "a"})
	require.NoError(t, h.Advance(0, 1, 10, 0, counts(1)))
	require.NoError(t, h.Finish(checkpoint.Stopped, ""))
	require.NoError(t, os.Symlink("/dev/full", filepath.Join(dir, "run", fmt.Sprint("journal.", h.Run().Journal+1))))
	h, err = s.Resume("run", "", time.Now)
	require.NoError(t, err)
	require.ErrorIs(t, h.Advance(0, 2, 20, 0, counts(1)), syscall.ENOSPC)
	require.ErrorIs(t, h.Complete(0), syscall.ENOSPC)
	require.NoError(t, h.Finish(checkpoint.Stopped, ""))
	run, err := s.Get("run")
	require.NoError(t, err)
	require.Equal(t, []checkpoint.File{{Path: "a", Line: 1, Offset: 10}}, run.Files)
	require.Equal(t, counts(1), run.Counts)
}

func TestIdentify_DetectsChangedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	write := func(text string, at time.Time) checkpoint.File {
		t.Helper()
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.NoError(t, os.Chtimes(path, at, at))
		f, err := checkpoint.Identify(path)
		require.NoError(t, err)
		return f
	}
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	before := write("one", at)
	require.Empty(t, before.Changed(write("one", at)))
	require.Contains(t, before.Changed(write("one and two", at)), "changed its size from 3 to 11 bytes")
	require.Contains(t, before.Changed(write("two", at)), "has different content")
	require.Contains(t, before.Changed(write("one", at.Add(time.Hour))), "was modified")
	require.NotEmpty(t, checkpoint.File{Path: "-"}.Changed(checkpoint.File{Path: "-"}), "standard input")
	_, err := checkpoint.Identify(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
