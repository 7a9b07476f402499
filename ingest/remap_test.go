package ingest_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
)

// revisions returns the mapping revision of the last message of each key, 0 without the header.
func revisions(t testing.TB, cfg bus.Config, kind record.Kind) map[string]uint32 {
	t.Helper()
	out := make(map[string]uint32)
	for _, m := range topic(t, cfg, kind.Topic()) {
		out[string(m.Key)] = 0
		for _, h := range m.Headers {
			if h.Key == event.HeaderRevision {
				revision, err := event.ParseRevision(h.Value)
				require.NoError(t, err)
				out[string(m.Key)] = revision
			}
		}
	}
	return out
}

const (
	beforeMapping = `record("network-person"; {profile_id: .id, username: .nick, full_name: .name, last_updated: .day})`
	afterMapping  = `record("network-person"; {profile_id: .id, username: .nick, full_name: .name, headline: ` +
		`.job, last_updated: .day})`
)

// workers returns n rows of people with jobs.
func workers(n int) []byte {
	var b strings.Builder
	b.WriteString("id,nick,name,job,day\n")
	for i := range n {
		fmt.Fprintf(&b, "mc-%d,mapped-%d,Person %d,Weaver %d,2026-02-01\n", i, i, i, i)
	}
	return []byte(b.String())
}

func TestRemap_ReplacesAllRecordsOfTheSameVersion(t *testing.T) {
	const n = 40
	kind := record.KindNetworkPerson
	cfg := withStateDir(t)
	file := write(t, "people.csv", workers(n))
	run := func(program string, remap bool, want ingest.Counts) ingest.Summary {
		t.Helper()
		cfg.Mapping, cfg.Remap = write(t, "mapping.jq", []byte(program)), remap
		s, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, "", []string{file})
		require.NoError(t, err)
		require.True(t, s.Reconciles())
		require.Equal(t, want, counts(s, kind))
		return s
	}
	headlines := func() int {
		count := 0
		for _, value := range values(t, cfg.Bus, kind) {
			count += strings.Count(value, `"headline"`)
		}
		return count
	}
	run(beforeMapping, false, ingest.Counts{Extracted: n, Published: n})
	s := run(afterMapping, false, ingest.Counts{Extracted: n, Stale: n, Conflicting: n})
	require.Contains(t, s.String(), "(same version)")
	require.Zero(t, headlines(), "no record is replaced")

	run(afterMapping, true, ingest.Counts{Extracted: n, Published: n})
	require.Equal(t, n, headlines())
	first := revisions(t, cfg.Bus, kind)["mc-1"]
	require.NotZero(t, first)

	run(afterMapping, true, ingest.Counts{Extracted: n, Unchanged: n})
	run(afterMapping, false, ingest.Counts{Extracted: n, Unchanged: n})
	run(beforeMapping, false, ingest.Counts{Extracted: n, Stale: n, Conflicting: n})
	run(beforeMapping, true, ingest.Counts{Extracted: n, Published: n})
	require.Zero(t, headlines())
	last := revisions(t, cfg.Bus, kind)["mc-1"]
	require.Greater(t, last, first, "within the same second")
	cfg.Republish = true
	run(beforeMapping, false, ingest.Counts{Extracted: n, Published: n})
	require.Equal(t, last, revisions(t, cfg.Bus, kind)["mc-1"])
}

// A dry run counts conflicts, and what Remap would publish.
func TestRemap_DryRunCountsReplacedRecords(t *testing.T) {
	kind := record.KindNetworkPerson
	cfg := withStateDir(t)
	old := write(t, "old.ndjson", []byte(`{"profile_id":"1","username":"a","last_updated":"2026"}`+"\n"))
	_, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, []string{old})
	require.NoError(t, err)
	changed := write(t, "new.ndjson", []byte(`{"profile_id":"1","username":"b","last_updated":"2026"}`+"\n"))
	cfg.DryRun = true
	s, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, []string{changed})
	require.NoError(t, err)
	require.Equal(t, ingest.Counts{Read: 1, Stale: 1, Conflicting: 1}, counts(s, kind))
	cfg.Remap = true
	s, err = ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, []string{changed})
	require.NoError(t, err)
	require.Equal(t, ingest.Counts{Read: 1, Published: 1}, counts(s, kind))
}

// The order is version, mapping revision, deletion.
func TestRemap_ReplacesNothingNewer(t *testing.T) {
	kind := record.KindNetworkPerson
	cfg := withStateDir(t)
	run := func(remap bool, line string) ingest.Counts {
		t.Helper()
		cfg.Remap = remap
		s, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, []string{write(t, "x", []byte(line+"\n"))})
		require.NoError(t, err)
		return counts(s, kind)
	}
	published := ingest.Counts{Read: 1, Published: 1}
	require.Equal(t, published, run(false, `{"profile_id":"1","username":"a","last_updated":"2026-02"}`))
	require.Equal(t, ingest.Counts{Read: 1, Stale: 1},
		run(true, `{"profile_id":"1","username":"b","last_updated":"2026-01"}`))
	require.Equal(t, published, run(false, `{"profile_id":"1","last_updated":"2026-02","deleted":true}`))
	require.Equal(t, ingest.Counts{Read: 1, Stale: 1},
		run(false, `{"profile_id":"1","username":"b","last_updated":"2026-02"}`),
		"a deletion is not a content conflict")
	require.Equal(t, published, run(true, `{"profile_id":"1","username":"b","last_updated":"2026-02"}`))
	require.Equal(t, ingest.Counts{Read: 1, Stale: 1, Conflicting: 1},
		run(false, `{"profile_id":"1","last_updated":"2026-02","deleted":true}`))
	require.Equal(t, published, run(true, `{"profile_id":"1","last_updated":"2026-02","deleted":true}`))
	require.Equal(t, published, run(false, `{"profile_id":"1","username":"c","last_updated":"2026-03"}`))
}

func TestRemap_CoversExtractedRecords(t *testing.T) {
	cfg := withStateDir(t)
	cfg.Remap = true
	_, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, record.KindCodehostPerson, []string{write(t, "x", []byte(
		`{"user_id":1,"codehost_username":"u","last_updated":"2026","repos_complete":true,"repos":[{"id":2,`+
			`"updated_at":"2026"}]}`+"\n",
	))})
	require.NoError(t, err)
	revision := revisions(t, cfg.Bus, record.KindCodehostPerson)["1"]
	require.NotZero(t, revision)
	require.Equal(t, map[string]uint32{"1/2": revision}, revisions(t, cfg.Bus, record.KindCodehostRepo))
	require.Equal(t, map[string]uint32{"1/repos": revision}, revisions(t, cfg.Bus, record.KindCodehostList))
}

func TestRemap_ResumedRunKeepsItsRevision(t *testing.T) {
	const n = 20_000
	kind := record.KindNetworkPerson
	cfg := withStateDir(t)
	cfg.Remap = true
	half := gzipped(t, []byte(people(0, n/2)))
	whole := append(half, gzipped(t, []byte(people(n/2, n)))...)
	damaged := append([]byte(nil), whole...)
	damaged[len(half)] = 0 // the header of the second half
	path := write(t, "people.ndjson.gz", damaged)
	was, err := os.Stat(path)
	require.NoError(t, err)
	stopped, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, []string{path})
	requireExit(t, ingest.ExitFailed, err)
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	require.NoError(t, os.Chtimes(path, was.ModTime(), was.ModTime()))
	cfg.Remap = false
	later := ingest.Deps{Now: func() time.Time { return time.Now().Add(time.Hour) }}
	resumed, err := ingest.Resume(t.Context(), cfg, later, "")
	require.NoError(t, err)
	require.Equal(t, stopped.Run, resumed.Run)
	require.Equal(t, ingest.Counts{Read: n, Published: n}, counts(resumed, kind))
	all := revisions(t, cfg.Bus, kind)
	require.Len(t, all, n)
	for key, revision := range all {
		require.Equal(t, all["p_0"], revision, key)
	}
	require.NotZero(t, all["p_0"])
}

func TestPush_RemapReplacesTheSameVersion(t *testing.T) {
	cfg := withStateDir(t)
	s := serve(t, cfg, ingest.Deps{})
	pushed := func(query, username string) (published, conflicting int64) {
		t.Helper()
		a := push(t, s, pushPath+query,
			strings.NewReader(`{"profile_id":"1","username":"`+username+`","last_updated":"2026"}`))
		require.Equal(t, http.StatusOK, a.status)
		return a.Counts[0].Published, a.Counts[0].Conflicting
	}
	for _, c := range []struct {
		query, username        string
		published, conflicting int64
	}{{"", "a", 1, 0}, {"?remap=false", "b", 0, 1}, {"?remap=true", "b", 1, 0}, {"?remap=true", "a", 1, 0}} {
		published, conflicting := pushed(c.query, c.username)
		require.Equal(t, c.published, published, c.query)
		require.Equal(t, c.conflicting, conflicting, c.query)
	}
	require.Equal(t, http.StatusBadRequest, push(t, s, pushPath+"?remap=1", strings.NewReader("")).status)
}
