package queryapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

// The expected fragments are written by hand from searchPeople.
func TestSearch_HighlightMarksWordsOfTheQuery(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	for _, tc := range []struct {
		query, highlight string
		want             map[string]map[string]any
	}{
		{
			`{"match":{"profile.headline":"data engineer"}}`, `{"fields":{"profile.headline":{},"profile.summary":{}}}`,
			map[string]map[string]any{
				"p1": {"profile.headline": []any{"<em>Data</em> <em>engineer</em> and <em>data</em> lover"}},
				"p2": {"profile.headline": []any{"Software <em>engineer</em>"}},
				"p3": {"profile.headline": []any{"<em>Data</em>"}},
			},
		},
		{ // Words of must_not and of other fields are not marked; a nested field has a fragment for each element.
			`{"bool":{"must":{"nested":{"path":"experience","query":{"match":{"experience.title":"data"}}}},` +
				`"must_not":{"match":{"experience.title":"writer"}}}}`,
			`{"fields":{"experience.*":{},"profile.headline":{}},"pre_tags":["["],"post_tags":"]"}`,
			map[string]map[string]any{
				"p5": {"experience.title": []any{"[Data] engineer", "[Data] steward"}},
			},
		},
		{
			`{"term":{"experience.company_name.keyword":"Acme"}}`,
			`{"fields":[{"experience.company_name.keyword":{"number_of_fragments":1}},{"experience.company_name":{}},` +
				`{"experience.title":{}}]}`,
			map[string]map[string]any{
				"p1": {"experience.company_name.keyword": []any{"<em>Acme</em>"}},
				"p2": {"experience.company_name.keyword": []any{"<em>Acme</em>"}},
				"p5": {"experience.company_name.keyword": []any{"<em>Acme</em>"}},
			},
		},
		{
			`{"bool":{"should":[{"match":{"profile.headline.folded":"engineer"}},` +
				`{"term":{"experience.title.keyword":"Data steward"}}]}}`,
			`{"fields":{"*":{},"profile.*.folded":{},"*.title.keyword":{},"none.*":{}}}`,
			map[string]map[string]any{
				"p1": {"profile.headline.folded": []any{"Data <em>engineer</em> and data lover"}},
				"p2": {"profile.headline.folded": []any{"Software <em>engineer</em>"}},
				"p5": {"experience.title.keyword": []any{"<em>Data steward</em>"}},
			},
		},
		{ // What is in the document is matched with fuzzy words, prefixes and patterns.
			`{"bool":{"should":[{"fuzzy":{"profile.headline":"enginere"}},{"prefix":{"profile.headline":"softw"}},` +
				`{"wildcard":{"profile.headline":"l?v*"}},{"match_phrase":{"profile.headline":"data lover"}}]}}`,
			`{"fields":{"profile.headline":{}}}`,
			map[string]map[string]any{
				"p1": {"profile.headline": []any{"Data <em>engineer</em> and <em>data</em> <em>lover</em>"}},
				"p2": {"profile.headline": []any{"<em>Software</em> <em>engineer</em>"}},
			},
		},
		{
			`{"match":{"profile.headline":"data"}}`,
			`{"fields":{"experience.title":{"require_field_match":false}},"require_field_match":true}`,
			map[string]map[string]any{"p1": nil, "p3": nil},
		},
	} {
		body := fmt.Sprintf(`{"query":%s,"highlight":%s,"_source":false}`, tc.query, tc.highlight)
		got := map[string]map[string]any{}
		for _, r := range f.search(body)["results"].([]any) {
			person := r.(map[string]any)
			got[person["profile_id"].(string)], _ = person["highlight"].(map[string]any)
		}
		require.Equal(t, tc.want, got, body)
	}
}

func TestSearch_InnerHitsAreHighlighted(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	page := f.search(`{"query":{"nested":{"path":"experience","query":{"match":{"experience.title":"steward"}},"inner_hits":` +
		`{"_source":false,"highlight":{"fields":{"experience.title":{}}}}}}}`)
	require.Equal(t, []string{"p5"}, ids(page))
	hits := innerHits(page["results"].([]any)[0].(map[string]any))["hits"].([]any)
	require.Len(t, hits, 1)
	hit := hits[0].(map[string]any)
	require.Equal(t, map[string]any{"experience.title": []any{"Data <em>steward</em>"}}, hit["highlight"])
	require.Equal(t, map[string]any{"field": "experience", "offset": 1.0}, hit["_nested"])
	require.NotContains(t, hit, "_source")
}

func TestSearch_InvalidHighlightsAreRejected(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	many := strings.TrimSuffix(strings.Repeat(`{"prefix":{"profile.headline":"a"}},`, 129), ",")
	for _, tc := range []struct{ query, highlight, want string }{
		{`{"match_all":{}}`, `{}`, `highlight: needs "fields"`},
		{`{"match_all":{}}`, `{"fields":[]}`, ""},
		{`{"match_all":{}}`, `{"fields":["profile.headline"]}`, "highlight.fields[0]: must be an object of fields"},
		{`{"match_all":{}}`, `{"fields":{"profile.headlin":{}}}`, `did you mean "profile.headline"?`},
		{`{"match_all":{}}`, `{"fields":{"profile.connections":{}}}`, "has no words"},
		{`{"match_all":{}}`, `{"fields":{"profile.headline":{"number_of_fragments":101}}}`, "from 0 to 100"},
		{`{"match_all":{}}`, `{"fields":{"profile.headline":{"fragment_size":0}}}`, "from 1 to 10000"},
		{`{"match_all":{}}`, `{"fields":{},"pre_tags":[1]}`, "highlight.pre_tags: must be a list of strings"},
		{`{"match_all":{}}`, `{"fields":{},"type":"fvh"}`, `unknown parameter "type"`},
		{`{"bool":{"should":[` + many + `]}}`, `{"fields":{"*":{}}}`, "has 129 patterns and fuzzy words"},
		{
			`{"nested":{"path":"experience","query":{"match_all":{}},"inner_hits":{"highlight":{"fields":` +
				`{"profile.headline":{}}}}}}`, `{"fields":{}}`, "profile.headline is not in the elements of experience",
		},
	} {
		answer := f.post("/v1/person/search", fmt.Sprintf(`{"query":%s,"highlight":%s}`, tc.query, tc.highlight))
		if tc.want == "" {
			require.Equal(t, http.StatusOK, answer.status, answer.body)
			continue
		}
		require.Equal(t, http.StatusBadRequest, answer.status, tc.highlight)
		require.Contains(t, answer.detail(), tc.want)
	}
}
