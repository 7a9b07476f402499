package clause_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/aggregation"
	"muster/query-api/internal/search/clause"
)

func aggregationsOf(body string) ([]aggregation.Aggregation, error) {
	return clause.Aggregations([]byte(body), "aggs", clause.Options{Now: time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)})
}

func TestAggregations_InvalidOnesAreRejected(t *testing.T) {
	const jobs = `"aggs":{"b":%s}}}`
	under := func(inner string) string {
		return `{"a":{"nested":{"path":"experience"},` + fmt.Sprintf(jobs, inner)
	}
	country := `{"terms":{"field":"profile.location.country.keyword"`
	for _, tc := range []struct{ body, want string }{
		{`[]`, `aggs: must be an object that names aggregations, not a list`},
		{`{"a":1}`, `aggs.a: must be an aggregation`},
		{`{"a]":{}}`, `Invalid aggregation name [a]]`},
		{`{"a":{}}`, `missing definition for aggregation [a]`},
		{`{"a":{"meta":{},"terms":{}}}`, `aggs.a.meta: is not supported`},
		{`{"a":` + country + `},"max":{}}}`, `found two aggregation type definitions in [a]: [terms] and [max]`},
		{`{"a":` + country + `},"aggs":{},"aggregations":{}}}`, `found two sub aggregation definitions under [a]`},
		{`{"a":{"term":{}}}`, `unknown or unsupported aggregation type [term]: did you mean "terms"?`},
		{`{"a":{"stats":{}}}`, `use min, max, avg, sum and value_count`},
		{`{"a":{"top_hits":{}}}`, `set size`},
		{`{"a":{"terms":{}}}`, `aggs.a.terms: needs "field"`},
		{`{"a":{"terms":{"field":"profile.location.country"}}}`,
			`text fields cannot be aggregated: use profile.location.country.keyword`},
		{`{"a":{"terms":{"field":"profile.location.countri.keyword"}}}`, `did you mean`},
		{`{"a":` + country + `,"siez":5}}}`, `unknown parameter "siez": did you mean "size"?`},
		{`{"a":` + country + `,"size":0}}}`, `aggs.a.terms.size: must be an integer from 1 to 10000`},
		{`{"a":` + country + `,"size":10001}}}`, `must be an integer from 1 to 10000`},
		{`{"a":` + country + `,"min_doc_count":0}}}`, `must be an integer from 1`},
		{`{"a":` + country + `,"include":"a.*"}}}`, `must be a list of values`},
		{`{"a":` + country + `,"script":"x"}}}`, `scripts are not run`},
		{`{"a":` + country + `,"format":"yyyy"}}}`, `is for dates`},
		{`{"a":` + country + `,"order":{"x":"asc"}}}}`, `invalid aggregation order path`},
		{`{"a":` + country + `,"order":{"_count":"up"}}}}`, `must be asc or desc`},
		{`{"a":` + country + `,"order":[]}}}`, `must have 1 to 8 keys`},
		{`{"a":` + country + `,"missing":null}}}`, `must not be null`},
		{`{"a":{"max":{"field":"profile.location.country.keyword"}}}`, `must be a number or a date`},
		{`{"a":{"max":{"field":"profile.connections","order":{}}}}`, `unknown parameter "order"`},
		{`{"a":{"max":{"field":"profile.connections","missing":1.5}}}`, `must be an integer`},
		{`{"a":{"max":{"field":"profile.connections"},"aggs":{}}}`, `cannot accept sub-aggregations`},
		{`{"a":{"sum":{"field":"experience.is_current"}}}`, `must be a number or a date`},
		{`{"a":{"range":{"field":"profile.connections"}}}`, `needs "ranges"`},
		{`{"a":{"range":{"field":"profile.connections","ranges":[]}}}`, `must be a list of ranges`},
		{`{"a":{"range":{"field":"profile.connections","ranges":[{"from":"x"}]}}}`, `must be a number`},
		{`{"a":{"range":{"field":"profile.connections","ranges":[{"gte":1}]}}}`, `unknown parameter "gte"`},
		{`{"a":{"date_histogram":{"field":"profile.connections","calendar_interval":"year"}}}`, `must be a date`},
		{`{"a":{"date_histogram":{"field":"updated_at"}}}`, `needs either calendar_interval or fixed_interval`},
		{`{"a":{"date_histogram":{"field":"updated_at","calendar_interval":"2y"}}}`, `must be one of second, minute`},
		{`{"a":{"date_histogram":{"field":"updated_at","fixed_interval":"1M"}}}`, `must be a number and a unit`},
		{`{"a":{"date_histogram":{"field":"updated_at","fixed_interval":"0d"}}}`, `must be a number and a unit`},
		{`{"a":{"date_histogram":{"field":"updated_at","fixed_interval":"1d","time_zone":"+01:00"}}}`, `those of UTC`},
		{`{"a":{"date_histogram":{"field":"updated_at","fixed_interval":"1d","format":"QQ"}}}`, `unknown date format`},
		{`{"a":{"filter":{}}}`, `empty clause`},
		{`{"a":{"filter":{"function_score":{"min_score":1}}}}`, `omit min_score`},
		{`{"a":{"filters":{"filters":[]}}}`, `must be an object of named clauses`},
		{`{"a":{"filters":{"filters":{"_other_":{"match_all":{}}},"other_bucket":true}}}`, `set other_bucket_key`},
		{`{"a":{"nested":{"path":"jobs"}}}`, `failed to find nested object under path [jobs]`},
		{`{"a":{"reverse_nested":{}}}`, `reverse_nested must be inside nested`},
		{under(`{"nested":{"path":"experience"}}`), `have no nested elements`},
		{under(country + `}}`), `is not in the elements of experience: put it into reverse_nested`},
		{under(`{"terms":{"field":"education.degree.keyword"}}`), `is not in the elements of experience`},
		{under(`{"reverse_nested":{"path":"experience"}}`), `must be omitted`},
		{
			`{"a":` + country + `},"aggs":{"b":` + country + `},"aggs":{"c":` + country + `}}}}}}}`,
			`aggs.a.aggs.b.aggs.c: aggregations are nested deeper than 2 levels`,
		},
		{
			strings.Repeat(`{"a":{"filter":{"match_all":{}},"aggs":`, 21) + `{}` + strings.Repeat(`}}`, 21),
			`nested deeper than 20 levels`,
		},
	} {
		_, err := aggregationsOf(tc.body)
		require.ErrorContains(t, err, tc.want, tc.body)
		var e *clause.Error
		require.ErrorAs(t, err, &e, tc.body)
	}
}

func TestAggregations_FieldsThatIdentifyAreRefused(t *testing.T) {
	for field, why := range map[string]string{
		"_id": "IDs", "profile_id.keyword": "IDs", "experience.company_id.keyword": "IDs", "education.school_id": "IDs",
		"profile.first_name.keyword": "names", "profile.last_name.keyword": "names", "profile.full_name": "names",
		"profile.personal_email.keyword": "e-mail addresses", "network_username.keyword": "usernames",
		"network_url.keyword": "URLs", "profile.image_url.keyword": "URLs", "experience.company_url.keyword": "URLs",
	} {
		for _, body := range []string{
			`{"a":{"terms":{"field":%q}}}`, `{"a":{"cardinality":{"field":%q}}}`, `{"a":{"value_count":{"field":%q}}}`,
			`{"a":{"terms":{"field":"profile.location.country.keyword"},"aggs":{"b":{"terms":{"field":%q}}}}}`,
			`{"a":{"filter":{"exists":{"field":%q}}}}`, `{"a":{"filters":{"filters":[{"term":{%q:"x"}}]}}}`,
		} {
			if field == "_id" && strings.Contains(body, "exists") {
				continue // all people have one
			}
			_, err := aggregationsOf(fmt.Sprintf(body, field))
			require.ErrorContains(t, err, why+" ", body)
			require.ErrorContains(t, err, "not aggregated", body)
		}
	}
	for _, filter := range []string{
		`{"ids":{"values":["p1"]}}`, `{"multi_match":{"query":"x"}}`, `{"query_string":{"query":"x"}}`,
		`{"bool":{"must_not":{"match":{"profile.full_name":"x"}}}}`,
		`{"query_string":{"query":"profile.headline:x y"}}`,
	} {
		_, err := aggregationsOf(`{"a":{"filter":` + filter + `,"aggs":{}}}`)
		require.ErrorContains(t, err, "put it into query", filter)
	}
	_, err := aggregationsOf(`{"a":{"filter":{"query_string":{"query":"profile.headline:engineer"}}}}`)
	require.NoError(t, err, "the query names its field")
}

func TestAggregations_AreLimited(t *testing.T) {
	many := func(n int, one string) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	named := make([]string, 65)
	for i := range named {
		named[i] = fmt.Sprintf(`"a%d":{"max":{"field":"profile.connections"}}`, i)
	}
	_, err := aggregationsOf(`{` + strings.Join(named[:64], ",") + `}`)
	require.NoError(t, err)
	for body, want := range map[string]string{
		`{` + strings.Join(named, ",") + `}`:                                                                "more than 64 aggregations",
		`{"a":{"range":{"field":"profile.connections","ranges":[` + many(101, `{}`) + `]}}}`:                "more than 100 ranges",
		`{"a":{"filters":{"filters":[` + many(101, `{"match_all":{}}`) + `]}}}`:                             "more than 100 filters",
		`{"a":{"terms":{"field":"profile.connections","include":[` + many(1001, `1`) + `]}}}`:               "more than 1000 values",
		`{"a":{"filter":{"match":{"profile.headline":"` + strings.Repeat("a ", 1025) + `"}}}}`:              "more than 1024 clauses",
		`{"a":{"date_histogram":{"field":"updated_at","fixed_interval":"9007199254740993s"}}}`:              "must be a number and a unit",
		`{"a":{"terms":{"field":"profile.connections","order":[` + many(9, `{"_key":"asc"}`) + `]}}}`:       "1 to 8 keys",
		`{"a":{"filter":` + strings.Repeat(`{"bool":{"must":`, 21) + `{}` + strings.Repeat(`}}`, 21) + `}}`: "deeper than 20 levels",
	} {
		_, err := aggregationsOf(body)
		require.ErrorContains(t, err, want)
	}
}
