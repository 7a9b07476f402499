package ingest_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
)

// endOffsetSum returns the sum of the end offsets of topics: the number of messages ever stored.
func endOffsetSum(t testing.TB, cfg bus.Config, topics ...string) int64 {
	t.Helper()
	bounds, err := bus.EndOffsets(t.Context(), cfg, topics)
	require.NoError(t, err)
	var n int64
	for _, b := range bounds {
		n += b.End
	}
	return n
}

// versionBumps returns the messages on the topic of version bumps, the last one per key.
func versionBumps(t testing.TB, cfg bus.Config) map[string]event.VersionBump {
	t.Helper()
	out := map[string]event.VersionBump{}
	for _, m := range topic(t, cfg, event.TopicVersionBump) {
		s, _, err := event.ParseVersionBump(m.Value)
		require.NoError(t, err)
		require.Equal(t, s.MessageKey(), string(m.Key))
		e, err := bus.GetEvent(m.Headers)
		require.NoError(t, err)
		require.Equal(t, event.TypeSeen, e.Type)
		out[string(m.Key)] = s
	}
	return out
}

func withStateDir(t testing.TB) ingest.Config {
	t.Helper()
	return ingest.Config{Bus: bus.Config{Brokers: brokertest.Start(t).Addrs()}, StateDir: t.TempDir()}
}

// A refresh in which 2% of the records changed publishes exactly those, and version bumps for the others.
func TestRefresh_PublishesChangesAndVersionBumps(t *testing.T) {
	const n = 2000
	cfg := withStateDir(t)
	kind := record.KindNetworkPerson
	version := func(date string, changed int) string {
		var b strings.Builder
		for i := range n {
			name := "same"
			if i < changed {
				name = "of " + date
			}
			fmt.Fprintf(&b, `{"profile_id":"p_%d","last_updated":"%s","username":"user-%d","full_name":"%s"}`+"\n", i,
				date, i, name)
		}
		return b.String()
	}
	run := func(text string, want ingest.Counts) ingest.Summary {
		t.Helper()
		s, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, []string{write(t, "people", []byte(text))})
		require.NoError(t, err)
		require.True(t, s.Reconciles())
		require.Equal(t, want, counts(s, kind))
		return s
	}
	run(version("2026-01-01", 0), ingest.Counts{Read: n, Published: n})
	run(version("2026-01-01", 0), ingest.Counts{Read: n, Unchanged: n})
	run(version("2026-01-01T00:00:00Z", 0), ingest.Counts{Read: n, Unchanged: n})
	require.Equal(t, int64(n), endOffsetSum(t, cfg.Bus, kind.Topic()))
	require.Zero(t, endOffsetSum(t, cfg.Bus, event.TopicVersionBump))

	s := run(version("2026-02", 40), ingest.Counts{Read: n, Published: 40, VersionOnly: n - 40})
	require.Equal(t, int64(n+40), endOffsetSum(t, cfg.Bus, kind.Topic()))
	require.Contains(t, s.String(), "1,960")
	pairs := versionBumps(t, cfg.Bus)
	require.Len(t, pairs, n-40)
	require.Equal(t, int64(n-40), endOffsetSum(t, cfg.Bus, event.TopicVersionBump))
	require.Equal(t, "2026-02", pairs["network-person/p_1999"].Version, "as given")
	require.NotContains(t, pairs, "network-person/p_39")

	run(version("2026-01-15", 7), ingest.Counts{Read: n, Stale: n})
	// If versions tie, the first published record stays.
	run(version("2026-02", 0), ingest.Counts{Read: n, Unchanged: n - 40, Stale: 40, Conflicting: 40})

	cfg.Republish = true
	run(version("2026-03", 0), ingest.Counts{Read: n, Published: n})
	run(version("2026-01", 0), ingest.Counts{Read: n, Stale: n})
	cfg.Republish = false

	// Deletions are published completely, because they are small.
	reset := `{"profile_id":"p_1","last_updated":"%d","deleted":true}` + "\n"
	run(fmt.Sprintf(reset, 2027)+fmt.Sprintf(reset, 2028)+fmt.Sprintf(reset, 2027),
		ingest.Counts{Read: 3, Published: 2, Stale: 1})

	// Without the state everything is published.
	require.NoError(t, os.RemoveAll(cfg.StateDir))
	run(version("2026-03", 0), ingest.Counts{Read: n, Published: n})
}

// Lists are published completely.
func TestRefresh_ComparesExtractedRecordsSeparately(t *testing.T) {
	cfg := withStateDir(t)
	run := func(text string) ingest.Summary {
		t.Helper()
		s, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, record.KindCodehostPerson,
			[]string{write(t, "people", []byte(text+"\n"))})
		require.NoError(t, err)
		require.True(t, s.Reconciles())
		return s
	}
	person := `{"user_id":1,"last_updated":"%d","codehost_username":"u","repos_complete":true,"repos":[` +
		`{"id":1,"updated_at":"2026","name":"a"},{"id":2,"updated_at":"%d","name":"b"},{"id":3,` +
		`"updated_at":"2026","name":"%s"}]}`
	s := run(fmt.Sprintf(person, 2026, 2026, "c"))
	require.Equal(t, ingest.Counts{Extracted: 3, Published: 3}, counts(s, record.KindCodehostRepo))
	s = run(fmt.Sprintf(person, 2027, 2027, "c"))
	require.Equal(t, ingest.Counts{Read: 1, VersionOnly: 1}, counts(s, record.KindCodehostPerson))
	require.Equal(t, ingest.Counts{Extracted: 3, Unchanged: 2, Published: 1}, counts(s, record.KindCodehostRepo))
	require.Equal(t, ingest.Counts{Extracted: 1, Published: 1}, counts(s, record.KindCodehostList))
	s = run(fmt.Sprintf(person, 2025, 2020, "d"))
	require.Equal(t, ingest.Counts{Read: 1, Stale: 1}, counts(s, record.KindCodehostPerson))
	require.Equal(t, ingest.Counts{Extracted: 1, Stale: 1}, counts(s, record.KindCodehostList))
	c := counts(s, record.KindCodehostRepo)
	require.Equal(t, int64(3), c.Extracted)
	require.Equal(t, int64(1), c.Unchanged)
	require.Equal(t, int64(2), c.Stale+c.Published)
}

// For any versions in any order over several runs: the last record of a key, together with its last version bump,
// has its newest version and one of the contents of that version. All counts reconcile.
func TestRefresh_NewestVersionIsStoredLast(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 9))
			cfg := withStateDir(t)
			kind := record.KindNetworkPerson
			type state struct {
				version record.Version
				hash    uint64
			}
			newest := map[string]record.Version{}
			contents := map[string]map[state]bool{}
			var total ingest.Counts
			for range 5 {
				if r.IntN(4) == 0 {
					cfg.Lanes = 1 + r.IntN(9)
				}
				var paths []string
				for range 1 + r.IntN(3) { // read concurrently
					var b bytes.Buffer
					for range 400 {
						line := fmt.Sprintf(`{"profile_id":"%d","last_updated":"20%02d-01","username":"%c"}`,
							r.IntN(60), 10+r.IntN(12), 'a'+rune(r.IntN(3)))
						rec, err := record.Decode(kind, []byte(line))
						require.NoError(t, err)
						newest[rec.Key] = max(newest[rec.Key], rec.Version)
						if contents[rec.Key] == nil {
							contents[rec.Key] = map[state]bool{}
						}
						contents[rec.Key][state{rec.Version, rec.Hash}] = true
						b.WriteString(line + "\n")
					}
					paths = append(paths, write(t, fmt.Sprint(len(paths)), b.Bytes()))
				}
				s, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, paths)
				require.NoError(t, err)
				require.True(t, s.Reconciles())
				require.Zero(t, counts(s, kind).Unfinished)
				c := counts(s, kind)
				total.Published += c.Published
				total.VersionOnly += c.VersionOnly
			}
			pairs := versionBumps(t, cfg.Bus)
			last := values(t, cfg.Bus, kind)
			require.Len(t, last, len(newest))
			for key, want := range newest {
				rec, err := record.Decode(kind, []byte(last[key]))
				require.NoError(t, err)
				got := state{rec.Version, rec.Hash}
				if pair, ok := pairs[string(kind)+"/"+key]; ok && pair.Hash == rec.Hash {
					v, err := record.ParseVersion(pair.Version)
					require.NoError(t, err)
					got.version = max(got.version, v)
				}
				require.Equal(t, want, got.version, key)
				require.True(t, contents[key][got], key)
			}
			require.Equal(t, total.Published, endOffsetSum(t, cfg.Bus, kind.Topic()))
			require.Equal(t, total.VersionOnly, endOffsetSum(t, cfg.Bus, event.TopicVersionBump))
			require.NotZero(t, total.VersionOnly)
		})
	}
}

// Topics are refilled although every record was published before.
func TestRefresh_RefillsResetTopics(t *testing.T) {
	cfg := withStateDir(t)
	path := write(t, "people", []byte(people(0, 100)))
	run := func() ingest.Counts {
		s, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, record.KindNetworkPerson, []string{path})
		require.NoError(t, err)
		return counts(s, record.KindNetworkPerson)
	}
	require.Equal(t, ingest.Counts{Read: 100, Published: 100}, run())
	require.Equal(t, ingest.Counts{Read: 100, Unchanged: 100}, run())
	cfg.Bus = bus.Config{Brokers: brokertest.Start(t).Addrs()} // an empty broker
	require.Equal(t, ingest.Counts{Read: 100, Published: 100}, run())
	require.Equal(t, ingest.Counts{Read: 100, Unchanged: 100}, run())
}

// A dry run also lists what it would reject, and leaves no files.
func TestDryRun_CountsAndPublishesNothing(t *testing.T) {
	cfg := withStateDir(t)
	kind := record.KindNetworkPerson
	ctx := t.Context()
	_, err := ingest.Files(ctx, cfg, ingest.Deps{}, kind, []string{write(t, "people", []byte(people(0, 100)))})
	require.NoError(t, err)
	text := people(50, 150) + people(140, 150) + "{\n" + strings.ReplaceAll(people(0, 10), "2026-01-02", "2026-01-03")
	path := write(t, "more", []byte(text))
	want := ingest.Counts{Read: 121, Published: 50, Unchanged: 60, VersionOnly: 10, Rejected: 1}

	stored := endOffsetSum(t, cfg.Bus, kind.Topic(), event.TopicVersionBump, event.TopicRejected)
	dry := ingest.Config{StateDir: cfg.StateDir, DryRun: true} // without brokers
	for range 2 {
		var rejected []event.Rejected
		deps := ingest.Deps{Rejected: func(r event.Rejected) { rejected = append(rejected, r) }}
		s, err := ingest.Files(ctx, dry, deps, kind, []string{path})
		requireExit(t, ingest.ExitRejected, err)
		require.Equal(t, want, counts(s, kind))
		require.Len(t, rejected, 1)
		require.Equal(t, int64(111), rejected[0].Source.Line)
	}
	require.Equal(t, stored, endOffsetSum(t, cfg.Bus, kind.Topic(), event.TopicVersionBump, event.TopicRejected))
	runs, err := ingest.Runs(cfg.StateDir, 0)
	require.NoError(t, err)
	require.Len(t, runs, 1)

	s, err := ingest.Files(ctx, cfg, ingest.Deps{}, kind, []string{path})
	requireExit(t, ingest.ExitRejected, err)
	require.Equal(t, want, counts(s, kind))

	nothing, err := ingest.Files(ctx, ingest.Config{DryRun: true}, ingest.Deps{}, kind, []string{path})
	requireExit(t, ingest.ExitRejected, err)
	require.Equal(t, ingest.Counts{Read: 121, Published: 110, VersionOnly: 0, Unchanged: 10, Rejected: 1},
		counts(nothing, kind))
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "muster-dry-run-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
