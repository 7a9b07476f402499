package ingest_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/schemas/record"
)

// The reset may be detected first by this run or by another command.
func TestResume_RestartsAfterTopicReset(t *testing.T) {
	kind := record.KindNetworkPerson
	whole := gzipped(t, []byte(people(0, 5000)))
	for name, c := range map[string]struct {
		between func(*testing.T, ingest.Config) // before the run resumes
		old     bool                            // the state has no generation
		same    bool                            // nothing was lost
		killed  bool                            // before the run recorded the end offsets
		resume  bool
	}{
		"killed":                   {killed: true},
		"killed, topics intact":    {killed: true, same: true},
		"the same command":         {},
		"resume":                   {resume: true},
		"topics intact":            {same: true},
		"state without generation": {old: true},
		"state without generation, topics intact": {old: true, same: true},
		"detected by another run": {between: func(t *testing.T, cfg ingest.Config) {
			_, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, []string{write(t, "f", []byte(people(7000,
				7010)))})
			require.NoError(t, err)
		}},
		"detected by a service, state without generation": {old: true, resume: true, between: func(t *testing.T,
			cfg ingest.Config) {
			serve(t, cfg, ingest.Deps{})
		}},
		"state directory deleted": {same: true, between: func(t *testing.T, cfg ingest.Config) {
			require.NoError(t, os.RemoveAll(filepath.Join(cfg.StateDir, "versions")))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := withStateDir(t)
			good := write(t, "good", []byte(people(6000, 6100)))
			path := write(t, "people", whole[:len(whole)-20])
			paths := []string{good, path}
			first, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, paths)
			requireExit(t, ingest.ExitFailed, err)
			stored := counts(first, kind).Published
			require.Greater(t, stored, int64(100))
			if c.old {
				removeGenerations(t, cfg.StateDir)
			}
			if c.killed {
				file := filepath.Join(cfg.StateDir, "versions", "topics.json")
				raw, err := os.ReadFile(file)
				require.NoError(t, err)
				var recorded map[string]any
				require.NoError(t, json.Unmarshal(raw, &recorded))
				recorded["ends"] = map[string]any{kind.Topic(): []int64{0}}
				raw, err = json.Marshal(recorded)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(file, raw, 0o600))
			}
			if !c.same {
				cfg.Bus = bus.Config{Brokers: brokertest.Start(t).Addrs()} // an empty broker
			}
			if c.between != nil {
				c.between(t, cfg)
			}
			var log bytes.Buffer
			deps := ingest.Deps{Logger: logger(&log)}
			var second ingest.Summary
			before := endOffsetSum(t, cfg.Bus, kind.Topic())
			if c.resume {
				second, err = ingest.Resume(t.Context(), cfg, deps, "")
			} else {
				second, err = ingest.Files(t.Context(), cfg, deps, kind, paths)
			}
			requireExit(t, ingest.ExitFailed, err)
			require.Equal(t, first.Run, second.Run)
			require.True(t, second.Reconciles())
			require.True(t, second.Files[0].Complete)
			require.Equal(t, counts(first, kind), counts(second, kind))
			if c.same && c.between == nil {
				require.Equal(t, before, endOffsetSum(t, cfg.Bus, kind.Topic()), "no record published twice")
				require.NotContains(t, log.String(), "the run restarts from the beginning")
				return
			}
			require.Contains(t, log.String(), "the run restarts from the beginning")
			require.Equal(t, before+stored, endOffsetSum(t, cfg.Bus, kind.Topic()))
			require.Contains(t, values(t, cfg.Bus, kind), "p_0")
			require.Contains(t, values(t, cfg.Bus, kind), "p_6000", "the complete file")
		})
	}
}

// removeGenerations converts a state directory to the format of releases without generations.
func removeGenerations(t *testing.T, dir string) {
	t.Helper()
	n := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".json" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		head, tail, found := strings.Cut(string(raw), `"generation":`)
		if !found {
			return nil
		}
		n++
		_, tail, _ = strings.Cut(strings.TrimLeft(tail, " "), `"`)
		_, tail, _ = strings.Cut(tail, `"`)
		if tail = strings.TrimLeft(tail, " "); strings.HasPrefix(tail, ",") {
			tail = tail[1:]
		} else {
			head = strings.TrimRight(head, " \n\t,")
		}
		return os.WriteFile(path, []byte(head+tail), 0o600)
	}))
	require.Equal(t, 2, n, "topics and a run or repository")
}

// The missing records are published by the next run.
func TestRun_ReportsDataLostByBrokers(t *testing.T) {
	kind := record.KindNetworkPerson
	cfg := withStateDir(t)
	_, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, []string{write(t, "f", []byte(people(400, 500)))})
	require.NoError(t, err)
	good := write(t, "good", []byte(people(0, 100)+"nonsense\n"))
	pipe := newGate()
	type result struct {
		summary ingest.Summary
		err     error
	}
	done := make(chan result, 1)
	go func() {
		s, err := ingest.Files(t.Context(), cfg, ingest.Deps{Stdin: pipe}, kind, []string{good, "-"})
		done <- result{s, err}
	}()
	_, err = io.WriteString(pipe.w, people(200, 300))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(values(t, cfg.Bus, kind)) == 300 }, 20*time.Second,
		10*time.Millisecond)

	// Another command connects to another cluster.
	other := cfg
	other.Bus = bus.Config{Brokers: brokertest.Start(t).Addrs()}
	_, err = ingest.Files(t.Context(), other, ingest.Deps{}, kind, []string{write(t, "f", []byte(people(0, 3)))})
	require.NoError(t, err)
	require.NoError(t, pipe.w.Close())
	first := <-done
	requireExit(t, ingest.ExitFailed, first.err)
	require.ErrorContains(t, first.err, "run it again to publish the missing records")
	require.ErrorContains(t, first.err, "1 record was rejected")
	runs, err := ingest.Runs(cfg.StateDir, 0)
	require.NoError(t, err)
	require.EqualValues(t, "stopped", runs[1].State)
	require.NotEmpty(t, runs[1].Error)
}

// The reset may be detected first by this run or by another command. The history is read again
// until all of it is stored.
func TestGit_RereadsHistoryAfterTopicReset(t *testing.T) {
	for name, between := range map[string]func(*testing.T, ingest.Config){
		"the same command": nil,
		"detected by a service": func(t *testing.T, cfg ingest.Config) {
			serve(t, cfg, ingest.Deps{})
		},
		"detected by another repository": func(t *testing.T, cfg ingest.Config) {
			r := newRepository(t)
			r.commit("Jane", jane, "z.go", "package z")
			_, err := ingest.Git(t.Context(), cfg, ingest.Deps{}, ingest.GitConfig{}, []string{r.dir})
			require.NoError(t, err)
		},
		"previous run was interrupted": func(t *testing.T, cfg ingest.Config) {
			// As if the process was killed before it recorded the end offsets.
			restarts, err := filepath.Glob(filepath.Join(cfg.StateDir, "git", "*.json"))
			require.NoError(t, err)
			require.Len(t, restarts, 1)
			before, err := os.ReadFile(restarts[0])
			require.NoError(t, err)
			var dir string
			_, dir, _ = strings.Cut(string(before), `"path": "`)
			dir, _, _ = strings.Cut(dir, `"`)
			_, err = ingest.Git(t.Context(), cfg, ingest.Deps{}, ingest.GitConfig{}, []string{dir})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(restarts[0], before, 0o600))
		},
	} {
		for _, old := range []bool{false, true} {
			if old {
				name += ", state without generation"
			}
			t.Run(name, func(t *testing.T) {
				cfg := withStateDir(t)
				r := newRepository(t)
				r.commit("Jane", jane, "a.go", "package a")
				r.commit("Jane", jane, "b.go", "package b")
				read := func() ingest.Counts {
					t.Helper()
					s, err := ingest.Git(t.Context(), cfg, ingest.Deps{}, ingest.GitConfig{}, []string{r.dir})
					require.NoError(t, err)
					return counts(s, record.KindCodehostCommit)
				}
				require.Equal(t, ingest.Counts{Read: 2, Published: 2}, read())
				if old {
					removeGenerations(t, cfg.StateDir)
				}
				require.Zero(t, read())
				dry := ingest.Config{StateDir: cfg.StateDir, DryRun: true}
				s, err := ingest.Git(t.Context(), dry, ingest.Deps{}, ingest.GitConfig{}, []string{r.dir})
				require.NoError(t, err)
				require.Zero(t, s.Total())
				cfg.Bus = bus.Config{Brokers: brokertest.Start(t).Addrs()} // an empty broker
				if between != nil {
					between(t, cfg)
				}
				require.Equal(t, int64(2), read().Read)
				require.GreaterOrEqual(t, len(values(t, cfg.Bus, record.KindCodehostCommit)), 2)
				require.Zero(t, read())
			})
		}
	}
}
