package ingest_test

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/schemas/record"
)

// A stopped run without Republish is not resumed by a run with it, and a run with it keeps the option.
func TestRun_RepublishResumesAsRepublish(t *testing.T) {
	const n = 20_000
	cfg := withStateDir(t)
	kind := record.KindNetworkPerson
	half := gzipped(t, []byte(people(0, n/2)))
	require.Greater(t, len(half), 64<<10, "file recognized by its first bytes")
	whole := append(half, gzipped(t, []byte(people(n/2, n)))...)
	damaged := slices.Clone(whole)
	damaged[len(half)] = 0 // the header of the second half
	path := write(t, "people.ndjson.gz", damaged)
	was, err := os.Stat(path)
	require.NoError(t, err)
	plain, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, []string{path})
	requireExit(t, ingest.ExitFailed, err)
	stored := endOffsetSum(t, cfg.Bus, kind.Topic())
	require.Equal(t, int64(n/2), stored)

	cfg.Republish, cfg.RunID = true, "run-2"
	second, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, []string{path})
	requireExit(t, ingest.ExitFailed, err)
	require.NotEqual(t, plain.Run, second.Run)
	require.Equal(t, 2*stored, endOffsetSum(t, cfg.Bus, kind.Topic()))

	cfg.Republish, cfg.RunID = false, "run-3"
	_, err = ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, []string{write(t, "known", []byte(people(0, n)))})
	require.NoError(t, err)
	before := endOffsetSum(t, cfg.Bus, kind.Topic())
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	require.NoError(t, os.Chtimes(path, was.ModTime(), was.ModTime()))
	resumed, err := ingest.Resume(t.Context(), cfg, ingest.Deps{}, second.Run)
	require.NoError(t, err)
	require.Equal(t, second.Run, resumed.Run)
	require.Equal(t, ingest.Counts{Read: n, Published: n}, counts(resumed, kind))
	require.Equal(t, before+n-stored, endOffsetSum(t, cfg.Bus, kind.Topic()))
}

// An erasure that was withdrawn has deleted what was published, so all ways to ingest can republish.
func TestRepublish_PushAndGit(t *testing.T) {
	t.Run("push", func(t *testing.T) {
		cfg := withStateDir(t)
		s := serve(t, cfg, ingest.Deps{})
		stored := func() int64 { return endOffsetSum(t, cfg.Bus, record.KindNetworkPerson.Topic()) }
		for range 2 {
			require.Equal(t, http.StatusOK, push(t, s, pushPath, strings.NewReader(people(0, 10))).status)
			require.Equal(t, int64(10), stored())
		}
		require.Equal(t, http.StatusOK, push(t, s, pushPath+"?again=true", strings.NewReader(people(0, 10))).status)
		require.Equal(t, int64(20), stored())
		invalid := []string{
			"again=yes", "again=true&again=true", "Again=true", "again=true&full=true", "again=%zz", "again=true;x",
		}
		for _, query := range invalid {
			require.Equal(t, http.StatusBadRequest,
				push(t, s, pushPath+"?"+query, strings.NewReader(people(0, 10))).status, query)
		}
		require.Equal(t, http.StatusOK, push(t, s, pushPath+"?again=false", strings.NewReader(people(0, 10))).status)
		require.Equal(t, int64(20), stored())
	})
	t.Run("git", func(t *testing.T) {
		cfg := withStateDir(t)
		r := newRepository(t)
		r.commit("Jane", jane, "a.go", "package a")
		for i, republish := range []bool{false, true, false} {
			cfg.Republish = republish
			_, err := ingest.Git(t.Context(), cfg, ingest.Deps{}, ingest.GitConfig{}, []string{r.dir})
			require.NoError(t, err)
			require.Equal(t, []int64{1, 2, 2}[i], endOffsetSum(t, cfg.Bus, record.KindCodehostCommit.Topic()))
		}
	})
}

// A service whose topics others may publish to shares the deduplication store with file runs in the
// same directory: older records are skipped, content that has changed in between is published, and
// so are complete records of which only the version is new.
func TestPush_WholePublishesVersionBumpsAsRecords(t *testing.T) {
	cfg := withStateDir(t)
	kind := record.KindNetworkPerson
	person := func(name, version string) string {
		return `{"profile_id":"p_1","last_updated":"` + version + `","username":"ada",` +
			`"full_name":"` + name + `"}` + "\n"
	}
	whole := cfg
	whole.FullRecords = true
	s := serve(t, whole, ingest.Deps{})
	file := func(text string) ingest.Counts {
		t.Helper()
		sum, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, []string{write(t, "f", []byte(text))})
		require.NoError(t, err)
		return counts(sum, kind)
	}
	pushed := func(text string) int64 {
		t.Helper()
		before := endOffsetSum(t, cfg.Bus, kind.Topic())
		require.Equal(t, http.StatusOK, push(t, s, pushPath, strings.NewReader(text)).status)
		return endOffsetSum(t, cfg.Bus, kind.Topic()) - before
	}
	require.Equal(t, int64(1), file(person("A", "2026-01")).Published)
	require.Equal(t, int64(1), pushed(person("B", "2026-02")))
	require.Equal(t, int64(1), file(person("A", "2026-03")).Published)
	require.Equal(t, int64(1), pushed(person("A", "2026-04")), "only the version is new")
	require.Equal(t, int64(1), file(person("A", "2026-05")).VersionOnly)
	require.Zero(t, pushed(person("A", "2026-05")))
	require.Zero(t, pushed(person("B", "2026-02")), "older")
	require.Equal(t, int64(1), pushed(`{"profile_id":"p_1","last_updated":"2026-06","deleted":true}`+"\n"))
	require.Equal(t, int64(1), file(person("A", "2026-07")).Published)
	require.Contains(t, values(t, cfg.Bus, kind)["p_1"], `"2026-07"`)
}
