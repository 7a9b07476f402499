//go:build !opensearch

package differential_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/searchtest"
)

// sorts are the kinds of sort keys.
func sorts() []string {
	out := []string{
		`["_score",{"profile.last_name.keyword":"desc"}]`, `[{"profile.connections":"asc"},"_score"]`, `["_doc"]`,
		`[{"profile.connections":{"order":"desc","missing":"_first"}},{"profile.first_name.keyword":"asc"}]`,
		`[{"experience.title.keyword":{"nested":{"path":"experience","filter":{"match":{"experience.title":"engineer"}}}}}]`,
		`[{"experience.start_date":{"mode":"avg","nested":{"path":"experience","filter":{"exists":{"field":"experience.end_date"}}}}}]`,
		`[{"education.start_date":{"order":"desc","nested":{"path":"education","max_children":1}}},{"profile_id.keyword":"desc"}]`,
		`[{"experience.title.keyword":{"nested":{"path":"experience","filter":{"function_score":{"query":{"match":{"experience.title":"engineer"}},"min_score":1}}}}}]`,
	}
	for _, order := range []string{"asc", "desc"} {
		for _, missing := range []string{"_first", "_last", "M"} {
			for _, field := range []string{"profile.headline.keyword", "experience.company_name.keyword"} {
				out = append(out, fmt.Sprintf(`[{%q:{"order":%q,"missing":%q}}]`, field, order, missing))
			}
		}
		out = append(out, fmt.Sprintf(`[{"experience.title.keyword":{"order":%q,"mode":"max"}}]`, order))
		for _, mode := range []string{"min", "max", "sum", "avg", "median"} {
			for _, field := range []string{"experience.start_date", "experience.is_current", "education.end_date"} {
				out = append(
					out,
					fmt.Sprintf(`[{%q:{"order":%q,"mode":%q}}]`, field, order, mode),
					fmt.Sprintf(
						`[{%q:{"order":%q,"mode":%q,"numeric_type":"double","missing":0}},"_score"]`,
						field,
						order,
						mode,
					),
				)
			}
		}
	}
	return out
}

// queries are those that need more than posting lists of words.
func queriesOfEveryKind(ids string) []string {
	out := []string{
		`{"match_all":{}}`, `{"ids":{"values":[IDS]}}`, `{"bool":{"should":[{"match":{"profile.headline":"engineer"}},{"terms":{"_id":[IDS]}}]}}`,
		`{"bool":{"must":{"match":{"profile.headline":"engineer"}},"must_not":{"ids":{"values":[IDS]}}}}`,
		`{"nested":{"path":"experience","query":{"bool":{"must":[{"match":{"experience.title":"engineer"}},{"terms":{"_id":[IDS],"boost":3}}]}},"score_mode":"sum","inner_hits":{}}}`,
		`{"match_phrase":{"profile.headline":{"query":"engineer engineer","slop":3}}}`, `{"match_phrase":{"experience.title":{"query":"omega omega","slop":250}}}`,
		`{"match_phrase":{"experience.title":{"query":"engineer software","slop":4}}}`, `{"match_phrase_prefix":{"profile.headline":{"query":"the the e","slop":2}}}`,
		`{"nested":{"path":"experience","query":{"match_phrase":{"experience.title":{"query":"engineer software","slop":4}}},"inner_hits":{"sort":[{"experience.start_date":"desc"}]}}}`,
		`{"nested":{"path":"experience","query":{"match_all":{}},"score_mode":"max","inner_hits":{"size":2,"sort":[{"experience.title.keyword":"desc"},{"experience.is_current":"asc"}]}}}`,
		`{"nested":{"path":"experience","query":{"match":{"experience.title":"engineer manager"}},"score_mode":"none","inner_hits":{"sort":["_score",{"experience.company_name.keyword":{"missing":"_first"}}]}}}`,
		`{"terms_set":{"profile.headline":{"terms":["engineer","software","senior"],"minimum_should_match_field":"profile.connections"}}}`,
		`{"terms_set":{"experience.title":{"terms":["engineer","software","senior"],"minimum_should_match_field":"profile.followers"}}}`,
		`{"nested":{"path":"experience","query":{"terms_set":{"experience.title":{"terms":["engineer","senior"],"minimum_should_match_field":"experience.start_date"}}}}}`,
		`{"combined_fields":{"query":"senior engineer","fields":["profile.headline^2","profile.summary","experience.title"]}}`,
		`{"combined_fields":{"query":"senior engineer zzzz","fields":["profile.headline","profile.summary^3"],"operator":"and"}}`,
		`{"nested":{"path":"experience","query":{"combined_fields":{"query":"engineer acme","fields":["experience.title","experience.company_name^2"]}},"score_mode":"avg"}}`,
		`{"function_score":{"query":{"match":{"profile.headline":"engineer"}},"field_value_factor":{"field":"experience.start_date","modifier":"log1p","missing":1,"factor":1e-9}}}`,
		`{"function_score":{"query":{"match":{"profile.headline":"engineer"}},"functions":[{"filter":{"nested":{"path":"experience","query":{"match":{"experience.title":"engineer"}}}},"weight":3},{"filter":{"ids":{"values":[IDS]}},"weight":2}],"score_mode":"sum","min_score":2}}`,
		`{"bool":{"filter":{"range":{"experience.start_date":{"gte":"2015-01-01"}}},"must":{"term":{"experience.is_current":true}}}}`,
		`{"terms":{"experience.start_date":["2015-01-01","2019-01-01","1999-01-01"]}}`,
	}
	for _, mode := range []string{"min", "max", "avg", "sum", "median"} {
		out = append(
			out,
			`{"function_score":{"query":{"match_all":{}},"linear":{"experience.start_date":{"origin":"2015-01-01","scale":"2000d"},"multi_value_mode":"`+mode+`"}}}`,
		)
	}
	for i := range out {
		out[i] = strings.ReplaceAll(out[i], "IDS", ids)
	}
	return out
}

// The queries and sort keys are those that a SQL executor ranked in earlier versions.
func TestExecutor_AnswersEveryKindOfQuery(t *testing.T) {
	people := 900
	if testing.Short() {
		people = 300
	}
	conn := store(t, people)
	docs := documents(t, conn)
	judge := collection(t, docs)
	now := time.Now().UTC().Truncate(time.Millisecond)
	muster := newEngine(t, conn, func() time.Time { return now })
	ids := fmt.Sprintf(`%q,%q,%q,"missing"`, docs[1].ID, docs[len(docs)/2].ID, docs[len(docs)-1].ID)
	queries := queriesOfEveryKind(ids)
	var bodies []string
	for _, q := range queries {
		bodies = append(bodies, `{"query":`+q+`}`, `{"query":`+q+`,"sort":["profile_id.keyword"]}`)
	}
	for i, s := range sorts() {
		bodies = append(
			bodies, `{"query":{"match_all":{}},"sort":`+s+`}`, `{"query":`+queries[i%len(queries)]+`,"sort":`+s+`}`,
		)
	}
	answered := 0
	for i, body := range bodies {
		var q map[string]any
		require.NoError(t, json.Unmarshal([]byte(body), &q), body)
		want, err := evaluate(judge, q, now)
		require.NoError(t, err, body)
		muster.paged = i%3 == 0
		got, err := muster.Search(t.Context(), []byte(body))
		require.NoError(t, err, body)
		require.NoError(
			t, cmp.Or(searchtest.Compare(want, got, false), searchtest.CompareInner(q, want, got, false)), body,
		)
		if want.Total > 0 {
			answered++
		}
	}
	require.Greater(t, answered, len(bodies)*3/4)
}
