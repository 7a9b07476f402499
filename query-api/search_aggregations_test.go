package queryapi_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

// The expected results are written by hand from searchPeople.
func TestSearch_AggregationsHaveTheShapeOfElasticsearch(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	f.insert(record.KindNetworkPerson, `{"profile_id":"p4","last_updated":"2026-04-02","username":"di","deleted":true}`)
	for _, tc := range []struct{ query, aggregations, want string }{
		{
			`{"match_all":{}}`, `{"c":{"terms":{"field":"profile.location.country.keyword","missing":"?","size":2}}}`,
			`{"c":{"doc_count_error_upper_bound":0,"sum_other_doc_count":1,"buckets":[{"key":"?","doc_count":2},` +
				`{"key":"Germany","doc_count":1}]}}`,
		},
		{ // An entry counts once in each bucket, a person once for all of them.
			`{"match":{"experience.title":"engineer"}}`,
			`{"jobs":{"nested":{"path":"experience"},"aggs":{"companies":` +
				`{"terms":{"field":"experience.company_name.keyword"},"aggregations":{"people":{"reverse_nested":{},` +
				`"aggs":{"most":{"max":{"field":"profile.connections"}}}}}}}}}`,
			`{"jobs":{"doc_count":5,"companies":{"doc_count_error_upper_bound":0,"sum_other_doc_count":0,"buckets":[` +
				`{"key":"Acme","doc_count":3,"people":{"doc_count":3,"most":{"value":500}}},` +
				`{"key":"Analytical","doc_count":1,"people":{"doc_count":1,"most":{"value":500}}},` +
				`{"key":"Globex","doc_count":1,"people":{"doc_count":1,"most":{"value":null}}}]}}}`,
		},
		{
			`{"match_all":{}}`, `{"r":{"range":{"field":"profile.connections","keyed":true,"ranges":[{"to":20},` +
				`{"from":20,"to":1e3,"key":"more"}]},"aggs":{"sum":{"sum":{"field":"profile.connections"}}}}}`,
			`{"r":{"buckets":{"*-20.0":{"to":20,"doc_count":1,"sum":{"value":10}},` +
				`"more":{"from":20,"to":1000,"doc_count":2,"sum":{"value":520}}}}}`,
		},
		{
			`{"match_all":{}}`, `{"d":{"date_histogram":{"field":"updated_at","calendar_interval":"quarter",` +
				`"format":"yyyy-MM"}},"first":{"min":{"field":"updated_at"}},` +
				`"days":{"cardinality":{"field":"updated_at"}}}`,
			`{"d":{"buckets":[{"key_as_string":"2026-01","key":1767225600000,"doc_count":3},` +
				`{"key_as_string":"2026-04","key":1775001600000,"doc_count":1}]},` +
				`"first":{"value":1767225600000,"value_as_string":"2026-01-01T00:00:00.000Z"},"days":{"value":4}}`,
		},
		{ // A fuzzy word is expanded, also where nothing of it is in the query.
			`{"match_all":{}}`, `{"f":{"filters":{"filters":{"data":{"fuzzy":{"profile.headline":"dato"}},` +
				`"eng":{"match_phrase_prefix":{"profile.headline":"engin"}}},"other_bucket":true}},` +
				`"n":{"value_count":{"field":"experience.is_current"}},"now":{"terms":{"field":"experience.is_current"}}}`,
			`{"f":{"buckets":{"data":{"doc_count":2},"eng":{"doc_count":2},"_other_":{"doc_count":1}}},` +
				`"n":{"value":5},"now":{"doc_count_error_upper_bound":0,"sum_other_doc_count":0,"buckets":[` +
				`{"key":0,"key_as_string":"false","doc_count":2},{"key":1,"key_as_string":"true","doc_count":2}]}}`,
		},
		{
			`{"match_none":{}}`, `{"c":{"terms":{"field":"profile.location.country.keyword"}},` +
				`"s":{"sum":{"field":"profile.connections"}}}`,
			`{"c":{"doc_count_error_upper_bound":0,"sum_other_doc_count":0,"buckets":[]},"s":{"value":0}}`,
		},
	} {
		body := fmt.Sprintf(`{"query":%s,"size":0,"aggs":%s}`, tc.query, tc.aggregations)
		answer := f.search(body)
		got, err := json.Marshal(answer["aggregations"])
		require.NoError(t, err)
		require.JSONEq(t, tc.want, string(got), body)
		require.Empty(t, answer["results"])
		require.EqualValues(t, 0, answer["credits_charged"], body)
	}
}

// The other pages have the aggregations of the first one.
func TestSearch_AggregationsAreThoseOfAllPages(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	const rest = `"query":{"match_all":{}},"aggregations":{"n":{"value_count":{"field":"updated_at"}}}`
	want := map[string]any{"n": map[string]any{"value": 5.0}}
	first := f.search(`{` + rest + `,"size":3}`)
	require.Equal(t, want, first["aggregations"])
	require.Len(t, first["results"], 3)
	require.EqualValues(t, 3, first["credits_charged"])
	for _, size := range []string{"3", "0"} {
		page := f.search(fmt.Sprintf(`{%s,"size":%s,"cursor":%q}`, rest, size, first["next_cursor"]))
		require.Equal(t, want, page["aggregations"], size)
	}
	require.NotContains(t, f.search(`{"query":{"match_all":{}},"size":0}`), "aggregations")
	require.NotContains(t, f.search(`{"query":{"match_all":{}},"size":0,"aggs":null}`), "aggregations")
}

// Aggregations are free, e-mail addresses are an add-on.
func TestSearch_KeysOfBucketsHaveNoAddresses(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson,
		networkPerson("p1", "quinn", "2026-01-01", `"headline":"Write to quinn@post.example, or call"`))
	got := f.search(`{"query":{"match_all":{}},"size":0,"aggs":{"h":{"terms":{"field":"profile.headline.keyword"}}}}`)
	h := got["aggregations"].(map[string]any)["h"].(map[string]any)
	require.Equal(t, []any{map[string]any{"key": "Write to [e-mail removed], or call", "doc_count": 1.0}}, h["buckets"])
}

func TestSearch_AggregationsAreLimitedByTheMinute(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	count := func() response {
		return f.post("/v1/person/search",
			`{"query":{"match_all":{}},"size":0,"aggs":{"n":{"value_count":{"field":"updated_at"}}}}`)
	}
	for range 60 {
		require.Equal(t, http.StatusOK, count().status)
	}
	refused := count()
	require.Equal(t, http.StatusTooManyRequests, refused.status, refused.body)
	require.Contains(t, refused.detail(), "searches with aggregations are limited to 60 calls a minute for each key")
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	require.NotEmpty(t, f.search(`{"query":{"match_all":{}}}`)["results"],
		"searches without aggregations are not limited")
	explained := f.post("/v1/person/search/explain",
		`{"query":{"match_all":{}},"aggs":{"n":{"value_count":{"field":"updated_at"}}}}`)
	require.Equal(t, http.StatusOK, explained.status, "neither are explanations")
}

func TestSearch_AggregationsAreExplained(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	explain := func(aggregations string) map[string]any {
		return f.post("/v1/person/search/explain", `{"query":{"match_all":{}},"aggs":`+aggregations+`}`).json()
	}
	e := explain(`{"a":{"terms":{"field":"profile.location.country.keyword"}},` +
		`"b":{"filter":{"match_phrase_prefix":{"profile.headline":"softw"}}}}`)
	require.NotContains(t, e, "refused")
	text := fmt.Sprint(e["statements"])
	require.Contains(t, text, "profile_location_country")
	require.NotContains(t, text, "software", "terms of the filter are stored data")
	require.Contains(t, explain(`{"a":{"terms":{"field":"profile.full_name.keyword"}}}`)["refused"],
		"aggs.a.terms.field: the field profile.full_name.keyword cannot be aggregated: names of people")
	both := f.post("/v1/person/search", `{"query":{"match_all":{}},"aggs":{},"aggregations":{}}`)
	require.Equal(t, http.StatusBadRequest, both.status)
	require.Contains(t, both.detail(), "aggs and aggregations are the same")
}
