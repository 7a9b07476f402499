package queryapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

// insertGroups inserts people with three countries, numbers of connections, and none of both.
func insertGroups(f *fixture) {
	f.t.Helper()
	var people []string
	for i := range 40 {
		members := fmt.Sprintf(`"headline":"group engineer%s"`, times(i%7, func(int) string { return " group" }))
		if i%4 > 0 {
			members += fmt.Sprintf(`,"location":{"country":"Country %d"},"connections":%d`, i%4, i%5)
		}
		people = append(people, networkPerson(fmt.Sprintf("g%02d", i), fmt.Sprintf("g%02d", i), "2026-01-01", members))
	}
	f.insert(record.KindNetworkPerson, people...)
}

// pageQueries are searches in several orders.
func pageQueries() []string {
	return []string{
		`"query":{"match":{"profile.headline":"group"}}`, `"query":{"match_all":{}}`,
		`"query":{"match":{"profile.headline":"group"}},"sort":[{"profile.connections":"desc"}]`,
		`"query":{"match":{"profile.headline":"group"}},"sort":[{"profile.full_name.keyword":"asc"},"_score"]`,
	}
}

// The expected page is cut from the page of all people.
func TestSearch_FromSkipsResults(t *testing.T) {
	f := start(t, nil)
	insertGroups(f)
	for _, query := range pageQueries() {
		all := ids(f.search(`{` + query + `,"size":100}`))
		require.Len(t, all, 40, query)
		for _, from := range []int{0, 1, 10, 37, 39} {
			page := f.search(fmt.Sprintf(`{%s,"from":%d,"size":3}`, query, from))
			want := all[from:min(from+3, len(all))]
			require.Equal(t, want, ids(page), "%s from %d", query, from)
			require.EqualValues(t, 40, page["total"])
			require.EqualValues(t, len(want), page["credits_charged"])
			if from+3 >= len(all) {
				require.Nil(t, page["next_cursor"])
				continue
			}
			rest := f.search(fmt.Sprintf(`{%s,"size":100,"cursor":%q}`, query, page["next_cursor"]))
			require.Equal(t, all[from+3:], ids(rest), "the cursor leads on from there")
		}
		require.Empty(t, f.search(`{` + query + `,"from":40}`)["results"])
		require.Empty(t, f.search(`{` + query + `,"from":9990,"size":10}`)["results"], "at the end of the window")
	}
}

// The expected page has the first person of each group of the page of all people.
func TestSearch_CollapseReturnsTheFirstOfEachGroup(t *testing.T) {
	f := start(t, nil)
	insertGroups(f)
	for _, query := range pageQueries() {
		for field, value := range map[string]func(person map[string]any) any{
			"profile.connections": func(person map[string]any) any { return person["connections"] },
			"profile.location.country.keyword": func(person map[string]any) any {
				location, _ := person["location"].(map[string]any)
				return location["country"]
			},
		} {
			var want []string
			seen := map[any]bool{}
			for _, r := range f.search(`{` + query + `,"size":100}`)["results"].([]any) {
				person := r.(map[string]any)
				group := value(person["profile"].(map[string]any))
				if !seen[group] {
					want = append(want, person["profile_id"].(string))
				}
				seen[group] = true
			}
			page := f.search(fmt.Sprintf(`{%s,"collapse":{"field":%q},"size":100}`, query, field))
			require.Equal(t, want, ids(page), "%s by %s", query, field)
			require.EqualValues(t, 40, page["total"], "the number of people")
			require.Nil(t, page["next_cursor"])
			second := f.search(fmt.Sprintf(`{%s,"collapse":{"field":%q},"size":2,"from":1}`, query, field))
			require.Equal(t, want[1:3], ids(second), "%s by %s from 1", query, field)
			require.Nil(t, second["next_cursor"])
		}
	}
}

func TestSearch_ScoresAreReturned(t *testing.T) {
	f := start(t, nil)
	insertGroups(f)
	scores := func(body string) (list []any) {
		for _, r := range f.search(body)["results"].([]any) {
			list = append(list, r.(map[string]any)["_score"])
		}
		return list
	}
	const query = `"query":{"match":{"profile.headline":"group"}},"size":40`
	best := scores(`{` + query + `}`)
	require.Positive(t, best[0])
	byScore := func(a, b any) int { return int(b.(float64)*1e4) - int(a.(float64)*1e4) }
	require.True(t, slices.IsSortedFunc(best, byScore))
	byName := `,"sort":["profile_id.keyword"]`
	require.Equal(t, make([]any, 40), scores(`{`+query+byName+`}`), "no scores in another order")
	tracked := scores(`{` + query + byName + `,"track_scores":true}`)
	require.ElementsMatch(t, best, tracked)
	require.NotEqual(t, best, tracked)
	require.Equal(t, slices.Repeat([]any{1.0}, 40), scores(`{"query":{"match_all":{}},"size":40}`))

	// All pages have the scores of the first one.
	first := f.search(`{"query":{"match":{"profile.headline":"group"}},"size":25,"track_scores":true` + byName + `}`)
	next := fmt.Sprintf(`{"query":{"match":{"profile.headline":"group"}},"size":25,"cursor":%q`+byName,
		first["next_cursor"])
	require.Equal(t, tracked[25:], scores(next+`,"track_scores":true}`))
	refused := f.post("/v1/person/search", next+`}`)
	require.Equal(t, http.StatusBadRequest, refused.status)
	require.Contains(t, refused.detail(), "another query")
}

func TestSearch_NamesOfMatchingClausesAreReturned(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	page := f.search(`{"query":{"bool":{"_name":"all","should":[
		{"match":{"profile.headline":{"query":"data","_name":"data"}}},
		{"fuzzy":{"profile.headline":{"value":"enginere","_name":"fuzzy"}}},
		{"term":{"profile.connections":{"value":10,"_name":"ten"}}},
		{"terms":{"profile.location.country.keyword":["Germany"],"_name":"country"}},
		{"nested":{"path":"experience","_name":"jobs","inner_hits":{},"query":{"term":{"experience.title.keyword":"Writer"}}}},
		{"exists":{"field":"profile.personal_email","_name":"data"}}
	],"must_not":{"ids":{"values":["p5"],"_name":"not"}}}},"sort":["profile_id.keyword"]}`)
	got := map[string][]any{}
	for _, r := range page["results"].([]any) {
		person := r.(map[string]any)
		got[person["profile_id"].(string)], _ = person["matched_queries"].([]any)
	}
	want := map[string][]any{
		"p1": {"fuzzy", "jobs", "all"}, "p2": {"fuzzy", "ten", "country", "all"}, "p3": {"all"}, // data is the second of
		"p4": {"data", "all"}, // its name
	}
	require.Len(t, got, len(want))
	for id, names := range want {
		require.ElementsMatch(t, names, got[id], id)
	}
	plain := f.search(`{"query":{"match":{"profile.headline":"data"}}}`)
	require.NotContains(t, plain["results"].([]any)[0], "matched_queries")
}

func TestSearch_InvalidPageOptionsAreRejected(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	cursor := f.search(`{"query":{"match_all":{}},"size":1}`)["next_cursor"]
	for _, tc := range []struct{ rest, want string }{
		{`"from":-1`, "from is -1"}, {`"from":10001,"size":0`, "from is 10001"},
		{`"from":9991`, "from + size is 10001: it must be at most 10000"},
		{fmt.Sprintf(`"from":1,"cursor":%q`, cursor), "from cannot be used with cursor"},
		{fmt.Sprintf(`"collapse":{"field":"profile.connections"},"cursor":%q`, cursor),
			"collapse cannot be used with a cursor"},
		{`"collapse":{}`, `collapse: needs "field"`}, {`"collapse":{"field":"updated_at"}`,
			"only keywords and numbers"},
		{`"collapse":{"field":"profile.headline"}`, "use profile.headline.keyword"},
		{`"collapse":{"field":"experience.title.keyword"}`, "several values of experience.title.keyword"},
		{`"collapse":{"field":"_id"}`, "omit collapse"}, {`"collapse":{"field":"x"}`, "unknown field"},
		{`"collapse":{"field":"profile.connections","inner_hits":{}}`, "collapse.inner_hits: is not supported"},
	} {
		refused := f.post("/v1/person/search", `{"query":{"match_all":{}},`+tc.rest+`}`)
		require.Equal(t, http.StatusBadRequest, refused.status, tc.rest)
		require.Contains(t, refused.detail(), tc.want)
	}
	for _, name := range []string{`""`, `1`, `null`, fmt.Sprintf("%q", times(257, func(int) string { return "x" }))} {
		refused := f.post("/v1/person/search",
			`{"query":{"match":{"profile.headline":{"query":"a","_name":`+name+`}}}}`)
		require.Equal(t, http.StatusBadRequest, refused.status, name)
		require.Contains(t, refused.detail(), "query.match.profile.headline._name: must be a string of 1 to 256 bytes")
	}
}
