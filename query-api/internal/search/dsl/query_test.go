package dsl_test

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/clause"
	"muster/query-api/internal/search/dsl"
)

func options() clause.Options {
	return clause.Options{Now: time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC), Seed: 7}
}

func renderer() dsl.Renderer {
	return dsl.Renderer{DocumentID: func(profileID string) string { return "hash of " + profileID }}
}

func TestQuery_RendersWhatIsLookedUp(t *testing.T) {
	for query, want := range map[string]string{
		`{"match":{"profile.headline":"Software ENGINEER"}}`: `{"bool":{"should":[
			{"term":{"profile.headline.text":{"value":"software"}}},
			{"term":{"profile.headline.text":{"value":"engineer"}}}],"minimum_should_match":1}}`,
		`{"term":{"profile.full_name.keyword":{"value":"Ada","boost":2}}}`: `{"term":{"profile.full_name.keyword":
			{"value":"Ada","boost":2}}}`,
		`{"terms":{"_id":["a","b"]}}`:                 `{"terms":{"_id":["hash of a","hash of b"]}}`,
		`{"range":{"updated_at":{"gte":"now-1d"}}}`:   `{"range":{"updated_at":{"gte":1781438400000}}}`,
		`{"range":{"profile.connections":{"lt":10}}}`: `{"range":{"profile.connections":{"lte":9}}}`,
		`{"term":{"experience.is_current":true}}`:     `{"term":{"experience.is_current":{"value":true}}}`,
		`{"match_phrase":{"profile.headline":"the 'a' b"}}`: `{"match_phrase":{"profile.headline.text":{"query":"the a b",
			"analyzer":"whitespace","slop":0}}}`,
		// The position of a stop word accepts any word.
		`{"match_phrase":{"profile.headline":{"query":"head of data","analyzer":"stop"}}}`: `{"match_phrase":{
			"profile.headline.text":{"query":"head mustergapmustergap data","analyzer":"muster_gaps","slop":0}}}`,
		// No document has such a word.
		`{"match_phrase":{"profile.headline":{"query":"C++ is","analyzer":"whitespace"}}}`: `{"match_phrase":{
			"profile.headline.text":{"query":"C++ is","analyzer":"whitespace","slop":0}}}`,
		`{"fuzzy":{"profile.first_name":{"value":"jon","fuzziness":1}}}`: `{"fuzzy":{"profile.first_name.text":{
			"value":"jon","fuzziness":1,"prefix_length":0,"max_expansions":50,"transpositions":true}}}`,
		`{"prefix":{"profile.first_name":{"value":"jo","rewrite":"top_terms_5"}}}`: `{"prefix":{
			"profile.first_name.text":{"value":"jo","rewrite":"top_terms_5"}}}`,
		`{"multi_match":{"query":"ada","fields":["profile.first_name^2","profile.last_name"],"type":"cross_fields"}}`: `{
			"multi_match":{"query":"ada","fields":["profile.first_name.text^2","profile.last_name.text^1"],
			"type":"cross_fields","analyzer":"keyword","tie_breaker":0,"lenient":true}}`,
		`{"nested":{"path":"experience","query":{"exists":{"field":"experience.title"}},"score_mode":"max",
			"inner_hits":{"size":2,"sort":[{"experience.start_date":"desc"}]}}}`: `{"nested":{"path":"experience",
			"query":{"exists":{"field":"experience.title.text"}},"score_mode":"max","inner_hits":{"name":"experience",
			"from":0,"size":2,"_source":false,"track_scores":false,
			"sort":[{"experience.start_date":{"order":"desc","missing":"_last"}}]}}}`,
		`{"boosting":{"positive":{"match_all":{}},"negative":{"match_none":{}},"negative_boost":0.5,"boost":3}}`: `{
			"boosting":{"positive":{"match_all":{}},"negative":{"match_none":{}},"negative_boost":0.5,"boost":3}}`,
		`{"function_score":{"query":{"match_all":{}},"random_score":{},"min_score":1}}`: `{"function_score":{
			"query":{"match_all":{}},"functions":[{"weight":1,"random_score":{"seed":7,"field":"row.hash"}}],
			"score_mode":"first","boost_mode":"multiply","min_score":1}}`,
		`{"function_score":{"query":{"terms_set":{"profile.headline":{"terms":["go","c"],"boost":0.5,
			"minimum_should_match_field":"profile.connections"}}}}}`: `{"function_score":{"functions":[],
			"score_mode":"multiply","boost_mode":"multiply","query":{"terms_set":{"profile.headline.text":{
			"terms":["go","c"],"minimum_should_match_field":"profile.connections","boost":0.5}}}}}`,
		`{"terms_set":{"profile.headline":{"terms":["go","c"],"minimum_should_match_field":"profile.connections"}}}`: `{
			"terms_set":{"profile.headline.text":{"terms":["go","c"],"minimum_should_match_field":"profile.connections"}}}`,
	} {
		node, err := clause.Lower([]byte(query), "query", options())
		require.NoError(t, err, query)
		got, err := renderer().Query(node)
		require.NoError(t, err, query)
		raw, err := json.Marshal(got)
		require.NoError(t, err, query)
		require.JSONEq(t, want, string(raw), query)
	}
}

func TestQuery_UnsupportedQueriesAreNamed(t *testing.T) {
	for query, want := range map[string]string{
		`{"combined_fields":{"query":"ada","fields":["profile.first_name"]}}`: "combined_fields is not supported",
		`{"terms_set":{"experience.start_date":{"terms":["2020||/M"],
			"minimum_should_match_field":"updated_at"}}}`: "not supported",
	} {
		node, err := clause.Lower([]byte(query), "query", options())
		require.NoError(t, err, query)
		_, err = renderer().Query(node)
		var unsupported *dsl.UnsupportedError
		require.ErrorAs(t, err, &unsupported, query)
		require.ErrorContains(t, err, want)
	}
}

func TestSort_EndsWithHashAndID(t *testing.T) {
	const last = `,{"row.hash":{"order":"asc"}},{"row.id":{"order":"asc"}}]`
	for sort, want := range map[string]string{
		``: `[{"_score":{"order":"desc"}}`, `["_doc"]`: `[`,
		`[{"experience.title.keyword":{"order":"desc","missing":"M","nested":{"path":"experience","max_children":2,
			"filter":{"term":{"experience.is_current":true}}}}}]`: `[{"experience.title.keyword":{"order":"desc",
			"missing":"M","mode":"max","nested":{"path":"experience","max_children":2,
			"filter":{"term":{"experience.is_current":{"value":true}}}}}}`,
		`[{"profile.connections":{"mode":"avg","numeric_type":"double","missing":0}}]`: `[{"profile.connections":{
			"order":"asc","missing":0,"mode":"avg","numeric_type":"double"}}`,
	} {
		keys, err := clause.Sorts(jsontext.Value(sort), "sort", options())
		require.NoError(t, err, sort)
		got, err := renderer().Sort(keys)
		require.NoError(t, err, sort)
		raw, err := json.Marshal(got)
		require.NoError(t, err)
		if want == "[" {
			want += last[1:]
		} else {
			want += last
		}
		require.JSONEq(t, want, string(raw), sort)
	}
}
