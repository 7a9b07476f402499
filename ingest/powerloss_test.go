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
	"muster/platform/bus"
	"muster/platform/polltest"
	"muster/schemas/event"
	"muster/schemas/record"
)

// Brokers lose the end of their logs in a crash of the machine, while the state of ingest is complete.
func TestFiles_RepublishesAfterPowerLoss(t *testing.T) {
	for kind, c := range map[record.Kind]struct{ topic, lines string }{
		record.KindNetworkPerson: {record.KindNetworkPerson.Topic(), people(0, 5000)},
		record.KindErasure: {event.TopicErasure, strings.Repeat(erasureLine("ada@mail.example", "2026-11-20",
			false), 5000)},
	} {
		t.Run(string(kind), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "kafka")
			b := startBroker(t, dir, "127.0.0.1:0")
			cfg := ingest.Config{StateDir: t.TempDir(), Bus: bus.Config{Brokers: b.Addrs()}}
			file := filepath.Join(cfg.StateDir, "versions", "topics.json")
			recorded := func() map[string]any {
				topics := make(map[string]any)
				raw, err := os.ReadFile(file)
				if err != nil || json.Unmarshal(raw, &topics) != nil {
					return nil
				}
				return topics
			}
			// The boot ID is recorded while something is stored after the recorded end offsets.
			deps, stdin := erasures(t), newGate()
			deps.Stdin = stdin
			done := make(chan error, 1)
			go func() {
				_, err := ingest.Files(t.Context(), cfg, deps, kind, []string{"-"})
				done <- err
			}()
			first, _, _ := strings.Cut(c.lines, "\n")
			_, err := io.WriteString(stdin.w, first+"\n")
			require.NoError(t, err)
			var before map[string]any
			polltest.Until(t, 20*time.Second, func() bool {
				before = recorded()
				return before["boot"] != nil
			})
			require.NoError(t, stdin.w.Close())
			require.NoError(t, <-done)
			require.NotEmpty(t, before)
			require.NotContains(t, recorded(), "boot")
			require.NoError(t, b.Close())
			copied := dir + ".saved"
			require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))

			b = startBroker(t, dir, b.Addrs()[0])
			whole := gzipped(t, []byte(c.lines))
			path := write(t, "f", whole[:len(whole)-20])
			s, err := ingest.Files(t.Context(), cfg, erasures(t), kind, []string{path})
			requireExit(t, ingest.ExitFailed, err)
			require.NoError(t, b.Close())

			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.Rename(copied, dir))
			before["boot"] = "another"
			raw, err := json.Marshal(before)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, raw, 0o600))
			b = startBroker(t, dir, b.Addrs()[0])
			defer func() { require.NoError(t, b.Close()) }()
			stored := endOffsetSum(t, cfg.Bus, c.topic)
			deps = erasures(t)
			var log bytes.Buffer
			deps.Logger = logger(&log)
			second, err := ingest.Files(t.Context(), cfg, deps, kind, []string{path})
			requireExit(t, ingest.ExitFailed, err)
			require.Equal(t, s.Run, second.Run)
			require.Contains(t, log.String(), "the run restarts from the beginning")
			require.Equal(t, counts(second, kind).Published, endOffsetSum(t, cfg.Bus, c.topic)-stored)
			require.NotZero(t, counts(second, kind).Published)
		})
	}
}

// After the next boot nothing is published again.
func TestService_OrderlyStopKeepsDedupStore(t *testing.T) {
	cfg := withStateDir(t)
	file := filepath.Join(cfg.StateDir, "versions", "topics.json")
	t.Run("serve", func(t *testing.T) {
		s := serve(t, cfg, ingest.Deps{})
		require.Equal(t, 200, push(t, s, pushPath, strings.NewReader(people(0, 10))).status)
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(raw), `"boot"`)
	})
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(raw), `"boot"`)
}
