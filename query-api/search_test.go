package queryapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/schemas/record"
)

// searchPeople returns five people with known values.
func searchPeople() []string {
	return []string{
		`{"profile_id":"p1","last_updated":"2026-01-01","username":"ada","full_name":"Ada Lovelace",` +
			`"first_name":"Ada","headline":"Data engineer and data lover","connections":500,` +
			`"location":{"country":"United Kingdom","country_code":"GB"},"experience":[{"title":"Engineer",` +
			`"company":{"name":"Analytical"},"current":true,"start":"1840"},{"title":"Writer",` +
			`"company":{"name":"Acme"},"start":"1830","end":"1835"}]}`,
		`{"profile_id":"p2","last_updated":"2026-02-01","username":"bob","full_name":"Bob Data","headline":"Software ` +
			`engineer","connections":10,"location":{"country":"Germany"},"experience":[{"title":"Engineer",` +
			`"company":{"name":"Acme"},"current":false,"start":"2010-05","end":"2012"}],` +
			`"languages":[{"language":"German","proficiency":"native"}]}`,
		`{"profile_id":"p3","last_updated":"2026-03-01","username":"cy","full_name":"Cy \"Quote\\\\' Tab\there",` +
			`"headline":"Data","connections":20}`,
		`{"profile_id":"p4","last_updated":"2026-04-01","username":"di","full_name":"Di","headline":"!!!",` +
			`"emails":["di@example.com"]}`,
		`{"profile_id":"p5","last_updated":"2026-05-01","username":"ed","full_name":"Ed","deleted":false,` +
			`"experience":[{"title":"Data engineer","company":{"name":"Acme"}},{"title":"Data steward",` +
			`"company":{"name":"Globex"}}]}`,
	}
}

func (f *fixture) search(body string) map[string]any {
	f.t.Helper()
	return f.post("/v1/person/search", body).json()
}

// ids returns the people of a response, in order.
func ids(answer map[string]any) []string {
	var out []string
	for _, r := range answer["results"].([]any) {
		out = append(out, r.(map[string]any)["profile_id"].(string))
	}
	return out
}

func TestSearch(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	f.insert(
		record.KindNetworkPerson,
		`{"profile_id":"p2","last_updated":"2025-02-01","username":"bob","headline":"late and old, must not be found: data"}`,
	)
	f.insert(record.KindNetworkPerson,
		`{"profile_id":"p6","last_updated":"2026-02-01","username":"gone","headline":"data"}`,
		`{"profile_id":"p6","last_updated":"2026-03-01","deleted":true}`)

	for _, c := range []struct {
		query string
		want  []string // sorted by profile.id unless sort is in the query
	}{
		{`{"match_all":{}}`, []string{"p1", "p2", "p3", "p4", "p5"}},
		{`{"match_none":{}}`, nil},
		{`{"match":{"profile.headline":"data"}}`, []string{"p1", "p3"}},
		{`{"match":{"profile.headline":{"query":"data engineer","operator":"and"}}}`, []string{"p1"}},
		{`{"match":{"profile.headline":"DATA engineer"}}`, []string{"p1", "p2", "p3"}},
		{`{"term":{"profile.headline":"Data"}}`, nil},
		{`{"term":{"profile.headline.keyword":"Data"}}`, []string{"p3"}},
		{`{"term":{"profile.headline.keyword":{"value":"data","case_insensitive":true}}}`, []string{"p3"}},
		{`{"terms":{"profile.connections":[10,"20",7.5]}}`, []string{"p2", "p3"}},
		{`{"terms":{"profile.location.country.keyword":["Germany","France"]}}`, []string{"p2"}},
		{`{"term":{"profile.full_name.keyword":"Cy \"Quote\\\\' Tab\there"}}`, []string{"p3"}},
		{`{"range":{"profile.connections":{"gt":10,"lte":500}}}`, []string{"p1", "p3"}},
		{`{"range":{"updated_at":{"gte":"2026-03-01","lt":"2026-05"}}}`, []string{"p3", "p4"}},
		{`{"range":{"experience.start_date":{"lt":"1900"}}}`, []string{"p1"}},
		{`{"exists":{"field":"profile.connections"}}`, []string{"p1", "p2", "p3"}},
		{`{"exists":{"field":"profile.headline"}}`, []string{"p1", "p2", "p3", "p4"}},
		{`{"exists":{"field":"profile.location"}}`, []string{"p1", "p2"}},
		{`{"exists":{"field":"experience.end_date"}}`, []string{"p1", "p2"}},
		{`{"ids":{"values":["p4","missing"]}}`, []string{"p4"}},
		{`{"prefix":{"profile.headline":"eng"}}`, []string{"p1", "p2"}},
		{`{"wildcard":{"profile.full_name.keyword":"B?b*"}}`, []string{"p2"}},
		{`{"bool":{"must_not":{"exists":{"field":"experience.title"}}}}`, []string{"p3", "p4"}},
		{`{"bool":{"should":[{"match":{"profile.headline":"data"}},{"match":{"profile.full_name":"data"}},` +
			`{"match":{"experience.title":"data"}}],"minimum_should_match":1}}`, []string{"p1", "p2", "p3", "p5"}},
		{`{"bool":{"must":[{"match":{"experience.title":"engineer"}},{"match":{"experience.company_name":"acme"}}]}}`,
			[]string{"p1", "p2", "p5"}},
		{`{"nested":{"path":"experience","query":{"bool":{"must":[{"match":{"experience.title":"engineer"}},` +
			`{"match":{"experience.company_name":"acme"}}]}}}}`, []string{"p2", "p5"}},
		{`{"nested":{"path":"experience","query":{"term":{"experience.is_current":true}}}}`, []string{"p1", "p5"}},
		{`{"nested":{"path":"experience","query":{"match":{"profile.headline":"data"}}}}`, nil},
		{`{"nested":{"path":"languages","query":{"match_all":{}}}}`, []string{"p2"}},
		{`{"constant_score":{"filter":{"match":{"profile.headline":"data"}},"boost":2}}`, []string{"p1", "p3"}},
		{`{"dis_max":{"queries":[{"match":{"profile.headline":"data"}},{"match":{"profile.full_name":"data"}}],` +
			`"tie_breaker":0.5}}`, []string{"p1", "p2", "p3"}},
		{`{"boosting":{"positive":{"match":{"profile.headline":"data"}},"negative":{"term":` +
			`{"profile.connections":20}},"negative_boost":0.1}}`, []string{"p1", "p3"}},
		{`{"match_phrase":{"profile.headline":"data engineer"}}`, []string{"p1"}},
		{`{"match_phrase":{"profile.headline":"engineer data"}}`, nil},
		{`{"match_phrase":{"profile.headline":{"query":"engineer data","slop":1}}}`, []string{"p1"}},
		{`{"match_phrase":{"profile.headline":{"query":"engineer lover","slop":2}}}`, []string{"p1"}},
		{`{"match_phrase":{"profile.headline":{"query":"engineer lover","slop":1}}}`, nil},
		{`{"match_phrase":{"experience.title":"data engineer"}}`, []string{"p5"}},
		{`{"match_phrase":{"experience.title":{"query":"engineer data","slop":90}}}`, []string{"p5"}},
		{`{"match_phrase":{"experience.title":{"query":"engineer steward","slop":99}}}`, nil},
		{`{"match_phrase":{"experience.title":{"query":"engineer steward","slop":101}}}`, []string{"p5"}},
		{`{"match_phrase_prefix":{"profile.headline":"data eng"}}`, []string{"p1"}},
		{`{"match_phrase_prefix":{"profile.headline":"soft"}}`, []string{"p2"}},
		{`{"match_bool_prefix":{"profile.headline":"lover soft"}}`, []string{"p1", "p2"}},
		{`{"multi_match":{"query":"data","fields":["profile.headline^2","profile.full_name","experience.*"],` +
			`"lenient":true}}`, []string{"p1", "p2", "p3", "p5"}},
		{`{"multi_match":{"query":"data bob","fields":["profile.headline","profile.full_name"],"type":"cross_fields",` +
			`"operator":"and"}}`, []string{"p2"}},
		{`{"combined_fields":{"query":"bob software","fields":["profile.headline","profile.full_name"],` +
			`"operator":"and"}}`, []string{"p2"}},
		{`{"fuzzy":{"profile.headline":"enginere"}}`, []string{"p1", "p2"}},
		{`{"match":{"profile.headline":{"query":"dtaa","fuzziness":"AUTO"}}}`, []string{"p1", "p3"}},
		{`{"match":{"profile.headline":{"query":"dtaa enginere softwrae","fuzziness":"AUTO"}}}`,
			[]string{"p1", "p2", "p3"}},
		{`{"regexp":{"profile.headline":"eng.*r|soft(ware)?"}}`, []string{"p1", "p2"}},
		{`{"regexp":{"profile.headline":"da.a&~(data)"}}`, nil},
		{`{"terms_set":{"profile.headline":{"terms":["data","lover","engineer"],"minimum_should_match":2}}}`,
			[]string{"p1"}},
		{`{"function_score":{"query":{"match":{"profile.headline":"data"}},"field_value_factor":` +
			`{"field":"profile.connections","modifier":"log1p","missing":1},"min_score":0.1}}`, []string{"p1", "p3"}},
		{`{"function_score":{"query":{"match_all":{}},"functions":[{"gauss":{"updated_at":{"origin":"2026-03-01",` +
			`"scale":"10d"}}},{"filter":{"exists":{"field":"profile.connections"}},"weight":3}],"score_mode":"sum"}}`,
			[]string{"p1", "p2", "p3", "p4", "p5"}},
		{`{"query_string":{"query":"data AND (lover OR unmatched) -bob","default_field":"profile.headline"}}`,
			[]string{"p1"}},
		{`{"query_string":{"query":"profile.connections:[5 TO 20] OR _exists_:languages.language"}}`,
			[]string{"p2", "p3"}},
		{`{"query_string":{"query":"soft* data~1 \"unmatched here\"~2","fields":["profile.headline"]}}`,
			[]string{"p1", "p2", "p3"}},
		{`{"simple_query_string":{"query":"data + lover | unmatched -(software)","fields":["profile.headline"]}}`,
			[]string{"p1", "p3", "p4", "p5"}},
		{`{"simple_query_string":{"query":"\"data engineer\" | softw*","fields":["profile.headline"]}}`,
			[]string{"p1", "p2"}},
		{`{"function_score":{"random_score":{"seed":7}}}`, []string{"p1", "p2", "p3", "p4", "p5"}},
	} {
		if !f.executes(c.query) {
			continue
		}
		got := f.search(`{"query":` + c.query + `,"sort":["profile_id.keyword"]}`)
		require.Equal(t, c.want, ids(got), c.query)
		require.EqualValues(t, len(c.want), got["total"], c.query)
		scored := f.search(`{"query":` + c.query + `}`)
		require.ElementsMatch(t, c.want, ids(scored), c.query)
		e := f.post("/v1/person/search/explain", `{"query":`+c.query+`}`).json()
		require.NotContains(t, e, "refused", c.query)
	}
}

func times(n int, item func(i int) string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = item(i)
	}
	return strings.Join(list, ",")
}

func TestSearch_LongTermListsAreSearched(t *testing.T) {
	// Scoring 700 words takes seconds, and longer while other tests run.
	f := start(t, func(c *queryapi.Config, _ *queryapi.Deps) {
		c.RequestTimeout, c.SearchTimeout, c.SearchDeadline = time.Minute, time.Minute, time.Minute
	})
	f.insert(record.KindNetworkPerson, searchPeople()...)
	numbers := times(5000, func(i int) string { return fmt.Sprint(i + 15) })
	words := times(5000, func(i int) string { return fmt.Sprintf(`"it's %d"`, i) })
	long := times(900, func(i int) string { return fmt.Sprintf(`"%d%s"`, i, strings.Repeat("x", 200)) })
	for query, want := range map[string][]string{
		`{"terms":{"profile.connections":[` + numbers +
			`]}}`: {"p1", "p3"},
		`{"terms":{"profile.headline":[` + words +
			`,"lover"]}}`: {"p1"},
		`{"terms":{"profile.headline.keyword":[` + words +
			`,"Data"]}}`: {"p3"},
		`{"terms":{"experience.title.keyword":[` + words +
			`,"Writer"]}}`: {"p1"},
		`{"nested":{"path":"experience","query":{"terms":{"experience.title.keyword":[` + words +
			`,"Writer"]}}}}`: {"p1"},
		`{"terms":{"profile.headline":[` + long +
			`,"lover"]}}`: {"p1"},
		`{"terms":{"experience.title.keyword":[` + long +
			`,"Writer"]}}`: {"p1"},
		`{"ids":{"values":[` + words +
			`,"p2"]}}`: {"p2"},
	} {
		require.Equal(t, want, ids(f.search(`{"query":`+query+`,"sort":["profile_id.keyword"]}`)), query[:60])
	}
	other := strings.ReplaceAll(times(1000, func(i int) string { return fmt.Sprintf("w%d", i) }), ",", " ")
	both := `{"query":{"bool":{"should":[{"terms":{"profile.headline":[` + words +
		`]}},{"match":{"experience.description":"` + other + `"}}]}}}`
	require.Empty(t, ids(f.search(both)))
	f.insert(
		record.KindNetworkPerson,
		`{"profile_id":"p7","last_updated":"2026-01-01","username":"words","experience":[{"title":"x","description":"`+other+`"}]}`,
	)
	require.Equal(t, []string{"p7"}, ids(f.search(both)))

	// A sum of a thousand scores, or conditions, is no deeper than the server reads.
	some := strings.Join(strings.Fields(other)[:700], " ")
	require.Equal(t, []string{"p7"}, ids(f.search(`{"query":{"match":{"experience.description":"`+some+`"}}}`)))
	require.Equal(t, []string{"p7"},
		ids(
			f.search(
				`{"query":{"match":{"experience.description":{"query":"`+some+`","minimum_should_match":600}}},"sort":["_doc"]}`,
			)))
	require.Equal(t, []string{"p7"},
		ids(f.search(`{"query":{"terms_set":{"experience.description":{"terms":["`+strings.ReplaceAll(some, " ",
			`","`)+`"],"minimum_should_match":700}}},"sort":["_doc"]}`)))
}

func TestSearch_Order(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	require.Equal(t, []string{"p3", "p1"}, ids(f.search(`{"query":{"match":{"profile.headline":"data"}}}`)),
		"the short field wins")
	require.Equal(t, []string{"p1", "p3"},
		ids(
			f.search(
				`{"query":{"boosting":{"positive":{"match":{"profile.headline":"data"}},"negative":{"term":`+
					`{"profile.connections":20}},"negative_boost":0.1}}}`)))
	all := `{"query":{"match_all":{}},"sort":`
	require.Equal(t, []string{"p1", "p3", "p2"}, ids(f.search(all+`[{"profile.connections":"desc"}],"size":3}`)))
	require.Equal(t, []string{"p2", "p3", "p1"}, ids(f.search(all+`["profile.connections"],"size":3}`)))
	require.Equal(t, []string{"p2", "p3", "p1"},
		ids(f.search(all + `[{"profile.connections":{"missing":"_first"}}]}`))[2:])
	require.Equal(t, []string{"p5", "p4", "p3", "p2", "p1"}, ids(f.search(all+`[{"updated_at":{"order":"desc"}}]}`)))
	require.Equal(t, "p1", ids(f.search(all + `[{"experience.start_date":{"order":"asc","mode":"max"}}]}`))[0])
	require.Equal(t, "p2", ids(f.search(all +
		`[{"experience.start_date":{"nested":{"path":"experience","filter":{"match":` +
		`{"experience.title":"engineer"}}},"order":"desc"}}]}`))[0])
}

// innerHits returns the inner hits of a person in experience.
func innerHits(person map[string]any) map[string]any {
	inner := person["inner_hits"].(map[string]any)["experience"].(map[string]any)
	return inner["hits"].(map[string]any)
}

func TestSearch_InnerHits(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	got := f.search(
		`{"query":{"nested":{"path":"experience","query":{"match":{"experience.title":"data engineer"}},"inner_hits":` +
			`{"size":1}}},"_source":false}`)
	for _, r := range got["results"].([]any) {
		p := r.(map[string]any)
		hits := innerHits(p)
		require.Len(t, hits["hits"], 1)
		first := hits["hits"].([]any)[0].(map[string]any)
		require.Equal(t, hits["max_score"], first["_score"])
		require.Positive(t, first["_score"])
		require.Equal(t, map[string]any{"field": "experience", "offset": 0.0}, first["_nested"])
		total := 1
		if p["profile_id"] == "p5" {
			total = 2
			require.Equal(t, "Data engineer", first["_source"].(map[string]any)["title"])
		}
		require.Equal(t, map[string]any{"value": float64(total), "relation": "eq"}, hits["total"])
	}
	require.Equal(t, "p5", ids(got)[0])
}

func TestSearch_InnerHitsAreOrderedByScore(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	f.insert(record.KindNetworkPerson,
		`{"profile_id":"p9","last_updated":"2026-01-01","username":"io","experience":[{"title":"Head of data and of `+
			`some more"},{"title":"Data"},{"title":"Data steward"}]}`)
	nested := `{"nested":{"path":"experience","query":{"match":{"experience.title":"data"}},"score_mode":"none",` +
		`"inner_hits":{"size":2}}}`
	for _, query := range []string{nested, `{"bool":{"filter":` + nested + `}}`} {
		for _, sort := range []string{`"_score"`, `"_doc"`, `"profile_id.keyword"`} {
			body := `{"query":` + query + `,"sort":[` + sort + `],"size":1`
			titles := make(map[any][]any)
			for got := f.search(body + "}"); ; {
				for _, r := range got["results"].([]any) {
					p := r.(map[string]any)
					for _, h := range innerHits(p)["hits"].([]any) {
						source := h.(map[string]any)["_source"].(map[string]any)
						titles[p["profile_id"]] = append(titles[p["profile_id"]], source["title"])
					}
				}
				if got["next_cursor"] == nil {
					break
				}
				got = f.search(body + fmt.Sprintf(`,"cursor":%q}`, got["next_cursor"]))
			}
			require.Equal(t, map[any][]any{"p5": {"Data engineer", "Data steward"}, "p9": {"Data", "Data steward"}},
				titles, body)
		}
	}
}

func TestSearch_InnerHitsHaveOwnSortAndSource(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	f.insert(record.KindNetworkPerson,
		`{"profile_id":"p9","last_updated":"2026-01-01","username":"io","experience":[{"title":"B","start":"2003"},`+
			`{"title":"C"},{"title":"A","start":"2001"},{"title":"A","start":"2009","current":true}]}`)
	for members, want := range map[string]string{
		`"_source":["experience.title"]`: `[{"title":"A"},{"title":"B"},{"title":"A"}]`,
		`"_source":"experience.title","sort":["experience.title.keyword",` +
			`{"experience.start_date":"desc"}]`: `[{"title":"A"},{"title":"A"},{"title":"B"}]`,
		`"_source":["experience.s*"],` +
			`"sort":["experience.start_date"]`: `[{"start_date":"2001-01-01"},{"start_date":"2003-01-01"},` +
			`{"start_date":"2009-01-01"}]`,
		`"_source":["*.title"],"sort":[{"experience.start_date":` +
			`{"missing":"_first"}}]`: `[{"title":"C"},{"title":"A"},{"title":"B"}]`,
		`"_source":["*.title"],"sort":{"experience.start_date":{"order":"desc",` +
			`"missing":1104537600000}}`: `[{"title":"A"},{"title":"C"},{"title":"B"}]`,
		`"_source":["*.title"],"sort":{"_doc":"desc"},"from":1`:         `[{"title":"A"},{"title":"B"},{"title":"A"}]`,
		`"_source":["*.title"],"sort":{"experience.is_current":"desc"}`: `[{"title":"A"},{"title":"B"},{"title":"A"}]`,
		`"_source":{"includes":["experience"],"excludes":["*.title","*.is_current","experience.e*"]},` +
			`"sort":["experience.start_date"],"size":1`: `[{"start_date":"2001-01-01"}]`,
		`"_source":false`:   `[null,null,null]`,
		`"_source":"title"`: `[{},{},{}]`,
	} {
		body := `{"query":{"bool":{"must":[{"ids":{"values":["p9"]}},{"nested":{"path":"experience",` +
			`"query":{"match_all":{}},"inner_hits":{` + members + `}}}]}}}`
		hits := innerHits(f.search(body)["results"].([]any)[0].(map[string]any))
		require.EqualValues(t, 4, hits["total"].(map[string]any)["value"], members)
		var sources []any
		for _, h := range hits["hits"].([]any) {
			sources = append(sources, h.(map[string]any)["_source"])
		}
		got, err := json.Marshal(sources)
		require.NoError(t, err)
		require.JSONEq(t, want, string(got), members)
	}
}

func TestSearch_InnerHitsWithInvalidScoresAreRejected(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...) // p5 has no start dates
	ask := func(members string) string {
		return `{"query":{"nested":{"path":"experience","score_mode":"none","inner_hits":{` + members +
			`},"query":{"function_score":{"query":{"match":{"experience.title":"data"}},"field_value_factor":` +
			`{"field":"experience.start_date"}}}}},"sort":["profile_id.keyword"]}`
	}
	require.Contains(t, f.post("/v1/person/search", ask("")).detail(), "function_score: score is negative")
	require.Contains(t, f.post("/v1/person/search", ask(`"sort":["experience.start_date","_score"]`)).detail(),
		"function_score: score is negative")
	got := f.search(ask(`"sort":["experience.start_date"]`))
	require.Equal(t, []string{"p5"}, ids(got))
	require.Len(t, innerHits(got["results"].([]any)[0].(map[string]any))["hits"], 2)
}

func TestSearch_InvalidScoresAreRejected(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...) // p1, p2 and p3 have connections
	f.insert(record.KindNetworkPerson,
		`{"profile_id":"p0","last_updated":"2026-01-01","username":"nil","headline":"data","connections":0}`)
	function := func(query, members string) string {
		return `{"query":{"function_score":{"query":` + query + `,` + members + `}}`
	}
	all, connected := `{"match_all":{}}`, `{"exists":{"field":"profile.connections"}}`
	for _, body := range []string{
		function(all, `"field_value_factor":{"field":"profile.connections"}`),
		function(all, `"field_value_factor":{"field":"profile.connections","missing":-5}`),
		function(connected, `"field_value_factor":{"field":"profile.connections","modifier":"log"}`),
		function(connected, `"field_value_factor":{"field":"profile.connections","modifier":"ln","factor":0.001}`),
		function(connected, `"field_value_factor":{"field":"profile.connections","factor":-1},"boost_mode":"replace"`),
		function(connected, `"field_value_factor":{"field":"profile.connections","modifier":"sqrt","factor":-1}`),
		function(connected, `"gauss":{"profile.connections":{"origin":20,"scale":1e-200}}`),
		function(connected, `"weight":3,"max_boost":-1`),
		function(
			all, `"functions":[{"weight":2},{"field_value_factor":{"field":"profile.connections"}}],"score_mode":"max"`),
		function(
			all, `"functions":[{"weight":2},{"field_value_factor":{"field":"profile.connections"}}],"boost_mode":"max"`),
	} {
		require.Contains(t, f.post("/v1/person/search", body+"}").detail(), "function_score: score is negative", body)
		require.Equal(t, http.StatusBadRequest, f.post("/v1/person/search", body+`,"sort":["_score"],"size":1}`).status,
			body)
		require.Equal(t, http.StatusBadRequest,
			f.post("/v1/person/search", body+`,"sort":[{"_score":"asc"}],"size":1}`).status, body)
		require.NotEmpty(t, ids(f.search(body+`,"sort":["profile_id.keyword"]}`)), "no scores are needed")
	}
	for body, want := range map[string]int{
		function(
			connected, `"field_value_factor":{"field":"profile.connections"}`): 4,
		function(
			all, `"functions":[{"weight":2},{"field_value_factor":{"field":"profile.connections"}}],"score_mode":"first"`): 6,
		function(
			all, `"functions":[{"filter":`+connected+`,"field_value_factor":{"field":"profile.connections"}},`+
				`{"weight":2}],"score_mode":"max"`): 6,
		function(
			all, `"functions":[{"field_value_factor":{"field":"profile.connections","missing":1,`+
				`"modifier":"log1p"}}],"boost_mode":"sum","max_boost":2`): 6,
	} {
		require.Len(t, ids(f.search(body+"}")), want, body)
	}
}

func TestSearch_MinScoreInSortFilterUsesTermCounts(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	body := `{"query":{"exists":{"field":"experience.title"}},"size":1,"sort":[{"experience.start_date":` +
		`{"order":"desc","nested":{"path":"experience","filter":{"function_score":{"query":{"match":` +
		`{"experience.title":"engineer"}},"min_score":0.01}}}}}]`
	var found []string
	for got := f.search(body + "}"); ; got = f.search(body + fmt.Sprintf(`,"cursor":%q}`, got["next_cursor"])) {
		found = append(found, ids(got)...)
		if got["next_cursor"] == nil {
			break
		}
	}
	require.Equal(t, []string{"p2", "p1", "p5"}, found)
	explained := f.post("/v1/person/search/explain",
		`{"query":{"match_all":{}},"size":0,"cursor":`+fmt.Sprintf("%q",
			f.search(`{"query":{"match_all":{}},"size":1}`)["next_cursor"])+`}`).json()
	require.Empty(t, explained["statements"])
}

func TestSearch_WalkReturnsEachPersonOnce(t *testing.T) {
	f := start(t, nil)
	var people []string
	for i := range 57 {
		people = append(people,
			fmt.Sprintf(
				`{"profile_id":"w%02d","last_updated":"2026-01-0%d","username":"w%d","headline":%q,"connections":%s}`,
				i,
				1+i%3,
				i,
				strings.Repeat("data ", 1+i%2)+strings.Repeat("word ", i%4),
				[]string{"null", "5", "7"}[i%3],
			))
	}
	f.insert(record.KindNetworkPerson, people...)
	for _, sort := range []string{
		`["_score"]`, `[{"profile.connections":"asc"}]`,
		`[{"profile.connections":{"order":"desc","missing":"_first"}}]`,
		`[{"updated_at":"desc"},"_score"]`, `["_doc"]`, `["profile.headline.keyword"]`,
	} {
		seen := map[string]int{}
		body := `{"query":{"match":{"profile.headline":"data word"}},"size":7,"sort":` + sort
		next := any(nil)
		for page := 0; ; page++ {
			require.Less(t, page, 12)
			cursor := ""
			if next != nil {
				cursor = fmt.Sprintf(`,"cursor":%q`, next)
			}
			r := f.search(body + cursor + `}`)
			require.EqualValues(t, 57, r["total"])
			for _, id := range ids(r) {
				seen[id]++
			}
			if next = r["next_cursor"]; next == nil {
				break
			}
		}
		require.Len(t, seen, 57, sort)
		for id, n := range seen {
			require.Equal(t, 1, n, id)
		}
	}
	first := f.search(`{"query":{"match_all":{}},"size":1}`)
	for _, none := range []string{`"size":0`, `"size":0,"max_credits":0`} { // more results follow
		require.Equal(t, first["next_cursor"],
			f.search(fmt.Sprintf(`{"query":{"match_all":{}},%s,"cursor":%q}`, none,
				first["next_cursor"]))["next_cursor"])
	}
	// nor is an empty page the last
	for _, more := range []string{``, fmt.Sprintf(`,"cursor":%q`, first["next_cursor"])} {
		r := f.post("/v1/person/search", `{"query":{"match_all":{}},"size":1,"max_credits":0`+more+`}`)
		require.Equal(t, http.StatusBadRequest, r.status)
		require.Equal(t, "max_credits is 0: one result costs 1; for the total alone use size 0", r.detail())
	}
	// The query may be written differently, but its keys must be in the same order.
	page := func(query, sort string, cursor any) response {
		return f.post("/v1/person/search",
			fmt.Sprintf(`{"query":%s,"sort":%s,"size":7,"cursor":%q}`, query, sort, cursor))
	}
	const headline, connected = `{"match":{"profile.headline":"data"}}`, `{"exists":{"field":"profile.connections"}}`
	query, sort := `{"bool":{"must":[`+headline+`],"filter":[`+connected+`]}}`,
		`[{"profile.connections":"desc","updated_at":"asc"}]`
	start := f.search(fmt.Sprintf(`{"query":%s,"sort":%s,"size":7}`, query, sort))["next_cursor"]
	second := page(query, sort, start)
	require.Equal(t, http.StatusOK, second.status)
	for _, c := range []struct{ query, sort string }{
		{strings.ReplaceAll(query, ":", " : "), strings.ReplaceAll(sort, ":", "\n:")},
		{`{"bool":{"filter":[` + connected + `],"must":[` + headline + `]}}`, sort},
		{strings.ReplaceAll(query, "data", `d\u0061ta`), sort},
	} {
		again := page(c.query, c.sort, start)
		require.Equal(t, http.StatusOK, again.status, "%s", again.body)
		require.Equal(t, ids(second.json()), ids(again.json()))
		third := page(query, sort, again.json()["next_cursor"])
		require.Equal(t, http.StatusOK, third.status, "%s", third.body)
	}
	require.Equal(t, http.StatusBadRequest,
		page(query, `[{"updated_at":"asc","profile.connections":"desc"}]`, start).status)

	forged := []byte(first["next_cursor"].(string))
	if forged[0] != 'x' {
		forged[0] = 'x'
	} else {
		forged[0] = 'y'
	}
	for _, body := range []string{
		fmt.Sprintf(`{"query":{"match_none":{}},"cursor":%q}`, first["next_cursor"]),
		`{"query":{"match_all":{}},"cursor":"AAAA"}`,
		fmt.Sprintf(`{"query":{"match_all":{}},"cursor":%q}`, forged),
	} {
		require.Contains(t, f.post("/v1/person/search", body).detail(), "cursor")
	}
}

// People with the same hash are distinguished, within a page and between pages.
func TestSearch_PeopleWithOneHash(t *testing.T) {
	for _, hash := range []string{"7", "18446744073709551615"} { // before and after other hashes
		t.Run(hash, func(t *testing.T) { testSharedHash(t, hash) })
	}
}

func testSharedHash(t *testing.T, hash string) {
	t.Helper()
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	for _, table := range []string{"search_people", "network_people"} {
		const shared = "('p1', 'p2', 'p3')"
		require.NoError(t, f.conn.Exec(t.Context(),
			"INSERT INTO "+table+" SELECT * REPLACE (toUInt64("+hash+") AS profile_hash) FROM "+table+
				" WHERE profile_id IN "+shared))
		require.NoError(t, f.conn.Exec(t.Context(),
			"ALTER TABLE "+table+" DELETE WHERE profile_hash != "+hash+" AND profile_id IN "+shared+
				" SETTINGS mutations_sync = 2"))
	}
	for _, size := range []int{1, 2, 5} {
		for query, want := range map[string][]string{
			`{"match_all":{}}`:                                      {"p1", "p2", "p3", "p4", "p5"},
			`{"match":{"profile.headline":"data"}}`:                 {"p1", "p3"},
			`{"range":{"profile.connections":{"lte":20}}}`:          {"p2", "p3"},
			`{"term":{"profile.headline.keyword":"Data"}}`:          {"p3"},
			`{"match_phrase":{"profile.headline":"data engineer"}}`: {"p1"},
			`{"nested":{"path":"experience","query":{"match":{"experience.title":"engineer"}},"inner_hits":{}}}`: {"p1",
				"p2", "p5"},
		} {
			for _, sort := range []string{`"_score"`, `"_doc"`, `{"profile.connections":"desc"}`} {
				var found []string
				for next := any(nil); ; {
					cursor := ""
					if next != nil {
						cursor = fmt.Sprintf(`,"cursor":%q`, next)
					}
					r := f.search(fmt.Sprintf(`{"query":%s,"sort":[%s],"size":%d%s}`, query, sort, size, cursor))
					require.EqualValues(t, len(want), r["total"], query)
					found = append(found, ids(r)...)
					if next = r["next_cursor"]; next == nil {
						break
					}
				}
				require.ElementsMatch(t, want, found, query)
			}
		}
	}
}

func TestSearch_ReturnsOrRejects(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	r := f.post("/v1/person/search",
		`{"query":{"match_all":{}},"size":2,"_source":["profile.full_name","experience.*"]}`)
	got := r.json()
	require.EqualValues(t, 2, got["credits_charged"])
	require.Equal(t, "2", r.header.Get("X-Credits-Charged"))
	require.Equal(t, "2", r.header.Get("X-Quota-Used"))
	for _, p := range got["results"].([]any) {
		require.NotContains(t, p, "updated_at")
		require.Contains(t, p, "profile_id")
	}
	for _, p := range f.search(`{"query":{"match_all":{}},"_source":false}`)["results"].([]any) {
		require.Len(t, p, 1)
	}
	count := f.search(`{"query":{"match_all":{}},"size":0}`)
	require.IsType(t, "", count["next_cursor"])
	delete(count, "next_cursor")
	require.Equal(t, map[string]any{"total": 5.0, "results": []any{}, "credits_charged": 0.0}, count)
	none := f.search(`{"query":{"match_none":{}},"size":0}`)
	require.Equal(t, map[string]any{"total": 0.0, "results": []any{}, "next_cursor": nil, "credits_charged": 0.0}, none)
	require.Len(t, f.search(`{"query":{"match_all":{}},"max_credits":3}`)["results"], 3)
	require.Len(t, f.search(`{"query":{"match_all":{}},"size":2.0}`)["results"], 2, "an integer to JSON Schema")
	require.Equal(t, true, f.search(`{"query":{"match_all":{}},"dry_run":true}`)["dry_run"])
	for body, want := range map[string]string{
		`{}`:                                  "query",
		`{"query":{}}`:                        "empty clause",
		`{"query":{"mach":{"a":"b"}}}`:        `"match"? /docs/guides/search names the clauses`,
		`{"query":{"knn":{}}}`:                "no vectors",
		`{"query":{"match":{"hedline":"x"}}}`: "did you mean",
		`{"query":{"match":{"profile.headline":{"query":"x","operater":"and"}}}}`: `"operator"`,
		`{"query":{"match_all":{}},"size":101}`:                                   "0 to 100",
		`{"query":{"bool":{"must":[{"term":{"profile.connections":"many"}}]}}}`:   "query.bool.must[0].term",
		`{"query":{"match_all":{}},"sort":["profile.headline"]}`:                  ".keyword",
		`{"query":{"nested":{"path":"jobs","query":{"match_all":{}}}}}`: "failed to find nested object " +
			"under path",
	} {
		r := f.post("/v1/person/search", body)
		require.Equal(t, http.StatusBadRequest, r.status, body)
		require.Contains(t, r.detail(), want, body)
	}
	refused := f.post("/v1/person/search/explain", `{"query":{"knn":{}}}`).json()
	require.Contains(t, refused["refused"], "no vectors")
	require.EqualValues(t, 0, refused["max_credits"])
}
