package queryapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/polltest"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// sentinelQueries match the words and values of a person by prefix, pattern and fuzziness. found is the number of terms
// that each expands to.
// Queries without an own list of terms have 0.
func sentinelQueries() map[string]int {
	return map[string]int{
		`{"regexp":{"profile.personal_email.keyword":"@&.+nel.*"}}`:                                              1,
		`{"regexp":{"profile.personal_email.keyword":{"value":"@&.+nel.*","rewrite":"top_terms_10"}}}`:           1,
		`{"prefix":{"profile.personal_email.keyword":{"value":"sen","rewrite":"top_terms_1024"}}}`:               1,
		`{"wildcard":{"profile.personal_email.keyword":"s*"}}`:                                                   0,
		`{"wildcard":{"profile.headline":"se*"}}`:                                                                2,
		`{"fuzzy":{"profile.headline":"sentinxl"}}`:                                                              1,
		`{"fuzzy":{"profile.headline":{"value":"sentinxl","rewrite":"constant_score"}}}`:                         1,
		`{"match":{"profile.headline":{"query":"sentinxl sentinelx","fuzziness":1}}}`:                            1,
		`{"match_phrase_prefix":{"profile.headline":"quiet sen"}}`:                                               1,
		`{"match_phrase_prefix":{"profile.headline":"sen"}}`:                                                     1,
		`{"query_string":{"query":"sen* OR sentinxl~1","default_field":"profile.headline"}}`:                     1,
		`{"nested":{"path":"experience","query":{"wildcard":{"experience.title":"*ntine*"}}}}`:                   1,
		`{"nested":{"path":"experience","query":{"regexp":{"experience.title":"~(a)&sen.*"}}}}`:                  1,
		`{"bool":{"must":[{"prefix":{"profile.full_name.keyword":{"value":"S","rewrite":"scoring_boolean"}}}]}}`: 1,
	}
}

func sentinel() string {
	return `{"profile_id":"sentinel-id","last_updated":"2026-01-01","username":"quiet","full_name":"Sentinel Q",` +
		`"headline":"Quiet sentinel selects","emails":["sentinel@example.com"],` +
		`"experience":[{"title":"sentinels","company":{"name":"Acme"}}]}`
}

func TestExplain_RevealsNoStoredTerms(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, append(searchPeople(), sentinel())...)
	for query, terms := range sentinelQueries() {
		f.useNewKey() // explanations of addresses are limited for each key
		for _, rest := range []string{``, `,"size":0`, `,"sort":["profile_id.keyword"]`,
			`,"sort":[{"experience.title.keyword":{"nested":{"path":"experience","filter":{"wildcard":` +
				`{"experience.title":"*inel*"}}}}}]`} {
			body := `{"query":` + query + rest + `}`
			r := f.post("/v1/person/search/explain", body)
			require.NotContains(t, r.json(), "refused", body)
			require.NotContains(t, unasked(r.body), "sentinel", body)
			if terms > 0 {
				require.Contains(t, r.body, fmt.Sprintf(`"terms_found":%d`, terms), body)
				require.Contains(t, r.body, "<term 1>", body)
			}
			require.NotZero(t, r.json()["estimated_rows"], body)
		}
	}
	f.useNewKey()
	second := strings.Replace(sentinel(), "sentinel-id", "other-id", 1)
	f.insert(record.KindNetworkPerson, second)
	body := `{"query":{"fuzzy":{"profile.headline":"sentinxl"}},"size":1`
	r := f.post("/v1/person/search/explain", body+fmt.Sprintf(`,"cursor":%q}`, f.search(body + "}")["next_cursor"]))
	require.NotContains(t, unasked(r.body), "sentinel")
	require.Contains(t, r.body, `"terms_found":1`)
	require.Contains(t, r.body, "<term 1>")
	// The caller's own words are included.
	require.Contains(t, f.post("/v1/person/search/explain",
		`{"query":{"match_phrase_prefix":{"profile.headline":"quiet sen"}}}`).body, "quiet")
}

// unasked returns an explanation without the query words that resemble stored ones.
func unasked(explanation string) string {
	return strings.ToLower(strings.NewReplacer("sentinelx", "", "sentinxl", "").Replace(explanation))
}

func TestExplain_RevealsNoTermsOfErasedPerson(t *testing.T) {
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) { d.Suppressed = set })
	f.insert(record.KindNetworkPerson, append(searchPeople(), sentinel())...)
	erase(t, set, suppress.Email, "sentinel@example.com")
	becomesTotal(t, f, 5)
	for query, terms := range sentinelQueries() {
		r := f.post("/v1/person/search/explain", `{"query":`+query+`}`)
		require.NotContains(t, r.json(), "refused", query)
		require.Equal(t, terms > 0, strings.Contains(r.body, `"terms_found":0`), query)
		require.NotContains(t, r.body, `"terms_found":1`, query)
		require.NotContains(t, unasked(r.body), "sentinel", query)
	}
}

// becomesTotal waits until the total has a value.
func becomesTotal(t *testing.T, f *fixture, want float64) {
	t.Helper()
	var total any
	polltest.Until(t, waitTimeout, func() bool {
		total = f.search(`{"query":{"match_all":{}},"size":0}`)["total"]
		return total == want
	}, "%v people are found, not %v", func() any { return total }, want)
}

// useNewKey makes further calls with a key whose limits are unused.
func (f *fixture) useNewKey() {
	f.t.Helper()
	f.key = f.newKey(queryapi.KeyOptions{Name: "another", Scopes: event.Scopes()})
	waitForStatus(f.t, http.StatusOK, func() response { return f.get("/v1/usage") })
}
