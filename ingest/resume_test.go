package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/platform/bus"
	"muster/schemas/record"
)

// maxInFlight is the maximum number of bytes that a run has sent without an acknowledgment: queued messages and
// the last writes. There are at most some dozen chunks of 256 KiB between reading and completion.
const maxInFlight = 64 * 256 << 10

const childEnv = "MUSTER_TEST_INGEST_CHILD"

// TestIngestChildProcess is the process that TestRun_KilledRunsResumeWithoutLoss kills.
func TestIngestChildProcess(t *testing.T) {
	args := strings.Split(os.Getenv(childEnv), "\n")
	if len(args) < 3 {
		// Not run as a child process.
		return
	}
	cfg := ingest.Config{Bus: bus.Config{Brokers: []string{args[0]}}, StateDir: args[1]}
	_, err := ingest.Files(context.Background(), cfg, ingest.Deps{}, record.KindNetworkPerson, args[2:])
	require.NoError(t, err)
}

// Processes are killed at random points until one of them completes the run: every record is
// published, records with a recorded acknowledgment are never sent again, and the counts are those
// of the whole run.
func TestRun_KilledRunsResumeWithoutLoss(t *testing.T) {
	for name, deleteEntries := range map[string]bool{"with dedup store": false, "without entries": true} {
		t.Run(name, func(t *testing.T) {
			// On a busy machine a run may end before it is seen in progress.
			n := 6000
			for !killAndResume(t, bigPeople(n), deleteEntries) {
				n *= 2
				require.Less(t, n, 100_000, "no run was killed in time")
			}
		})
	}
}

// killAndResume kills runs over people, and reports whether at least one was killed.
func killAndResume(t *testing.T, people []string, deleteEntries bool) bool {
	rng := rand.New(rand.NewPCG(uint64(len(people)), 3))
	cfg := withStateDir(t)
	paths := []string{
		write(t, "a", []byte(strings.Join(people[:len(people)/2], ""))),
		write(t, "b", zstded(t, []byte(strings.Join(people[len(people)/2:], "")))),
	}
	self, err := os.Executable()
	require.NoError(t, err)
	kind := record.KindNetworkPerson
	var sent, recorded, unknown int64 // at the last kill; unknown summed over all kills
	kills := 0
	for {
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestIngestChildProcess$")
		cmd.Env = append(os.Environ(),
			childEnv+"="+strings.Join(append([]string{cfg.Bus.Brokers[0], cfg.StateDir}, paths...), "\n"))
		require.NoError(t, cmd.Start())
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		// Wait until it has recorded progress, or has ended.
		goal := recorded + 200 + rng.Int64N(1500)
		ended := false
		require.Eventually(t, func() bool {
			select {
			case err := <-done:
				require.NoError(t, err)
				ended = true
				return true
			default:
				return kills < 4 && recordedLines(t, cfg.StateDir) >= goal
			}
		}, time.Minute, time.Millisecond)
		if !ended {
			require.NoError(t, cmd.Process.Kill())
			if <-done == nil {
				ended = true // it was faster
			}
		}
		now := endOffsetSum(t, cfg.Bus, kind.Topic())
		before := recorded
		recorded = recordedLines(t, cfg.StateDir)
		t.Logf("recorded %d of %d lines, %d messages stored", recorded, len(people), now)
		// This process sent at most the records without recorded acknowledgment, and what its
		// predecessor had in flight.
		require.LessOrEqual(t, now-sent, int64(len(people))-before)
		if ended {
			break
		}
		runs, err := ingest.Runs(cfg.StateDir, 0)
		require.NoError(t, err)
		require.Len(t, runs, 1)
		if runs[0].State == "done" {
			// It had ended its run before it was killed.
			break
		}
		kills++
		require.LessOrEqual(t, (now-recorded)*int64(len(people[0])), int64(maxInFlight))
		sent, unknown = now, unknown+now-recorded
		require.EqualValues(t, "stopped", runs[0].State)
		if deleteEntries {
			entries, err := filepath.Glob(filepath.Join(cfg.StateDir, "versions", "[0-9][0-9]"))
			require.NoError(t, err)
			require.NotEmpty(t, entries)
			for _, e := range entries {
				require.NoError(t, os.Remove(e))
			}
		}
	}
	if kills == 0 {
		return false
	}
	require.Len(t, values(t, cfg.Bus, kind), len(people), "missing record")
	runs, err := ingest.Runs(cfg.StateDir, 0)
	require.NoError(t, err)
	require.Len(t, runs, 1)
	require.EqualValues(t, "done", runs[0].State)
	require.Equal(t, kills+1, runs[0].Attempts)
	c := runs[0].Counts[kind]
	require.Equal(t, int64(len(people)), c.Read)
	require.Equal(t, c.Read, c.Published+c.Unchanged)
	if !deleteEntries {
		// Records in flight at a kill may be stored without being recorded.
		require.LessOrEqual(t, endOffsetSum(t, cfg.Bus, kind.Topic()), int64(len(people))+unknown)
	}
	return true
}

// recordedLines returns the number of lines recorded as stored.
func recordedLines(t *testing.T, stateDir string) int64 {
	runs, err := ingest.Runs(stateDir, 0)
	require.NoError(t, err)
	var n int64
	for _, r := range runs {
		for _, f := range r.Files {
			n += f.Line
		}
	}
	return n
}

// bigPeople returns lines of about 1 KB.
func bigPeople(n int) []string {
	text := randomText(900)
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(
			`{"profile_id":"p_%d","last_updated":"2026-01-02","username":"user-%d","headline":"%s"}`+"\n",
			i, i, text,
		)
	}
	return out
}

// A run that is interrupted during an outage resumes when the brokers are back, by the same command
// or by its ID.
func TestResume_ContinuesAfterInterruptInOutage(t *testing.T) {
	// On a busy machine a run may end before the brokers are stopped.
	n := 30_000
	for !interruptAndResume(t, bigPeople(n)) {
		n *= 2
		require.Less(t, n, 500_000, "no stopped run in time")
	}
}

// interruptAndResume interrupts a run over people and resumes it, and reports whether it was
// interrupted.
func interruptAndResume(t *testing.T, lines []string) bool {
	dir := t.TempDir()
	b := startBroker(t, dir, "127.0.0.1:0")
	addr := b.Addrs()[0]
	cfg := ingest.Config{
		Bus:          bus.Config{Brokers: []string{addr}},
		StateDir:     t.TempDir(),
		DrainTimeout: 300 * time.Millisecond,
	}
	path := write(t, "people", []byte(strings.Join(lines, "")))
	kind := record.KindNetworkPerson
	enough := errors.New("enough")

	progress := newWatcher()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	var first ingest.Summary
	var failure error
	go func() {
		defer close(done)
		first, failure = ingest.Files(ctx, cfg, ingest.Deps{Progress: progress}, kind, []string{path})
	}()
	require.Eventually(t, func() bool { return recordedLines(t, cfg.StateDir) > 1000 }, time.Minute, time.Millisecond)
	require.NoError(t, b.Close())
	require.Eventually(t, func() bool {
		select {
		case <-done:
			return true
		default:
			return progress.snapshot().Stalled > 300*time.Millisecond
		}
	}, time.Minute, time.Millisecond, "run waiting")
	cancel(enough)
	<-done
	if failure == nil && first.Files[0].Complete {
		return false
	}
	requireExit(t, ingest.ExitFailed, failure)
	require.ErrorIs(t, failure, enough)
	require.False(t, first.Files[0].Complete)
	require.Equal(t, first.Files[0].Lines, recordedLines(t, cfg.StateDir), "reported position is the recorded one")
	require.True(t, first.Reconciles())

	b = startBroker(t, dir, addr)
	defer func() { require.NoError(t, b.Close()) }()
	before := endOffsetSum(t, cfg.Bus, kind.Topic())
	second, err := ingest.Resume(t.Context(), cfg, ingest.Deps{}, first.Run[:13])
	require.NoError(t, err)
	require.Equal(t, first.Run, second.Run)
	require.True(t, second.Files[0].Complete)
	c := counts(second, kind)
	require.Equal(t, int64(len(lines)), c.Read)
	require.Equal(t, c.Read, c.Published+c.Unchanged)
	require.LessOrEqual(t, endOffsetSum(t, cfg.Bus, kind.Topic())-before, int64(len(lines))-first.Files[0].Lines)
	require.Len(t, values(t, cfg.Bus, kind), len(lines))

	_, err = ingest.Resume(t.Context(), cfg, ingest.Deps{}, "")
	requireExit(t, ingest.ExitFailed, err)
	require.ErrorContains(t, err, "no stopped run")
	_, err = ingest.Resume(t.Context(), cfg, ingest.Deps{}, first.Run)
	require.ErrorContains(t, err, "is done")
	_, err = ingest.Resume(t.Context(), cfg, ingest.Deps{}, "f00")
	require.ErrorContains(t, err, "no such run")
	return true
}

// A run over a damaged input can be resumed, unless the file changes.
func TestResume_RejectsChangedFile(t *testing.T) {
	cfg := withStateDir(t)
	kind := record.KindNetworkPerson
	whole := gzipped(t, []byte(people(0, 5000)))
	path := write(t, "people", whole[:len(whole)-20])
	good := write(t, "good", []byte(people(6000, 6100)))
	s, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, []string{good, path})
	requireExit(t, ingest.ExitFailed, err)
	stored := endOffsetSum(t, cfg.Bus, kind.Topic())

	// The same files are the same run. It fails where it failed before.
	second, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, []string{good, path})
	requireExit(t, ingest.ExitFailed, err)
	require.Equal(t, s.Run, second.Run)
	require.Equal(t, stored, endOffsetSum(t, cfg.Bus, kind.Topic()))
	require.Equal(t, counts(s, kind), counts(second, kind))

	require.NoError(t, os.WriteFile(path, whole, 0o600))
	_, err = ingest.Resume(t.Context(), cfg, ingest.Deps{}, "")
	requireExit(t, ingest.ExitFailed, err)
	require.ErrorContains(t, err, "changed its size")
	fixed, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, []string{good, path})
	require.NoError(t, err)
	require.NotEqual(t, s.Run, fixed.Run)
	c := counts(fixed, kind)
	require.Equal(t, int64(5100), c.Read)
	require.Equal(t, stored, c.Unchanged, "no record published twice")

	runs, err := ingest.Runs(cfg.StateDir, 0)
	require.NoError(t, err)
	require.Len(t, runs, 2)
	require.Equal(t, fixed.Run, runs[0].ID, "newest first")
	require.EqualValues(t, "stopped", runs[1].State)
	require.NotEmpty(t, runs[1].Error)
	require.NoError(t, ingest.RemoveRun(cfg.StateDir, s.Run))
	runs, err = ingest.Runs(cfg.StateDir, 0)
	require.NoError(t, err)
	require.Len(t, runs, 1)
}

func TestRun_ConcurrentRunsPublishEachRecordOnce(t *testing.T) {
	cfg := withStateDir(t)
	path := write(t, "people", []byte(people(0, 20_000)))
	kind := record.KindNetworkPerson
	done := make(chan error, 2)
	var total [2]ingest.Counts
	for i := range 2 {
		go func() {
			cfg := cfg
			cfg.Restart = true
			s, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, []string{path})
			total[i] = counts(s, kind)
			done <- err
		}()
	}
	require.NoError(t, errors.Join(<-done, <-done))
	require.Equal(t, int64(20_000), total[0].Published+total[1].Published)
	require.Equal(t, int64(20_000), total[0].Unchanged+total[1].Unchanged)
	require.Equal(t, int64(20_000), endOffsetSum(t, cfg.Bus, kind.Topic()))
}

// Records of the old mapping would otherwise stay as the old one produced them.
func TestResume_RejectsChangedMapping(t *testing.T) {
	cfg := withStateDir(t)
	mapping := func(name, version string) []byte {
		return []byte(
			`record("network-person"; {profile_id: .id, username: .id, ` +
				`full_name: "` + name + `", last_updated: "` + version + `"})`,
		)
	}
	cfg.Mapping = write(t, "m.jq", mapping("old", "2026"))
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, `{"id":"p_%d","pad":"%x"}`+"\n", i, i*7919)
	}
	whole := gzipped(t, []byte(text.String()))
	path := write(t, "f.ndjson.gz", whole[:len(whole)-20])
	before, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, "", []string{path})
	requireExit(t, ingest.ExitFailed, err)
	second, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, "", []string{path})
	requireExit(t, ingest.ExitFailed, err)
	require.Equal(t, before.Run, second.Run, "nothing has changed")

	require.NoError(t, os.WriteFile(cfg.Mapping, mapping("new", "2027"), 0o600))
	_, err = ingest.Resume(t.Context(), cfg, ingest.Deps{}, before.Run)
	require.ErrorContains(t, err, "has changed")
	cfg.RunID = "run-2"
	fresh, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, "", []string{path})
	requireExit(t, ingest.ExitFailed, err)
	require.Equal(t, "run-2", fresh.Run)
	for id, v := range values(t, cfg.Bus, record.KindNetworkPerson) {
		require.NotContains(t, v, "old", id)
	}
}
