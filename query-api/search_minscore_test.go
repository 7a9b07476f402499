package queryapi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

func TestSearch_MinScoreFiltersByAnyScore(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	for _, query := range []string{
		`{"match":{"profile.headline":"data"}}`,
		`{"match":{"profile.headline":"data engineer"}}`,
		`{"match":{"profile.headline":{"query":"dtaa","fuzziness":"AUTO"}}}`,
		`{"term":{"profile.location.country.keyword":"Germany"}}`,
		`{"term":{"experience.title.keyword":"Engineer"}}`,
		`{"match":{"experience.title":"data engineer"}}`,
		`{"match_phrase":{"profile.headline":"data engineer"}}`,
		`{"match_phrase":{"profile.headline":{"query":"engineer data","slop":1}}}`,
		`{"match_phrase_prefix":{"profile.headline":"data eng"}}`,
		`{"match_bool_prefix":{"profile.headline":"lover soft"}}`,
		`{"multi_match":{"query":"data","fields":["profile.headline","profile.full_name"]}}`,
		`{"multi_match":{"query":"data","fields":["profile.headline","profile.full_name"],"tie_breaker":0.3}}`,
		`{"multi_match":{"query":"data bob","type":"cross_fields","fields":["profile.headline","profile.full_name"]}}`,
		`{"combined_fields":{"query":"data","fields":["profile.headline"]}}`,
		`{"combined_fields":{"query":"bob software","fields":["profile.headline","profile.full_name"]}}`,
		`{"combined_fields":{"query":"bob software","fields":["profile.headline^2","profile.full_name","experience.title"]}}`,
		`{"terms":{"profile.headline":["data","engineer"]}}`,
		`{"nested":{"path":"experience","query":{"match":{"experience.title":"engineer"}}}}`,
		`{"nested":{"path":"experience","query":{"combined_fields":{"query":"engineer acme",` +
			`"fields":["experience.title","experience.company_name"]}}}}`,
		`{"boosting":{"positive":{"match":{"profile.headline":"data"}},"negative":{"match":` +
			`{"profile.headline":"lover"}},"negative_boost":0.5}}`,
		`{"function_score":{"query":{"match":{"profile.headline":"data"}},"functions":[{"filter":{"match":` +
			`{"profile.headline":"lover"}},"weight":3},{"filter":{"match":{"profile.headline":"engineer"}},` +
			`"weight":3}],"score_mode":"sum"}}`,
		`{"query_string":{"query":"data OR engineer","fields":["profile.headline","profile.full_name"]}}`,
	} {
		if !f.executes(query) {
			continue
		}
		all := f.search(`{"query":` + query + `}`)
		require.NotEmpty(t, ids(all), query)
		limited := `{"function_score":{"query":` + query + `,"min_score":1e-9}}`
		for _, q := range []string{
			limited, `{"bool":{"should":[` + limited +
				`,{"match":{"profile.headline":"unmatched"}}],"filter":[{"match_all":{}}],"minimum_should_match":1}}`,
		} {
			require.ElementsMatch(t, ids(all), ids(f.search(`{"query":`+q+`}`)), q)
		}
		none := f.search(`{"query":{"function_score":{"query":` + query + `,"min_score":1e9}}}`)
		require.Empty(t, ids(none), query)
		require.Zero(t, none["total"], query)
		require.Len(
			t, ids(f.search(`{"query":{"bool":{"must_not":{"function_score":{"query":`+query+`,"min_score":1e9}}}}}`)),
			5, query)
	}
}
