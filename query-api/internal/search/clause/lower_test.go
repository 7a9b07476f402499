package clause_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/clause"
	"muster/query-api/internal/search/planner"
)

func options() clause.Options {
	return clause.Options{Now: time.Date(2026, 11, 21, 10, 30, 15, 500_000_000, time.UTC), Seed: 1}
}

func lowered(t *testing.T, query string) string {
	t.Helper()
	n, err := clause.Lower([]byte(query), "query", options())
	require.NoError(t, err, query)
	text, err := json.Marshal(algebra.Describe(n), json.Deterministic(true))
	require.NoError(t, err)
	return string(text)
}

func TestLower_ErrorsNameProblemAndPath(t *testing.T) {
	for query, want := range map[string]string{
		`{}`:                     `query: query malformed, empty clause found: name one, such as {"match_all": {}} for all people`,
		`[]`:                     "query: must be a query clause",
		`{"match":{},"term":{}}`: "[match] malformed query",
		`{"mtach":{"a":1}}`:      `unknown query [mtach]: did you mean "match"? /docs/guides/search names the clauses`,
		`{"frobnicate":{}}`:      `unknown query [frobnicate]: /docs/guides/search names the clauses`,
		`{"match":{"hedline":"a"}}`: `unknown field "hedline": did you mean "profile.headline"? ` +
			`/docs/guides/search lists the fields`,
		`{"match":{"open_to_work":"a"}}`: `query.match: unknown field "open_to_work": /docs/guides/search lists the fields`,
		`{"match":{"skills_count":"a"}}`: `query.match: the field "skills_count" is returned, but not searchable: ` +
			`/docs/guides/search lists the fields`,
		`{"match":{"skills":"a"}}`: `query.match: the field "skills" is an object: name one of its fields, such as ` +
			`skills.skill`,
		`{"term":{"codehost_username.keyword":"a"}}`: `the field "codehost_username.keyword" is returned, but not searchable`,
		`{"range":{"following":{"gte":1}}}`: `unknown field "following": did you mean "profile.following"? ` +
			`It is returned, but not searchable`,
		`{"geo_distance":{}}`: "the clause geo_distance is not supported: records have no coordinates",
		`{"bool":{"must":[{"match":{"profile.headline":"a"}},` +
			`{"match":{"profile.hedline":"a"}}]}}`: `query.bool.must[1].match: unknown field "profile.hedline": did ` +
			`you mean "profile.headline"?`,
		`{"match":{"profile.headline":{"query":"a",` +
			`"oparator":"and"}}}`: `query.match.profile.headline: unknown parameter "oparator": did you mean "operator"?`,
		`{"term":{"profile.headline":"a",` +
			`"profile.summary":"b"}}`: "[term] query doesn't support multiple fields, found [profile.headline] and " +
			"[profile.summary]",
		`{"range":{"profile.connections":{"gte":"x"}}}`: "profile.connections holds integers",
		`{"range":{"updated_at":{"gte":"yesterday"}}}`:  "cannot parse \"yesterday\" as a date",
		`{"range":{"updated_at":{"gte":"now-1x"}}}`:     "not supported for date math",
		`{"nested":{"path":"experience","query":{"nested":{"path":"education",` +
			`"query":{"match_all":{}}}}}}`: "is not inside experience",
		`{"regexp":{"profile.headline":"` + strings.Repeat("a", 1001) + `"}}`:                  "exceeds 1000",
		`{"regexp":{"profile.headline":"(a"}}`:                                                 "a ( is not closed",
		`{"match":{"profile.location":"a"}}`:                                                   "is an object: name one of its fields",
		strings.Repeat(`{"bool":{"must":`, 21) + `{"match_all":{}}` + strings.Repeat(`}}`, 21): "nested deeper than 20",
		`{"bool":{"should":[` + strings.TrimSuffix(strings.Repeat(`{"match_all":{}},`, 1025), ",") +
			`]}}`: "more than 1024 clauses",
		`{"terms":{"profile_id.keyword":[` + strings.TrimSuffix(strings.Repeat(`1,`, 65537), ",") +
			`]}}`: "more than 65536 terms",
		`{"match":{"profile.headline":{"query":"a","boost":-1}}}`: "boost must not be negative",
		`{"multi_match":{"query":"a","fields":["profile.headline"],"type":"bool_prefix",` +
			`"slop":1}}`: "[slop] not allowed for type [bool_prefix]",
		`{"match":{"experience.is_current":{"query":"true",` +
			`"fuzziness":1}}}`: "can only use fuzziness on text fields, not on experience.is_current",
		`{"query_string":{"query":"(a","default_field":"profile.headline"}}`: "a ( is not closed",
		`{"multi_match":{"query":"a","fields":["profile.headline^NaN"]}}`:    "the boost after ^ must be a number of 0 or more",
		`{"multi_match":{"query":"a",` +
			`"fields":["profile.headline^Infinity"]}}`: "the boost after ^ must be a number of 0 or more",
		`{"multi_match":{"query":"a","fields":["profile.headline^Inf"]}}`:             "the boost after ^ must be a number of 0 or more",
		`{"term":{"profile.connections":1e30}}`:                                       "out of range for a long",
		`{"terms":{"profile.connections":[1,"99999999999999999999"]}}`:                "out of range for a long",
		`{"range":{"profile.connections":{"lt":9223372036854775808}}}`:                "out of range for a long",
		`{"term":{"experience.is_current":""}}`:                                       "can't parse boolean value",
		`{"range":{"updated_at":{"gte":"2026-1-1","format":"strict_date"}}}`:          "as a date",
		`{"range":{"updated_at":{"gte":"2026-1-1","format":"yyyy-MM-dd"}}}`:           "as a date",
		`{"range":{"updated_at":{"gte":"2026","format":"yyyy'T"}}}`:                   "unknown date format",
		`{"range":{"updated_at":{"gte":"2026","format":"yyyy-MM-yy"}}}`:               "unknown date format",
		`{"range":{"updated_at":{"gte":"2026","format":"yyyy-MMMM"}}}`:                "unknown date format",
		`{"range":{"updated_at":{"gte":"10","format":"MM"}}}`:                         "unknown date format",
		`{"range":{"updated_at":{"gte":"04 oct 2026","format":"dd MMM yyyy"}}}`:       "as a date",
		`{"range":{"updated_at":{"gte":"2026-10-04+02:00","format":"yyyy-MM-ddZ"}}}`:  "as a date",
		`{"range":{"updated_at":{"gte":"2026-10-04+0200","format":"yyyy-MM-ddXXX"}}}`: "as a date",
		`{"range":{"updated_at":{"gte":"20261004T100000Z",` +
			`"format":"strict_basic_date_time_no_millis"}}}`: "unknown date format",
		`{"range":{"updated_at":{"gte":1767225600000.5}}}`:                                            "as a date",
		`{"term":{"updated_at":1767225600000.5}}`:                                                     "as a date",
		`{"range":{"updated_at":{"gte":"2026-02-30"}}}`:                                               "as a date",
		`{"range":{"updated_at":{"lte":"2026-02-32"}}}`:                                               "as a date",
		`{"range":{"updated_at":{"gte":"2026/10","format":"yyyy[-MM]"}}}`:                             "as a date",
		`{"range":{"updated_at":{"gte":"2026]","format":"yyyy]"}}}`:                                   "unknown date format",
		`{"range":{"updated_at":{"gte":"2026#1","format":"yyyy#M"}}}`:                                 "unknown date format",
		`{"range":{"updated_at":{"gte":"10","format":"[yyyy-]MM"}}}`:                                  "unknown date format",
		`{"range":{"updated_at":{"gte":"2026-W01-1","format":"week_date"}}}`:                          `unknown date format "week_date"`,
		`{"range":{"updated_at":{"gte":"2026","format":"yyyy` + strings.Repeat("[-MM", 1000) + `"}}}`: "unknown date format",
		`{"range":{"updated_at":{"gte":"2026","time_zone":"EST"}}}`:                                   "is neither a UTC offset",
		`{"range":{"updated_at":{"gte":"2022-01-01T00:00:00Europe/Nowhere"}}}`:                        "as a date",
		`{"range":{"updated_at":{"gte":"2026","time_zone":"+18:01"}}}`:                                "is neither a UTC offset",
		`{"range":{"profile.connections":{"gte":1,"time_zone":"nowhere"}}}`:                           "is neither a UTC offset",
		`{"range":{"updated_at":{"gte":"2026-01-01T00:00:00+18:30"}}}`:                                "as a date",
		`{"nested":{"path":null,"ignore_unmapped":true,"query":{"match_all":{}}}}`:                    "query.nested.path: must not be null",
		`{"multi_match":{"query":"a","fields":["profile.headline"],"tie_breaker":1.5}}`:               "tie_breaker must be from 0 to 1",
		`{"multi_match":{"query":"a","fields":["profile.headline"],"tie_breaker":-0.5}}`:              "tie_breaker must be from 0 to 1",
		`{"prefix":{"profile.headline":{"value":"a","boost":-1}}}`:                                    "boost must not be negative",
		`{"range":{"profile.connections":{"from":1,"include_lower":5}}}`:                              "must be true or false",
		`{"range":{"updated_at":{"gte":"2026","format":"yyyy-MM-dd"}}}`:                               "as a date",
		`{"match":{"profile.headline":{"query":"a b c","minimum_should_match":"x<2"}}}`:               "minimum_should_match is a number",
		`{"query_string":{"query":"*a","default_field":"profile.headline",` +
			`"allow_leading_wildcard":false}}`: "'*' or '?' not allowed as first character",
		`{"function_score":{"functions":[{"weight":-0.5}]}}`: "weight must not be negative",
		`{"function_score":{"weight":2,"random_score":{}}}`:  "names two functions, weight and random_score",
		`{"match":{"profile.headline":{"query":"a b c",` +
			`"minimum_should_match":"2<-1  5<1"}}}`: "minimum_should_match is a number",
		`{"match":{"profile.headline":{"query":"a b c","minimum_should_match":"2<"}}}`: "minimum_should_match is a number",
		`{"match_all":{"boost":null}}`:                                                   "query.match_all.boost: must not be null",
		`{"match":{"profile.headline":{"query":"a","operator":null}}}`:                   "operator: must not be null",
		`{"bool":{"must_not":[],"adjust_pure_negative":null}}`:                           "adjust_pure_negative: must not be null",
		`{"match":{"profile.headline":{"query":"a","fuzziness":"AUTO3,6"}}}`:             "fuzziness must be a number of 0 or more",
		`{"match":{"profile.headline":{"query":"a","fuzziness":-1}}}`:                    "fuzziness must be a number of 0 or more",
		`{"nested":{"path":"experience","score_mode":"total","query":{"match_all":{}}}}`: "must be one of",
		`{"nested":{"path":"experience","score_mode":"SUM","query":{"match_all":{}}}}`:   "must be in lower case",
		`{"nested":{"path":"experience","query":{"nested":{"path":"experience",` +
			`"query":{"match_all":{}}}}}}`: "inside a nested clause of the same path",
		`{"ids":{"values":["a",""]}}`:                             "ids can't be empty",
		`{"term":{"_id":""}}`:                                     "ids can't be empty",
		`{"prefix":{"_id":"a"}}`:                                  "_id has no prefix",
		`{"wildcard":{"_id":"a*"}}`:                               "_id has no wildcard",
		`{"range":{"_id":{"gte":"a"}}}`:                           "_id has no range",
		`{"match":{"_id":{"query":"a","fuzziness":1}}}`:           "can only use fuzziness on text fields, not on _id",
		`{"simple_query_string":{"query":"a*","fields":["_id"]}}`: "can only use prefix queries on text fields, not on _id",
		`{"nested":{"path":"experience","query":{"match_all":{}},"inner_hits":` +
			`{"highlight":{}}}}`: `inner_hits.highlight: needs "fields"`,
		`{"nested":{"path":"experience","query":{"match_all":{}},"inner_hits":` +
			`{"docvalue_fields":[]}}}`: `inner_hits.docvalue_fields: is not supported: use _source to select fields`,
		`{"nested":{"path":"experience","query":{"match_all":{}},"inner_hits":` +
			`{"sorted":[]}}}`: `unknown parameter "sorted": did you mean "sort"?`,
		`{"nested":{"path":"experience","query":{"match_all":{}},"inner_hits":` +
			`{"size":null}}}`: `inner_hits.size: must not be null`,
		`{"nested":{"path":"experience","query":{"match_all":{}},"inner_hits":` +
			`{"name":5}}}`: `inner_hits.name: must be a string`,
		`{"nested":{"path":"experience","query":{"match_all":{}},"inner_hits":{"from":50,` +
			`"size":51}}}`: `Inner result window is too large, from + size must be less than or equal to: [100] but was [101]`,
		`{"nested":{"path":"experience","query":{"match_all":{}},"inner_hits":` +
			`{"sort":"_doc"}}}`: `inner_hits.sort: must be a list of sort keys`,
		`{"nested":{"path":"experience","query":{"match_all":{}},"inner_hits":{"sort":` +
			`["experience.title"]}}}`: `text fields cannot be sorted by: use experience.title.keyword`,
		`{"nested":{"path":"experience","query":{"match_all":{}},"inner_hits":{"sort":` +
			`["start_date"]}}}`: `inner_hits.sort[0]: unknown field`,
		`{"nested":{"path":"experience","query":{"match_all":{}},"inner_hits":{"sort":[{"experience.start_date":` +
			`{"nested":{"path":"experience"}}}]}}}`: `elements have no nested elements`,
		`{"nested":{"path":"experience","query":{"match_all":{}},"inner_hits":` +
			`{"_source":5}}}`: `inner_hits._source: must be true, false`,
		`{"nested":{"path":"experience","query":{"match_all":{}},"inner_hits":{"_source":` +
			`{"only":[]}}}}`: `unknown field "only"`,
		`{"bool":{"must":[{"nested":{"path":"experience","query":{"match_all":{}},"inner_hits":{}}},` +
			`{"nested":{"path":"experience","query":{"match_all":{}},"inner_hits":{}}}]}}`: "already contains an " +
			"entry for key [experience]",
		`{"simple_query_string":{"query":"a~","fields":["_id"]}}`: "can only use fuzzy queries on text fields, not on _id",
		`{"simple_query_string":{"query":"5*",` +
			`"fields":["profile.connections"]}}`: "can only use prefix queries on text fields, not on profile.connections",
		`{"simple_query_string":{"query":"5~1","fields":["profile.headline",` +
			`"updated_at"]}}`: "can only use fuzzy queries on text fields, not on updated_at",
		`{"query_string":{"query":"_id:a*",` +
			`"default_field":"profile.headline"}}`: "can only use wildcard queries on text fields, not on _id",
		`{"query_string":{"query":"updated_at:[2024 TO 2025]","time_zone":"Europe/Berlni"}}`: `time_zone ` +
			`"Europe/Berlni" is neither a UTC offset`,
		`{"query_string":{"query":"a","time_zone":""}}`:                    "query_string.time_zone: must not be empty",
		`{"range":{"updated_at":{"gte":"2024","time_zone":""}}}`:           "updated_at.time_zone: must not be empty",
		`{"range":{"updated_at":{"gte":"2024","format":""}}}`:              "updated_at.format: must not be empty",
		`{"term":{"profile.connections":"1_000"}}`:                         `"1_000" is not one that it can hold`,
		`{"match":{"profile.headline":{"query":"a","boost":"1_0"}}}`:       "boost: must be a number",
		`{"match":{"profile.headline":{"query":"a","boost":-0.0}}}`:        "boost must not be negative",
		`{"match_phrase":{"profile.headline":{"query":"a","slop":-1.5}}}`:  "slop: must be an integer from 0",
		`{"match_phrase":{"profile.headline":{"query":"a","slop":"NaN"}}}`: "slop: must be an integer from 0",
		`{"boosting":{"positive":{"match_all":{}},"negative":{"match_all":{}},` +
			`"negative_boost":null}}`: "negative_boost: must not be null",
		`{"function_score":{"functions":[{"weight":null}]}}`:                              "functions[0]: names no function",
		`{"function_score":{"random_score":{"seed":1.5}}}`:                                "seed: must be an integer or a string",
		`{"function_score":{"linear":{"profile.connections":{"origin":null,"scale":1}}}}`: "origin: must not be null",
		`{"function_score":{"linear":{"profile.connections":{"origin":1,"scale":1,"decay":null}}}}`: "decay: must " +
			"not be null",
	} {
		_, err := clause.Lower([]byte(query), "query", options())
		var e *clause.Error
		require.ErrorAs(t, err, &e, query)
		require.ErrorContains(t, err, want)
	}
}

// A capital M would be a month.
func TestLower_ScaleIsAWholeDuration(t *testing.T) {
	lower := func(scale string) (algebra.Node, error) {
		return clause.Lower([]byte(`{"function_score":{"gauss":{"updated_at":{"origin":"2024","scale":`+scale+`}}}}`),
			"query", options())
	}
	for scale, want := range map[string]float64{
		`"10d"`: 864_000_000, `"10 d"`: 864_000_000, `" 10 D "`: 864_000_000, `"+2h"`: 7_200_000, `"1m"`: 60_000,
		`"30s"`: 30_000, `"5MS"`: 5,
		`"1500micros"`: 1, `"2999999nanos"`: 2,
	} {
		n, err := lower(scale)
		require.NoError(t, err, scale)
		require.IsType(t, algebra.Function{}, n)
		require.InDelta(t, want, n.(algebra.Function).Functions[0].Scale, 0, scale) //nolint:forcetypeassert // see above
	}
	for _, scale := range []string{`"1M"`, `" 1m "`, `"1.5d"`, `"100"`, `86400000`, `"1micros"`, `"0"`, `"-1d"`,
		`"d"`, `""`, `true`} {
		_, err := lower(scale)
		var e *clause.Error
		require.ErrorAs(t, err, &e, scale)
	}
}

func TestLower_CountsAreTruncated(t *testing.T) {
	slop := func(slop string) string {
		return lowered(t, `{"match_phrase":{"profile.headline":{"query":"a b","slop":`+slop+`}}}`)
	}
	for _, same := range []string{`2.0`, `2.9`, `"2"`, `"2.5"`, `2e0`} {
		require.Equal(t, slop(`2`), slop(same), same)
	}
	require.Equal(t, slop(`0`), slop(`-0.5`))
	prefix := func(more string) string {
		return lowered(t, `{"multi_match":{"query":"a b","fields":["profile.headline"],"type":"bool_prefix"`+more+`}}`)
	}
	require.Equal(t, prefix(""), prefix(`,"slop":0`))
}

// -0.0, and the text "-0", are less.
func TestLower_IntegerMinusZeroIsZero(t *testing.T) {
	match := func(boost string) string { return `{"match":{"profile.headline":{"query":"a","boost":` + boost + `}}}` }
	require.Equal(t, lowered(t, match(`0`)), lowered(t, match(`-0`)))
	for _, boost := range []string{`-0.0`, `-0e0`, `"-0"`} {
		_, err := clause.Lower([]byte(match(boost)), "query", options())
		require.ErrorContains(t, err, "boost must not be negative", boost)
		_, err = clause.Lower([]byte(`{"function_score":{"functions":[{"weight":`+boost+`}]}}`), "query", options())
		require.ErrorContains(t, err, "weight must not be negative", boost)
	}
}

func TestLower_NumbersInTextsAreParsedAsInJava(t *testing.T) {
	for _, query := range []string{
		`{"match":{"profile.headline":{"query":"a b","boost":%}}}`,
		`{"match":{"profile.headline":{"query":"a b","fuzziness":%}}}`,
		`{"match_phrase":{"profile.headline":{"query":"a b","slop":%}}}`,
		`{"function_score":{"weight":%}}`,
		`{"function_score":{"gauss":{"profile.followers":{"origin":%,"scale":1}}}}`,
	} {
		with := func(number string) string { return strings.ReplaceAll(query, "%", number) }
		for _, number := range []string{`"2"`, `"2f"`, `"2D"`, `" 2 "`, `"\t2.\n"`, `"0x1p1"`} {
			require.Equal(t, lowered(t, with(`2`)), lowered(t, with(number)), number)
		}
		for _, number := range []string{`"2_0"`, `"2fd"`, `"f"`, `"2 f"`, `"inf"`, `"NaN"`, `"0x1"`, `"\u00a02"`, `""`} {
			_, err := clause.Lower([]byte(with(number)), "query", options())
			require.ErrorContains(t, err, "must be a", with(number))
		}
	}
	for _, number := range []string{"2_0", "0x1p1"} {
		_, err := clause.Lower([]byte(`{"term":{"profile.followers":"`+number+`"}}`), "query", options())
		require.ErrorContains(t, err, "is not one that it can hold", number)
	}
}

func TestLower_SeedIsANumberOrText(t *testing.T) {
	seeded := func(seed string) int64 {
		n, err := clause.Lower([]byte(`{"function_score":{"random_score":{"seed":`+seed+`}}}`), "query", options())
		require.NoError(t, err, seed)
		require.IsType(t, algebra.Function{}, n)
		return n.(algebra.Function).Functions[0].Seed //nolint:forcetypeassert // see above
	}
	require.Equal(t, seeded(`"session-1"`), seeded(`"session-1"`))
	require.NotEqual(t, seeded(`"session-1"`), seeded(`"session-2"`))
	require.Equal(t, seeded(`7`), seeded(`"7"`))
}

func TestSorts_MissingIsANumber(t *testing.T) {
	for missing, want := range map[string]string{
		`2030`: "2030", `"2030"`: "2030", `"+2030"`: "2030", `250.7`: "250", `-250.7`: "-250",
		`1e30`: "9223372036854775807", `-1e30`: "-9223372036854775808",
		`9223372036854775807`: "9223372036854775807", `-9223372036854775808`: "-9223372036854775808",
		`"2030.5"`: "", `"2020-01-01"`: "", `"now"`: "", `true`: "", `"_LAST"`: "", `99999999999999999999`: "",
	} {
		for _, field := range []string{"experience.end_date", "profile.connections", "experience.is_current"} {
			keys, err := clause.Sorts([]byte(`[{"`+field+`":{"missing":`+missing+`}}]`), "sort", options())
			if want == "" {
				require.ErrorContains(t, err, "sort[0]."+field+".missing: must be an integer", missing)
				continue
			}
			require.NoError(t, err, missing)
			require.Equal(t, want, *keys[0].Missing, missing)
		}
	}
}

// null removes the bounds before it.
func TestLower_LastBoundOfASideCounts(t *testing.T) {
	for bounds, want := range map[string]string{
		`"gt":5,"gte":9`: `"min":9`, `"gte":9,"gt":5`: `"min":6`, `"gt":9,"gte":9`: `"min":9`,
		`"lt":9,"lte":5`: `"max":5`, `"lte":5,"lt":9`: `"max":8`,
		`"from":5`: `"min":5`, `"from":5,"include_lower":false`: `"min":6`, `"include_lower":false,"from":5`: `"min":6`,
		`"gt":5,"from":5`:               `"min":6`,
		`"gt":5,"include_lower":"true"`: `"min":5`, `"to":5,"include_upper":false`: `"max":4`,
		`"gt":5,"gte":null,"lt":9`: `"max":8`, `"gt":null,"from":5`: `"min":6`,
		`"gte":5,"relation":"Within"`: `"min":5`,
	} {
		got := lowered(t, `{"range":{"profile.connections":{`+bounds+`}}}`)
		require.Contains(t, got, want, bounds)
		require.NotContains(t, got, "exists", bounds)
	}
	require.Contains(t, lowered(t, `{"range":{"profile.connections":{"gt":5,"gte":null}}}`), "exists")
}

func TestLower_RewriteMethods(t *testing.T) {
	for rewrite, want := range map[string]string{
		"constant_score": "", "constant_score_boolean": "", "constant_score_blended": "",
		"scoring_boolean": `"expansions":1025,"field":"profile.headline","insensitive":false,"kind":"prefix",` +
			`"rewrite":"scored"`,
		"top_terms_007":  `"expansions":7,"field":"profile.headline","insensitive":false,"kind":"prefix","rewrite":"scored"`,
		"top_terms_9999": `"expansions":1024,`, "top_terms_boost_3": `"rewrite":"nearness"`,
		"top_terms_blended_freqs_3": `"rewrite":"blended"`,
	} {
		require.Contains(t, lowered(t, `{"prefix":{"profile.headline":{"value":"a","rewrite":"`+rewrite+`"}}}`), want,
			rewrite)
		if want == "" {
			require.NotContains(t, lowered(t, `{"prefix":{"profile.headline":{"value":"a","rewrite":"`+rewrite+`"}}}`),
				"rewrite", rewrite)
		}
	}
	require.Contains(t, lowered(t, `{"match":{"profile.headline":{"query":"abcd","fuzziness":1,"max_expansions":5,`+
		`"fuzzy_rewrite":"top_terms_3"}}}`), `"expansions":3`)
	require.Contains(t, lowered(t, `{"fuzzy":{"profile.headline":{"value":"abcd","max_expansions":5,`+
		`"rewrite":"constant_score"}}}`), `"rewrite":"constant"`)
	require.Contains(
		t,
		lowered(t, `{"fuzzy":{"profile.headline":{"value":"abcd","fuzziness":0,"rewrite":"constant_score"}}}`),
		`{"set":`,
	)
	for _, rewrite := range []string{`"top_terms_0"`, `"top_terms_"`, `"top_terms_-1"`, `"top_terms_99999999999"`,
		`"top_terms_3x"`, `"3"`, `"SCORING_BOOLEAN"`, `"constant_score_auto"`, `""`, `3`, `true`} {
		for _, query := range []string{`{"wildcard":{"profile.headline":{"value":"a*","rewrite":`,
			`{"fuzzy":{"profile.headline":{"value":"a","rewrite":`, `{"multi_match":{"query":"a","fuzzy_rewrite":`} {
			query += rewrite + strings.Repeat("}", strings.Count(query, "{"))
			_, err := clause.Lower([]byte(query), "query", options())
			require.ErrorContains(t, err, "must be constant_score", query)
		}
	}
}

func TestLower_QueryStringRejectsParametersWithoutEffect(t *testing.T) {
	for query, want := range map[string]string{
		`{"query_string":{"query":"a","default_field":"profile.headline^2"}}`: "without a boost",
		`{"query_string":{"query":"a","default_field":["profile.headline"]}}`: "must be the name of one field",
		`{"query_string":{"query":"a","default_field":"profile.hedline"}}`:    "unknown field",
		`{"query_string":{"query":"a","fields":"profile.headline"}}`:          "must be a list",
		`{"simple_query_string":{"query":"a","fields":"profile.headline"}}`:   "must be a list",
		`{"query_string":{"query":"a*","analyzer":"french"}}`:                 "unknown analyzer",
		`{"query_string":{"query":"a","quote_analyzer":"french"}}`:            "unknown analyzer",
		`{"match":{"profile.connections":{"query":"1","analyzer":1}}}`:        "unknown analyzer",
		`{"query_string":{"query":"a","fuzzy_rewrite":"constant_score"}}`:     "unknown parameter",
		`{"query_string":{"query":"a","escape":1}}`:                           "must be true or false",
		`{"query_string":{"query":"a","analyze_wildcard":null}}`:              "must not be null",
		`{"query_string":{"query":"a","enable_position_increments":"x",` +
			`"fields":["profile.headline"]}}`: "must be true or false",
	} {
		_, err := clause.Lower([]byte(query), "query", options())
		require.ErrorContains(t, err, want, query)
	}
}

// A compound clause counts as its content. A phrase counts as one clause, with slop as one for each word; the words of
// a query string count once.
func TestLower_CountsClausesAsLucene(t *testing.T) {
	words := func(n int) string { return strings.TrimSpace(strings.Repeat("a ", n)) }
	should := func(n int, clause string) string {
		return `{"bool":{"should":[` + strings.TrimSuffix(strings.Repeat(clause+",", n), ",") + `]}}`
	}
	least := func(levels int) string {
		query := `{"term":{"profile.connections":1}}`
		for range levels {
			query = `{"function_score":{"min_score":1,"score_mode":"avg","functions":[{"weight":2,"filter":` + query + `}]}}`
		}
		return query
	}
	const term, two = `{"term":{"profile.connections":1}}`, `{"match_phrase":{"profile.headline":"a b"}}`
	for query, want := range map[string]string{
		should(1024, term): "",
		should(1025, term): "query.bool.should[1024]: the query has more than 1024 clauses",
		`{"nested":{"path":"experience","query":{"constant_score":{"filter":` +
			should(1024, `{"exists":{"field":"experience.title"}}`) + `}}}}`: "",
		should(512, should(2, term)):                                                                  "",
		should(513, should(2, term)):                                                                  "more than 1024 clauses",
		should(1025, `{"bool":{}}`):                                                                   "more than 1024 clauses",
		`{"match":{"profile.headline":"` + words(1024) + `"}}`:                                        "",
		`{"match":{"profile.headline":"` + words(1025) + `"}}`:                                        "more than 1024 clauses",
		`{"match_phrase":{"profile.headline":"` + words(2048) + `"}}`:                                 "",
		`{"match_phrase":{"profile.headline":"` + words(2049) + `"}}`:                                 "more than 2048 words",
		`{"multi_match":{"type":"phrase","fields":["profile.*_name"],"query":"` + words(1000) + `"}}`: "more than 2048 words",
		`{"match_phrase":{"profile.headline":{"slop":1,"query":"` + words(1024) + `"}}}`:              "",
		`{"match_phrase":{"profile.headline":{"slop":1,"query":"` + words(1025) + `"}}}`:              "more than 1024 clauses",
		`{"multi_match":{"type":"phrase","query":"` + words(36) + `"}}`:                               "",
		`{"query_string":{"default_field":"profile.headline","query":"` + words(1000) + `"}}`:         "",
		`{"query_string":{"default_field":"profile.headline","query":"` + words(1025) + `"}}`:         "more than 1024 clauses",
		`{"simple_query_string":{"fields":["profile.headline"],"query":"` + words(500) + `"}}`:        "",
		should(5000, `{"match":{"profile.connections":{"query":"1","analyzer":"standard",`+
			`"lenient":true}}}`): "more than 1024 clauses",
		`{"query_string":{"query":"` + words(20) + `"}}`:  "",
		`{"query_string":{"query":"` + words(100) + `"}}`: "more than 1024 clauses",
		least(2):          "",
		least(3):          "min_score are nested deeper than 2 levels",
		should(1024, two): "",
		should(1025, two): "more than 2048 words",
	} {
		_, err := clause.Lower([]byte(query), "query", options())
		if want == "" {
			require.NoError(t, err, "%.100s", query)
			continue
		}
		require.ErrorContains(t, err, want, "%.100s", query)
	}
}

func TestSorts_UnmappedFieldsDoNotChangeTheOrder(t *testing.T) {
	for body, want := range map[string]string{
		`{"unmapped_type":"long"}`: "", `{"unmapped_type":"keyword","missing":"x","mode":"max"}`: "",
		`{"unmapped_type":"double","missing":12.5,"mode":"sum"}`: "",
		`{"unmapped_type":"long","nested":{"path":"hobbies"}}`:   "", `{"unmapped_type":"date","numeric_type":"double",` +
			`"nested":{"path":"experience","filter":{"match_all":{}}}}`: "",
		`{}`:                                      "unknown field",
		`{"unmapped_type":"text"}`:                "must be a type of fields that can be sorted by",
		`{"unmapped_type":null}`:                  "must not be null",
		`{"unmapped_type":"long","missing":"x"}`:  "must be an integer",
		`{"unmapped_type":"float","missing":"x"}`: "must be a number", `{"unmapped_type":"ip","mode":"sum"}`: "sort mode sum",
		`{"unmapped_type":"keyword","numeric_type":"long"}`:                   "numeric_type",
		`{"unmapped_type":"long","nested":{"path":"experience","filter":{}}}`: "empty clause",
	} {
		keys, err := clause.Sorts([]byte(`[{"hobbies.name":`+body+`}]`), "sort", options())
		if want != "" {
			require.ErrorContains(t, err, want, body)
			continue
		}
		require.NoError(t, err, body)
		require.Equal(t, []planner.Sort{{Kind: planner.SortDocument}}, keys, body)
	}
	keys, err := clause.Sorts([]byte(`[{"hobbies":{"unmapped_type":"long"}},"_score","_doc","updated_at"]`), "sort",
		options())
	require.NoError(t, err)
	require.Equal(t, []planner.Sort{{Kind: planner.SortScore, Descending: true}, {Kind: planner.SortDocument}}, keys)
	for body, want := range map[string]string{
		`{"format":"yyyy"}`: "sort values are not returned", `{"numeric_type":"date_nanos"}`: "milliseconds",
		`{"numeric_type":"int"}`: "must be one of",
		`{"nested":{"path":"experience","nested":{"path":"experience"}}}`: "nested paths are not inside each other",
	} {
		_, err := clause.Sorts([]byte(`[{"experience.start_date":`+body+`}]`), "sort", options())
		require.ErrorContains(t, err, want, body)
	}
}

func TestLower_DatesAreParsedAsInElasticsearch(t *testing.T) {
	ms := func(s string) string {
		at, err := time.Parse(time.RFC3339Nano, s)
		require.NoError(t, err)
		text, err := json.Marshal(at.UnixMilli())
		require.NoError(t, err)
		return string(text)
	}
	for _, c := range []struct{ bounds, min, max string }{
		{`"gte":"2022"`, "2022-01-01T00:00:00Z", ""},
		{`"gt":"2022"`, "2022-01-02T00:00:00Z", ""},
		{`"lte":"2022"`, "", "2022-01-01T23:59:59.999Z"},
		{`"lt":"2022"`, "", "2021-12-31T23:59:59.999Z"},
		{`"lte":"2022-05-03T10"`, "", "2022-05-03T10:59:59.999Z"},
		{`"gte":"2022-05-03T10:00:00.25+02:00"`, "2022-05-03T08:00:00.25Z", ""},
		{`"gte":"now-1d/d"`, "2026-11-20T00:00:00Z", ""},
		{`"lt":"now/d"`, "", "2026-11-20T23:59:59.999Z"},
		{`"lte":"now/M"`, "", "2026-11-30T23:59:59.999Z"},
		{`"gt":"now/w"`, "2026-11-23T00:00:00Z", ""},
		{`"gte":"2024-03-31||-1M"`, "2024-02-29T00:00:00Z", ""},
		{`"gte":"2022-01-01","time_zone":"+01:00"`, "2021-12-31T23:00:00Z", ""},
		{`"gte":"2022-07-01","time_zone":"Europe/Berlin"`, "2022-06-30T22:00:00Z", ""},
		{`"gte":1640995200000`, "2022-01-01T00:00:00Z", ""},
		{`"gte":"01/02/2022","format":"dd/MM/yyyy"`, "2022-02-01T00:00:00Z", ""},
		{`"gte":1640995200,"format":"epoch_second"`, "2022-01-01T00:00:00Z", ""},
		{`"gte":"2026-1-1","format":"date"`, "2026-01-01T00:00:00Z", ""},
		{`"gte":"2026-1","format":"year_month"`, "2026-01-01T00:00:00Z", ""},
		{`"gte":"2026-10-4T1:0:0.5+0200","format":"date_time"`, "2026-10-03T23:00:00.5Z", ""},
		{`"gte":"2026-10-04T10:00:00.123456+02:00","format":"strict_date_time"`, "2026-10-04T08:00:00.123Z", ""},
		{`"lte":"2026-10-4T1","format":"date_hour"`, "", "2026-10-04T01:59:59.999Z"},
		{`"gte":"20261004T100000+02","format":"basic_date_time_no_millis"`, "2026-10-04T08:00:00Z", ""},
		{`"gte":"04 Oct 2026","format":"dd MMM yyyy"`, "2026-10-04T00:00:00Z", ""},
		{`"gte":"26-10-04","format":"yy-MM-dd"`, "2026-10-04T00:00:00Z", ""},
		{`"gte":"4 o'clock 3.10.'26","format":"H 'o''clock' d.M.''yy"`, "2026-10-03T04:00:00Z", ""},
		{`"gte":"2026年10月4日","format":"uuuu年M月d日"`, "2026-10-04T00:00:00Z", ""},
		{`"gte":"2026-10-04 +02","format":"yyyy-MM-dd X"`, "2026-10-03T22:00:00Z", ""},
		{`"gte":"2026-10-04 +0200","format":"yyyy-MM-dd XX"`, "2026-10-03T22:00:00Z", ""},
		{`"gte":"2026","lte":"2026-10","format":"date"`, "2026-01-01T00:00:00Z", "2026-10-01T23:59:59.999Z"},
		{`"gte":"2026-10","format":"strict_year_month_day"`, "2026-10-01T00:00:00Z", ""},
		{`"gte":"2026-10-04T10:00:00+02:00","format":"strict_date_time"`, "2026-10-04T08:00:00Z", ""},
		{`"gte":"2026-10-04T10:00:00.5","format":"strict_date_hour_minute_second_fraction"`, "2026-10-04T10:00:00.5Z", ""},
		{`"gte":"2026-10-04T10","format":"iso8601"`, "2026-10-04T10:00:00Z", ""},
		{`"gte":"2026","lte":"2026/10/04","format":"yyyy[/MM[/dd]]"`, "2026-01-01T00:00:00Z", "2026-10-04T23:59:59.999Z"},
		{`"gte":"2026-10-04 10:00","lte":"2026-10-04 10:00:30","format":"yyyy-MM-dd HH:mm[:ss"`, "2026-10-04T10:00:00Z",
			"2026-10-04T10:00:30.999Z"},
		// Where a bound is completed to its end, a day that the month does not have is its last.
		{`"lte":"2026-02-31"`, "", "2026-02-28T23:59:59.999Z"},
		{`"gt":"31.4.2024","format":"d.M.yyyy"`, "2024-05-01T00:00:00Z", ""},
		{`"gte":"2022-01-01","time_zone":"GMT+2"`, "2021-12-31T22:00:00Z", ""},
		{`"gte":"2022-01-01","time_zone":"UTC-02:30"`, "2022-01-01T02:30:00Z", ""},
		{`"gte":"2022-01-01T00UTC+01:00"`, "2021-12-31T23:00:00Z", ""},
		{`"gte":"2022-01-01","time_zone":"+18:00"`, "2021-12-31T06:00:00Z", ""},
		{`"gte":"2022-01-01","lte":9223372036854775807`, "2022-01-01T00:00:00Z", ""},
		{`"lte":9223372036854775807,"gte":"2022","time_zone":"-01:00"`, "2022-01-01T01:00:00Z", ""},
		// epoch_second truncates milliseconds, and ignores time zones.
		{`"gte":1640995200,"lte":1640995200,"format":"epoch_second"`, "2022-01-01T00:00:00Z", "2022-01-01T00:00:00.999Z"},
		{`"gt":"1640995200","lt":"1640995260","format":"epoch_second"`, "2022-01-01T00:00:01Z", "2022-01-01T00:00:59.999Z"},
		{`"lte":"1640995200.5","format":"epoch_second"`, "", "2022-01-01T00:00:00.5Z"},
		{`"gte":1640995200000,"lte":"1640995200000","time_zone":"-08:00"`, "2022-01-01T08:00:00Z", "2022-01-01T08:00:00Z"},
		{`"gte":"1640995200000||/d","time_zone":"Europe/Berlin"`, "2021-12-31T23:00:00Z", ""},
		// Skipped and repeated local times are resolved as in java.time.
		{`"gte":"2026-09-06T00:00","time_zone":"America/Santiago"`, "2026-09-06T04:00:00Z", ""},
		{`"gte":"2026-04-04T23:30","time_zone":"America/Santiago"`, "2026-04-05T02:30:00Z", ""},
		{`"gte":"2026-03-08T00:30","time_zone":"America/Havana"`, "2026-03-08T05:30:00Z", ""},
		{`"gte":"2026-11-01T00:30","time_zone":"America/Havana"`, "2026-11-01T04:30:00Z", ""},
		{`"gte":"2026-03-29T00:00","time_zone":"Asia/Beirut"`, "2026-03-28T22:00:00Z", ""},
		{`"gte":"2026-10-24T23:30","time_zone":"Asia/Beirut"`, "2026-10-24T20:30:00Z", ""},
		{`"gte":"2026-03-29T02:30","time_zone":"Europe/Berlin"`, "2026-03-29T01:30:00Z", ""},
		{`"gte":"2026-10-25T02:30","time_zone":"Europe/Berlin"`, "2026-10-25T00:30:00Z", ""},
		{`"gte":"2026-03-08T02:30","time_zone":"America/New_York"`, "2026-03-08T07:30:00Z", ""},
		{`"gte":"2026-11-01T01:30","time_zone":"America/New_York"`, "2026-11-01T05:30:00Z", ""},
		{`"gte":"2026-03-29T00:30","time_zone":"Atlantic/Azores"`, "2026-03-29T01:30:00Z", ""},
		{`"gte":"2026-10-25T00:30","time_zone":"Atlantic/Azores"`, "2026-10-25T00:30:00Z", ""},
		{`"gte":"2026-03-29T01:30","time_zone":"Europe/London"`, "2026-03-29T01:30:00Z", ""},
		{`"gte":"2026-10-25T01:30","time_zone":"Europe/London"`, "2026-10-25T00:30:00Z", ""},
		{`"gte":"2011-12-30T12:00","time_zone":"Pacific/Apia"`, "2011-12-30T22:00:00Z", ""},
		{`"gte":"2026-10-04T02:15","time_zone":"Australia/Lord_Howe"`, "2026-10-03T15:45:00Z", ""},
		{`"gte":"2026-04-05T01:45","time_zone":"Australia/Lord_Howe"`, "2026-04-04T14:45:00Z", ""},
		{`"gte":"2026-09-06T12:00||/d","lte":"2026-09-06T12:00||/d","time_zone":"America/Santiago"`,
			"2026-09-06T04:00:00Z", "2026-09-07T03:59:59.999Z"},
		{`"gte":"2026-09-05||+1d","time_zone":"America/Santiago"`, "2026-09-06T04:00:00Z", ""},
		{`"gte":"2026-08-06||+1M","time_zone":"America/Santiago"`, "2026-09-06T04:00:00Z", ""},
		{`"gte":"2026-11-15||/M","time_zone":"America/Havana"`, "2026-11-01T05:00:00Z", ""},
		{`"gte":"2026-11-02T01:30||-1d","time_zone":"America/New_York"`, "2026-11-01T06:30:00Z", ""},
		{`"gte":"2026-10-31T01:30||+1d","time_zone":"America/New_York"`, "2026-11-01T05:30:00Z", ""},
		{`"gte":"2026-11-01T06:30:00Z||/h","time_zone":"America/New_York"`, "2026-11-01T06:00:00Z", ""},
		{`"gte":"2026-10-03T15:45:00Z||/h","time_zone":"Australia/Lord_Howe"`, "2026-10-03T15:30:00Z", ""},
	} {
		got := lowered(t, `{"range":{"updated_at":{`+c.bounds+`}}}`)
		if c.min != "" {
			require.Contains(t, got, `"min":`+ms(c.min), c.bounds)
		}
		if c.max != "" {
			require.Contains(t, got, `"max":`+ms(c.max), c.bounds)
		}
	}
}

// This applies to cross_fields and combined_fields.
func TestLower_BlendsIncludeFieldsOutsideTheNestedPath(t *testing.T) {
	for query, want := range map[string]string{
		`{"nested":{"path":"experience","query":{"multi_match":{"query":"of","type":"cross_fields",` +
			`"fields":["profile.headline","experience.title"]}}}}`: `{"dis_max":{"nodes":[` +
			`{"term":{"absent":true,"blend":1,"field":"profile.headline","text":"of"}},{"term":{"blend":1,` +
			`"field":"experience.title","text":"of"}}],"tie":0}}`,
		`{"nested":{"path":"experience","query":{"combined_fields":{"query":"of","fields":["profile.headline",` +
			`"experience.title"]}}}}`: `{"combined":{"fields":["profile.headline","experience.title"],"text":"of",` +
			`"weights":[1,1]}}`,
	} {
		require.Equal(t, `{"nested":{"node":`+want+`,"path":"experience","score_mode":"avg"}}`, lowered(t, query))
	}
}

func TestLower_SimpleQueriesAreParsedAsInLucene(t *testing.T) {
	word := func(text string) string { return `{"term":{"field":"profile.headline","text":"` + text + `"}}` }
	either := func(a, b string) string { return `{"bool":{"minimum":1,"should":[` + a + `,` + b + `]}}` }
	for text, want := range map[string]string{
		"- a b":     either(word("a"), word("b")), // nothing may follow the -
		"a +() b":   either(word("a"), word("b")),
		"a + ...":   word("a"),
		`a + ""`:    word("a"),
		"a~x":       word("a"),
		"a~0 b":     either(word("a"), word("b")),
		`"a"~1|b`:   either(word("a"), word("b")),
		`"a"~ b`:    either(word("a"), word("b")),
		`"a"~`:      word("a"),
		`a" b`:      either(word("a"), word("b")),
		"(a b":      either(word("a"), word("b")),
		`\\(a | b)`: either(word("a"), word("b")),
	} {
		query, err := json.Marshal(text)
		require.NoError(t, err)
		require.Equal(t, want, lowered(t, `{"simple_query_string":{"fields":["profile.headline"],"query":`+
			string(query)+`}}`), text)
	}
}

func TestLower_AnalyzedPrefixOfNumbersMatchesNothing(t *testing.T) {
	for _, field := range []string{"profile.connections", "updated_at", "_id"} {
		require.Equal(t, `{"dis_max":{"nodes":[{"none":true},{"pattern":{"field":"profile.headline",`+
			`"insensitive":false,"kind":"prefix","text":"engin"}}],"tie":1}}`,
			lowered(t, `{"simple_query_string":{"query":"engin*","fields":["`+field+
				`","profile.headline"],"analyze_wildcard":true}}`), field)
	}
}

func TestLower_EquivalentQueriesGiveOneNode(t *testing.T) {
	lines := func(text string) string {
		return `{"query_string":{"query":"` + text + `","default_field":"profile.headline"}}`
	}
	updated := func(bounds string) string { return `{"range":{"updated_at":{` + bounds + `}}}` }
	fuzzy := func(word, fuzziness string) string {
		return `{"match":{"profile.headline":{"query":"` + word + `","fuzziness":` + fuzziness + `}}}`
	}
	atLeast := func(number string) string {
		return `{"match":{"profile.headline":{"query":"a b c d","minimum_should_match":` + number + `}}}`
	}
	connections := func(bounds string) string { return `{"range":{"profile.connections":{` + bounds + `}}}` }
	for query, same := range map[string]string{
		lines(`profile.connections:[1 TO 5]`): connections(`"gte":1,"lte":5`),
		lines(`profile.connections:{1 TO 5}`): connections(`"gt":1,"lt":5`),
		lines(`profile.connections:{1 TO 5]`): connections(`"gt":1,"lte":5`),
		lines(`profile.connections:[1 TO *]`): connections(`"gte":1`),
		lines(`profile.connections:[* TO 5}`): connections(`"lt":5`),
		lines(`profile.connections:>=5`):      connections(`"gte":5`),
		lines(`profile.connections:>5`):       connections(`"gt":5`),
		lines(`profile.connections:<=5`):      connections(`"lte":5`),
		lines(`profile.connections:<5`):       connections(`"lt":5`),
		lines(`profile.connections:5`):        `{"term":{"profile.connections":5}}`,
		lines(`updated_at:2026-10`):           updated(`"gte":"2026-10","lte":"2026-10"`),
		lines(`updated_at:[2026 TO 2026-10}`): updated(`"gte":"2026","lt":"2026-10"`),
		lines(`Engin*`):                       `{"prefix":{"profile.headline":"engin"}}`,
		lines(`En?in*r`):                      `{"wildcard":{"profile.headline":"en?in*r"}}`,
		lines(`profile.headline.keyword:En*`): `{"prefix":{"profile.headline.keyword":"En"}}`,
		lines(`/Engin.*/`):                    `{"regexp":{"profile.headline":"engin.*"}}`,
		lines(`engine~1`):                     `{"fuzzy":{"profile.headline":{"value":"engine","fuzziness":1}}}`,
		lines(`\\u0061b`):                     `{"match":{"profile.headline":"ab"}}`,
		lines(`\"data engineer\"`):            `{"match_phrase":{"profile.headline":"data engineer"}}`,
		lines(`\"data engineer\"~2`):          `{"match_phrase":{"profile.headline":{"query":"data engineer","slop":2}}}`,
		lines(`data^2`):                       `{"match":{"profile.headline":{"query":"data","boost":2}}}`,
		lines(`data AND engineer`):            `{"match":{"profile.headline":{"query":"data engineer","operator":"and"}}}`,
		lines(`+data -engineer`): `{"bool":{"must":{"match":{"profile.headline":"data"}},` +
			`"must_not":{"match":{"profile.headline":"engineer"}}}}`,
		lines(`_exists_:profile.headline`): `{"constant_score":{"filter":{"bool":{"should":[{"exists":` +
			`{"field":"profile.headline"}}]}}}}`,
		lines(`*:*`):                          `{"match_all":{}}`,
		lines(`profile.headline:(data lead)`): `{"match":{"profile.headline":"data lead"}}`,

		fuzzy("ab", `"AUTO"`):       fuzzy("ab", "0"),
		fuzzy("abc", `"AUTO"`):      fuzzy("abc", "1"),
		fuzzy("abcde", `"AUTO"`):    fuzzy("abcde", "1"),
		fuzzy("abcdef", `"AUTO"`):   fuzzy("abcdef", "2"),
		fuzzy("abcd", `"AUTO:2,4"`): fuzzy("abcd", "2"),
		fuzzy("abc", `"AUTO:2,4"`):  fuzzy("abc", "1"),
		fuzzy("a", `"AUTO:2,4"`):    fuzzy("a", "0"),
		fuzzy("äöüß", `"AUTO"`):     fuzzy("äöüß", "1"),

		updated(`"gte":"04 Dec 2026","format":"dd MMM yyyy"`):    updated(`"gte":"2026-12-04"`),
		updated(`"gte":"04 Jan 2026","format":"dd MMM yyyy"`):    updated(`"gte":"2026-01-04"`),
		updated(`"lte":"Oct 2026","format":"MMM yyyy"`):          updated(`"lte":"2026-10"`),
		updated(`"lte":"2026-10","format":"yyyy-MM"`):            updated(`"lte":"2026-10"`),
		updated(`"lte":"26-10-04","format":"yy-MM-dd"`):          updated(`"lte":"2026-10-04"`),
		updated(`"lte":"1767225600000","format":"epoch_millis"`): updated(`"lte":1767225600000`),
		updated(`"gte":"1767225600","format":"epoch_second"`):    updated(`"gte":"2026-01-01T00:00:00.000"`),

		updated(`"gte":"2026-10-04||-d"`):                      updated(`"gte":"2026-10-03"`),
		updated(`"gte":"2026-10-04||+2d/d","lt":"2027||-12M"`): updated(`"gte":"2026-10-06","lt":"2026"`),
		`{"query_string":{"query":"updated_at:2026-10-04",` +
			`"time_zone":"+02:00"}}`: updated(`"gte":"2026-10-04","lte":"2026-10-04","time_zone":"+02:00"`),
		`{"query_string":{"query":"2026-10-04","default_field":"updated_at",` +
			`"time_zone":"+02:00"}}`: updated(`"gte":"2026-10-04","lte":"2026-10-04","time_zone":"+02:00"`),
		`{"match_bool_prefix":` +
			`{"profile.headline":"data engin"}}`: `{"bool":{"should":[{"match":{"profile.headline":"data"}},` +
			`{"prefix":{"profile.headline":"engin"}}]}}`,
		`{"match_bool_prefix":{"profile.headline":"data engin."}}`: `{"match":{"profile.headline":"data engin"}}`,
		`{"function_score":{"gauss":{"updated_at":{"origin":"2024","scale":"1d",` +
			`"offset":"0"}}}}`: `{"function_score":{"gauss":{"updated_at":{"origin":"2024","scale":"1d","offset":"0d"}}}}`,
		`{"multi_match":{"query":"a b","fields":["profile.headline","profile.summary"],` +
			`"tie_breaker":1}}`: `{"multi_match":{"query":"a b","fields":["profile.headline","profile.summary"],` +
			`"type":"most_fields"}}`,
		atLeast(`"2<75%"`): atLeast(`3`), atLeast(`"4<75%"`): atLeast(`4`), atLeast(`"2<-1"`): atLeast(`3`),
		atLeast(`-1`): atLeast(`3`), atLeast(`"-30%"`): atLeast(`3`), atLeast(`"99%"`): atLeast(`3`),
		atLeast(`"1<2 3<-2"`): atLeast(`2`), atLeast(`-10`): atLeast(`0`),
		lines(`updated_at:[\"2026\" TO \"2026-10\"}`): updated(`"gte":"2026","lt":"2026-10"`),
		`{"query_string":{"query":"data engineer","default_field":"profile.headline",` +
			`"default_operator":"and"}}`: `{"match":{"profile.headline":{"query":"data engineer","operator":"and"}}}`,
		`{"query_string":{"query":"\"data engineer\"","default_field":"profile.headline",` +
			`"quote_field_suffix":".keyword"}}`: `{"match_phrase":{"profile.headline.keyword":"data engineer"}}`,
		`{"regexp":{"profile.headline":"` + strings.Repeat("a", clause.MaxRegexp) +
			`"}}`: `{"regexp":{"profile.headline":{"value":"` + strings.Repeat("a", clause.MaxRegexp) + `"}}}`,
		lines(`*gineer`): `{"wildcard":{"profile.headline":"*gineer"}}`,
		`{"bool":{"must_not":{"exists":{"field":"updated_at"}},` +
			`"minimum_should_match":1}}`: `{"bool":{"must_not":{"exists":{"field":"updated_at"}}}}`,
		`{"match_phrase":{"profile.headline":{"query":"the data engineer","analyzer":"stop"}}}`: `{"match_phrase":` +
			`{"profile.headline":{"query":"data engineer","analyzer":"stop"}}}`,
		`{"function_score":{"functions":[{"weight":0.5}]}}`:              `{"function_score":{"functions":[{"weight":"0.5"}]}}`,
		`{"bool":{"must":null,"filter":{"match_all":{}},"should":null}}`: `{"bool":{"filter":[{"match_all":{}}]}}`,
		`{"function_score":{"random_score":{}}}`:                         `{"function_score":{"random_score":{"seed":1}}}`,
		`{"function_score":{"random_score":{"seed":null}}}`:              `{"function_score":{"random_score":{"seed":1}}}`,
	} {
		require.Equal(t, lowered(t, same), lowered(t, query), query)
	}
	// An unfinished or misspelt word is in lower case as the texts' words are; whole values have capitals.
	require.Contains(t, lowered(t, lines(`Engin*`)), `"text":"engin"`)
	require.Contains(t, lowered(t, lines(`profile.headline.keyword:Engin*`)), `"text":"Engin"`)
	require.Contains(t, lowered(t, lines(`En*in?`)), `"text":"en*in?"`)
	require.Contains(t, lowered(t, lines(`profile.headline.keyword:En*in?`)), `"text":"En*in?"`)
	flagged := func(text, flags string) string {
		return lowered(
			t, `{"simple_query_string":{"query":"`+text+`","fields":["profile.headline"],"flags":"`+flags+`"}}`,
		)
	}
	for _, c := range []struct{ text, flag string }{
		{"a + b", "AND"}, {"a | b", "OR"}, {"a -b", "NOT"}, {"a*", "PREFIX"}, {`\"a b\"`, "PHRASE"},
		{"(a b) c", "PRECEDENCE"}, {`a\\*`, "ESCAPE"}, {"a b", "WHITESPACE"},
		{"abcd~1", "FUZZY"}, {`\"a b\"~2`, "PHRASE|NEAR"}, {`\"a b\"~2`, "PHRASE|SLOP"},
	} {
		all := "WHITESPACE"
		if c.flag != "WHITESPACE" {
			all += "|" + c.flag
		}
		require.Equal(t, flagged(c.text, "ALL"), flagged(c.text, all), c.text)
	}
}

func TestLower_QueryStringSyntaxErrors(t *testing.T) {
	for text, want := range map[string]string{
		"AND a":                `unexpected "AND"`,
		"OR a":                 `unexpected "OR"`,
		"a OR OR b":            `unexpected "OR"`,
		"a AND AND b":          `unexpected "AND"`,
		"a AND OR b":           `unexpected "OR"`,
		"NOT NOT a":            `unexpected "NOT"`,
		"a +-b":                `unexpected "-"`,
		"a -":                  "unexpected end of the query, a word is missing",
		"()":                   `unexpected ")"`,
		"a ()":                 `unexpected ")"`,
		"a)":                   `unexpected ")"`,
		"a]":                   `unexpected "]"`,
		"a^.5":                 "^ requires a number",
		"a^2^3":                `unexpected "3"`,
		"a~x":                  "~ requires a number of edits",
		`a\`:                   `it ends after a \`,
		`\u00g0`:               `\u requires four digits`,
		`a "b`:                 `a " is not closed`,
		"/a":                   "a / is not closed",
		"[a TO b":              "a [ is not closed",
		"[a b]":                "a range is written [a TO b]",
		"profile.*:a":          `unexpected ":"`,
		"- :a":                 `unexpected ":"`,
		"profile.headline:a:b": `unexpected ":"`,
	} {
		query, err := json.Marshal(text)
		require.NoError(t, err)
		_, err = clause.Lower([]byte(`{"query_string":{"fields":["profile.headline"],"query":`+string(query)+`}}`),
			"query", options())
		var e *clause.Error
		require.ErrorAs(t, err, &e, text)
		require.ErrorContains(t, err, "query.query_string.query: Failed to parse query: "+want, text)
	}
	for query, want := range map[string]string{
		`{"query_string":{"query":"a","fields":["profile.headline^NaN"]}}`: "the boost after ^ must be a number of 0 or more",
		`{"simple_query_string":{"query":"a","fields":["profile.headline"],` +
			`"flags":"6"}}`: `query.simple_query_string.flags: unknown flag "6"`,
		`{"simple_query_string":{"query":"a","fields":["profile.headline"],` +
			`"flags":null}}`: "query.simple_query_string.flags: must not be null",
		`{"query_string":{"query":"profile.\\*:a","default_field":"profile.headline"}}`: "profile.connections holds integers",
	} {
		_, err := clause.Lower([]byte(query), "query", options())
		require.ErrorContains(t, err, want, query)
	}
}

func TestLower_BoolHasNamedParts(t *testing.T) {
	const some = `{"exists":{"field":"updated_at"}}`
	for body, want := range map[string]string{
		`"must":` + some + `,"must_not":` + some:   `"must":[` + some + `],"must_not":[` + some + `]`,
		`"filter":` + some + `,"must_not":` + some: `"filter":[` + some + `],"must_not":[` + some + `]`,
		`"should":` + some + `,"must_not":` + some: `"minimum":1,"must_not":[` + some + `],"should":[` + some + `]`,
		`"must":` + some + `,"filter":` + some:     `"filter":[` + some + `],"must":[` + some + `]`,
		`"must":` + some + `,"should":` + some:     `"minimum":0,"must":[` + some + `],"should":[` + some + `]`,
		`"must_not":` + some:                       `"must_not":[` + some + `]`,
		`"must":` + some + `,"should":[` + some + `,` + some + `],"minimum_should_match":2`: `"minimum":2,"must":[` +
			some + `],"should":[` + some + `,` + some + `]`,
	} {
		require.JSONEq(t, `{"bool":{`+want+`}}`, lowered(t, `{"bool":{`+body+`}}`), body)
	}
	require.JSONEq(t, `{"all":true}`, lowered(t, `{"bool":{}}`))
	require.JSONEq(t, `{"none":true}`, lowered(t, `{"bool":{"must_not":`+some+`,"adjust_pure_negative":false}}`))
}

// Inner hits of excluded clauses and of filters of functions also take no name.
func TestLower_ExcludedInnerHitsAreDropped(t *testing.T) {
	const nested = `{"nested":{"path":"experience","query":{"match_all":{}},"inner_hits":{}}}`
	for query, want := range map[string]int{
		`{"bool":{"must":` + nested + `}}`:                                                                            1,
		`{"bool":{"must_not":` + nested + `}}`:                                                                        0,
		`{"bool":{"must":` + nested + `,"must_not":[` + nested + `,` + nested + `]}}`:                                 1,
		`{"bool":{"must_not":{"bool":{"must":` + nested + `}},"should":` + nested + `}}`:                              1,
		`{"function_score":{"query":` + nested + `,"functions":[{"filter":` + nested + `,"weight":2},{"weight":3}]}}`: 1,
	} {
		n, err := clause.Lower([]byte(query), "query", options())
		require.NoError(t, err, query)
		shown := 0
		algebra.Walk(n, func(n algebra.Node) {
			if n, ok := n.(algebra.Nested); ok && n.InnerHits != nil {
				shown++
			}
		})
		require.Equal(t, want, shown, query)
	}
}

func FuzzLower_NeverPanics(f *testing.F) {
	for _, c := range clause.Clauses() {
		f.Add([]byte(`{"` + c.Name + `":{"profile.headline":{"query":"a b","value":"a*","fuzziness":"AUTO"},` +
			`"query":"a","fields":["profile.*^2"]}}`))
	}
	f.Add([]byte(`{"bool":{"must":[{"match":{"profile.headline":"a"}}],"minimum_should_match":"2<75%"}}`))
	f.Add([]byte(`{"regexp":{"profile.headline":"[a-z]{1,3}(x|~y)&@<1-20>\"z\""}}`))
	f.Add([]byte(`{"query_string":{"query":"a AND (b OR \"c d\"~2) profile.connections:[1 TO *] x~1^2 /r.*/",` +
		`"default_field":"profile.headline"}}`))
	f.Add([]byte(`{"range":{"updated_at":{"gte":"2024-01-31||+1M/d","time_zone":"Europe/Berlin"}}}`))
	f.Fuzz(func(t *testing.T, query []byte) {
		if !jsontext.Value(query).IsValid() {
			return
		}
		_, err := clause.Lower(query, "query", options())
		var e *clause.Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("%T: %v", err, err)
		}
	})
}

// Nested documents have the _id of their person, and all matches score the same.
func TestLower_IdentityOfNestedDocuments(t *testing.T) {
	const (
		a    = `{"set":{"field":"_id","values":["a"]}}`
		none = `{"none":true}`
	)
	for query, want := range map[string]string{
		`{"term":{"_id":"a"}}`: a,
		`{"term":{"_id":{"value":"a","case_insensitive":true}}}`:                 none,
		`{"ids":{"values":["a"]}}`:                                               a,
		`{"match_bool_prefix":{"_id":"a"}}`:                                      a,
		`{"multi_match":{"query":"a","fields":["_id"]}}`:                         a,
		`{"multi_match":{"query":"a","fields":["_id"],"type":"phrase"}}`:         a,
		`{"multi_match":{"query":"a","fields":["_id"],"type":"cross_fields"}}`:   a,
		`{"match":{"_id":{"query":"a","analyzer":"standard"}}}`:                  a,
		`{"query_string":{"query":"_id:a"}}`:                                     a,
		`{"query_string":{"query":"_id:a*"}}`:                                    none,
		`{"query_string":{"query":"_id:a~ _id:ab~"}}`:                            `{"bool":{"should":[{"none":true},{"none":true}],"minimum":1}}`,
		`{"query_string":{"query":"_id:[a TO b]"}}`:                              none,
		`{"simple_query_string":{"query":"a","fields":["_id"]}}`:                 a,
		`{"simple_query_string":{"query":"a*","fields":["_id"],"lenient":true}}`: none,
		`{"exists":{"field":"_id"}}`:                                             `{"all":true}`,
	} {
		require.JSONEq(t, want, lowered(t, query), query)
		nested := `{"nested":{"path":"experience","query":` + query + `}}`
		require.JSONEq(
			t, `{"nested":{"path":"experience","node":`+want+`,"score_mode":"avg"}}`, lowered(t, nested), nested,
		)
	}
}

func TestLower_SubfieldsHaveTheirOwnAnalyzers(t *testing.T) {
	same := func(query, as string) {
		t.Helper()
		require.Equal(t, lowered(t, as), lowered(t, query), query)
	}
	same(`{"match":{"profile.headline.folded":"É"}}`, `{"term":{"profile.headline.folded":"e"}}`)
	same(`{"match":{"profile.headline.code":"(C++),"}}`, `{"term":{"profile.headline.code":"c++"}}`)
	same(`{"match":{"profile.headline.code":{"query":"C++","analyzer":"standard"}}}`,
		`{"term":{"profile.headline.code":"c"}}`)
	same(`{"query_string":{"query":"É*","default_field":"profile.headline.folded"}}`,
		`{"prefix":{"profile.headline.folded":"e"}}`)
	same(`{"multi_match":{"query":"a","fields":["profile.headline*.folded"]}}`,
		`{"match":{"profile.headline.folded":"a"}}`)
	same(`{"multi_match":{"query":"a","fields":["profile.headline*"]}}`,
		`{"multi_match":{"query":"a","fields":["profile.headline","profile.headline.keyword"]}}`)
	same(`{"query_string":{"query":"\"a\"","fields":["profile.headl*^2"],"quote_field_suffix":".keyword","tie_breaker":1}}`,
		`{"query_string":{"query":"profile.headline.keyword:a^4"}}`)
	same(`{"simple_query_string":{"query":"\"a\"","fields":["profile.headl*^2"],"quote_field_suffix":".keyword"}}`,
		`{"query_string":{"query":"profile.headline.keyword:a^4"}}`)
	same(`{"query_string":{"query":"\"É\"","default_field":"profile.headline","quote_field_suffix":".folded"}}`,
		`{"term":{"profile.headline.folded":"e"}}`)
	for query, want := range map[string]string{
		`{"match":{"network_url.folded":"a"}}`:       `unknown field "network_url.folded"`,
		`{"match":{"profile.headline.floded":"a"}}`:  `did you mean "profile.headline.folded"?`,
		`{"match":{"profile.headline.code.x":"a"}}`:  `unknown field`,
		`{"match":{"profile.connections.code":"1"}}`: `unknown field`,
		`{"combined_fields":{"query":"a","fields":["profile.headline","profile.summary.code"]}}`: "must have the same " +
			"search analyzer: profile.headline and profile.summary.code have not",
	} {
		_, err := clause.Lower([]byte(query), "query", options())
		require.ErrorContains(t, err, want, query)
	}
	_, err := clause.Sorts([]byte(`["profile.headline.folded"]`), "sort", options())
	require.ErrorContains(t, err, "use profile.headline.keyword")
}
