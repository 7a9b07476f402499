package queryapi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/polltest"
	queryapi "muster/query-api"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Also while their rows are still stored; pages are full without them.
func TestSearch_ExcludesErasedPeopleFromPagesAndTotals(t *testing.T) {
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) { d.Suppressed = set })
	f.insert(record.KindNetworkPerson, searchPeople()...)
	totals := func(want ...float64) {
		t.Helper()
		var got []any
		polltest.Until(t, waitTimeout, func() bool {
			got = nil
			for _, body := range []string{
				`{"query":{"match_all":{}},"size":0}`,
				`{"query":{"match":{"profile.headline":"data"}},"size":0,"sort":["_score"]}`,
				`{"query":{"match_all":{}},"size":2,"sort":["profile_id.keyword"]}`,
				`{"query":{"function_score":{"query":{"match":{"profile.headline":"data"}},"min_score":0}}}`,
			} {
				got = append(got, f.search(body)["total"])
			}
			for i, w := range want {
				if got[i] != w {
					return false
				}
			}
			return true
		}, "totals are %v, not %v", func() any { return got }, want)
		require.Len(t, f.search(`{"query":{"match_all":{}},"size":2,"sort":["profile_id.keyword"]}`)["results"], 2,
			"a page is full")
	}
	totals(5, 2, 5, 2)
	erase(t, set, suppress.NetworkUsername, "ada") // p1, and the first of the page
	totals(4, 1, 4, 1)
	erase(t, set, suppress.Email, "di@example.com")
	totals(3, 1, 3, 1)
	require.Equal(t, []string{"p2", "p3"},
		ids(f.search(`{"query":{"match_all":{}},"size":2,"sort":["profile_id.keyword"]}`)))
}
