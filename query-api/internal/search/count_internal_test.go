package search

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/cursor"
	"muster/schemas/readmodel"
)

func TestSearch_CountsAddressesInAnyClause(t *testing.T) {
	people := readmodel.PeopleCollection()
	s := &Searcher{collection: &people, deps: Deps{Now: time.Now, Key: make([]byte, cursor.KeySize)}}
	counts := func(query, sort string, size int) bool {
		p, err := s.Prepare(Request{Query: jsontext.Value(query), Sort: jsontext.Value(sort), Size: size})
		require.NoError(t, err, query)
		return p.CountsAddresses()
	}
	for _, query := range []string{
		`{"term":{"profile.personal_email.keyword":""}}`, `{"match":{"profile.personal_email":""}}`,
		`{"term":{"profile.personal_email":"a"}}`, `{"term":{"profile.personal_email.keyword":"a"}}`,
		`{"term":{"profile.personal_email.keyword":{"value":"a","case_insensitive":true}}}`,
		`{"terms":{"profile.personal_email.keyword":["a","b"]}}`, `{"range":{"profile.personal_email.keyword":{"gte":"a"}}}`,
		`{"prefix":{"profile.personal_email":"a"}}`, `{"wildcard":{"profile.personal_email":"a*"}}`,
		`{"regexp":{"profile.personal_email":"a.*"}}`,
		`{"fuzzy":{"profile.personal_email":"anna"}}`, `{"exists":{"field":"profile.personal_email"}}`,
		`{"exists":{"field":"profile"}}`,
		`{"match":{"profile.personal_email":"a"}}`, `{"match_phrase":{"profile.personal_email":"a b"}}`,
		`{"match_phrase_prefix":{"profile.personal_email":"a b"}}`, `{"match_bool_prefix":{"profile.personal_email":"a b"}}`,
		`{"multi_match":{"query":"a","fields":["profile.*"],"lenient":true}}`,
		`{"multi_match":{"query":"a","fields":["*email*"]}}`, `{"multi_match":{"query":"a"}}`,
		`{"multi_match":{"query":"a b","fields":["profile.headline","profile.personal_*"],"type":"cross_fields"}}`,
		`{"combined_fields":{"query":"a","fields":["profile.headline","profile.personal_email"]}}`,
		`{"query_string":{"query":"a"}}`, `{"query_string":{"query":"profile.personal_email:a*"}}`,
		`{"query_string":{"query":"profile.\\*:a"}}`, `{"query_string":{"query":"\\*:a"}}`,
		`{"query_string":{"query":"profile.headline:a b"}}`, `{"query_string":{"query":"a profile.headline:b"}}`,
		`{"query_string":{"query":"profile.headline:a NOT b"}}`, `{"query_string":{"query":"profile.headline:a -b~1"}}`,
		`{"query_string":{"query":"profile.headline:a AND (b OR c)"}}`, `{"query_string":{"query":"(\"a b\")"}}`,
		`{"query_string":{"query":"profile.headline:a [b TO c]"}}`, `{"query_string":{"query":"profile.headline:a >b"}}`,
		`{"query_string":{"query":"profile.headline:a b*"}}`, `{"query_string":{"query":"profile.headline:a OR /b.+/"}}`,
		`{"query_string":{"query":"profile.headline:(a profile.personal_email:b)"}}`,
		`{"query_string":{"query":"profile.headline:a b","default_field":"*"}}`,
		`{"query_string":{"query":"profile.headline:a b","fields":["*"]}}`,
		`{"query_string":{"query":"*","fields":["*"]}}`,
		`{"query_string":{"query":"profile.headline:a","default_field":"profile.personal_email"}}`,
		`{"query_string":{"query":"profile.headline:a","fields":["profile.p*"]}}`,
		`{"query_string":{"query":"_exists_:profile.p\\*"}}`,
		`{"bool":{"must":[{"query_string":{"query":"profile.headline:a"}},{"query_string":{"query":"a"}}]}}`,
		`{"query_string":{"query":"_exists_:profile.personal_email"}}`, `{"query_string":{"query":"a","default_field":"*"}}`,
		`{"simple_query_string":{"query":"a"}}`, `{"simple_query_string":{"query":"a*","fields":["profile.p*"]}}`,
		`{"terms_set":{"profile.personal_email":{"terms":["a"],"minimum_should_match":1}}}`,
		`{"bool":{"must_not":{"bool":{"filter":[{"term":{"profile_id":"p"}},` +
			`{"prefix":{"profile.personal_email.keyword":"a"}}]}}}}`,
		`{"constant_score":{"filter":{"dis_max":{"queries":[{"match_all":{}},{"match":{"profile.personal_email":"a"}}]}}}}`,
		`{"boosting":{"positive":{"match":{"profile.personal_email":"a"}},"negative":{"match_all":{}},"negative_boost":0.5}}`,
		`{"boosting":{"positive":{"match_all":{}},"negative":{"match":{"profile.personal_email":"a"}},"negative_boost":0.5}}`,
		`{"function_score":{"query":{"match_all":{}},"functions":[{"filter":{"prefix":` +
			`{"profile.personal_email":"a"}},"weight":2}],"min_score":1.5}}`,
	} {
		require.True(t, counts(query, "", 0), query)
		require.False(t, counts(query, "", 1), query)
	}
	for _, query := range []string{
		`{"match_all":{}}`, `{"match":{"profile.headline":"personal_email"}}`, `{"term":{"profile_id":"p"}}`,
		`{"multi_match":{"query":"a","fields":["experience.t*","profile.headline"]}}`,
		`{"query_string":{"query":"a","fields":["profile.summary"]}}`,
		`{"query_string":{"query":"profile.headline:engineer"}}`,
		`{"query_string":{"query":"profile.headline:a","default_field":"*"}}`,
		`{"query_string":{"query":"profile.headline:a","fields":["*"]}}`,
		`{"query_string":{"query":"profile.headline:a OR NOT experience.title:\"b c\"~2"}}`,
		`{"query_string":{"query":"profile.headline:(a b* /c/ -d~) AND +profile.connections:[1 TO *]"}}`,
		`{"query_string":{"query":"profile.connections:>5 _exists_:profile.headline"}}`,
		`{"query_string":{"query":"*"}}`, `{"query_string":{"query":"*:*"}}`, `{"query_string":{"query":""}}`,
		`{"nested":{"path":"experience","query":{"query_string":{"query":"experience.title:a",` +
			`"fields":["experience.title"]}}}}`,
	} {
		require.False(t, counts(query, "", 0), query)
	}
	require.True(t, counts(`{"match_all":{}}`, `["profile.personal_email.keyword"]`, 0))
	require.False(t, counts(`{"match_all":{}}`, `["profile.connections"]`, 0))
	after, err := s.Prepare(Request{Query: jsontext.Value(`{"query_string":{"query":"a"}}`), Size: 1, From: 9000})
	require.NoError(t, err)
	require.True(t, after.CountsAddresses(), "a page after the last result")
}
