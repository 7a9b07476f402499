package queryapi_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

func TestSearch_FieldsBeyondTheContract(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson,
		`{"profile_id":"a","last_updated":"2024-06-01","username":"a","full_name":"José Ångström",`+
			`"headline":"C++ and .NET; Node.js!","summary":"`+strings.Repeat("Long text of a café. ", 20)+`Loves (F#).",`+
			`"location":{"city":"Lyon","country":"France"},"skills":[{"skill":"Rust"},{"skill":"C#"}],`+
			`"experience":[{"title":"Lead","company":{"name":"Café Söhne","company_id":"c9"},"start":"2014-07"},`+
			`{"title":"Junior","company":{"name":"Acme"},"start":"2010-01","end":"2011-12"}],`+
			`"education":[{"degrees":["BSc"]}]}`,
		`{"profile_id":"b","last_updated":"2024-06-01","username":"b","full_name":"Jose Angstrom","headline":"C and Node",`+
			`"skills":[{"skill":"C"}],"experience":[{"title":"Junior","start":"2020-01","end":"2020-06"}]}`,
		`{"profile_id":"c","last_updated":"2024-06-01","username":"c","full_name":"No Jobs",`+
			`"current_position":{"title":"Own boss","start":"2021"}}`,
	)
	for query, want := range map[string][]string{
		`{"term":{"skills.skill.keyword":"C#"}}`: {"a"},
		`{"match":{"skills.skill":"c"}}`:         {"a", "b"},
		`{"match":{"skills.skill.code":"C#"}}`:   {"a"},
		`{"nested":{"path":"skills","query":{"bool":{"must":[{"match":{"skills.skill":"rust"}},` +
			`{"match":{"skills.skill.code":"c#"}}]}}}}`: nil,
		`{"match":{"profile.location.city":"lyon"}}`:                         {"a"},
		`{"term":{"profile.location.continent.keyword":"Europe"}}`:           {"a"},
		`{"exists":{"field":"profile.location.state"}}`:                      {"a"},
		`{"match":{"current_position.title":"lead boss"}}`:                   {"a", "c"},
		`{"match":{"current_position.company_name.folded":"CAFE sohne"}}`:    {"a"},
		`{"term":{"current_position.company_id":"c9"}}`:                      {"a"},
		`{"range":{"current_position.start_date":{"lt":"2021-01-01"}}}`:      {"a"},
		`{"range":{"years_of_experience":{"gte":13}}}`:                       nil,
		`{"range":{"years_of_experience":{"gte":12}}}`:                       {"a"},
		`{"term":{"years_of_experience":0}}`:                                 {"b"},
		`{"term":{"experience_count":2}}`:                                    {"a"},
		`{"term":{"education_count":0}}`:                                     {"b", "c"},
		`{"match":{"profile.full_name":"angstrom"}}`:                         {"b"},
		`{"match":{"profile.full_name.folded":"ÅNGSTROM"}}`:                  {"a", "b"},
		`{"match_phrase":{"profile.full_name.folded":"josé angstrom"}}`:      {"a", "b"},
		`{"match_phrase_prefix":{"profile.full_name.folded":"jose angs"}}`:   {"a", "b"},
		`{"fuzzy":{"profile.full_name.folded":"angstrum"}}`:                  {"a", "b"},
		`{"prefix":{"profile.full_name.folded":"ang"}}`:                      {"a", "b"},
		`{"wildcard":{"profile.full_name.folded":"*strom"}}`:                 {"a", "b"},
		`{"terms":{"profile.full_name.folded":["angstrom","jobs"]}}`:         {"a", "b", "c"},
		`{"match":{"profile.headline":"c++"}}`:                               {"a", "b"},
		`{"match":{"profile.headline.code":"C++"}}`:                          {"a"},
		`{"match_phrase":{"profile.headline.code":"c++ and .net node.js"}}`:  {"a"},
		`{"term":{"profile.summary.code":"f#"}}`:                             {"a"},
		`{"match":{"profile.summary.code":"café"}}`:                          {"a"},
		`{"exists":{"field":"profile.summary.code"}}`:                        {"a"},
		`{"exists":{"field":"profile.summary.keyword"}}`:                     nil,
		`{"prefix":{"profile.headline.code":".n"}}`:                          {"a"},
		`{"fuzzy":{"profile.headline.code":{"value":"c+-","fuzziness":1}}}`:  {"a"},
		`{"multi_match":{"query":"c++","fields":["profile.h*"]}}`:            {"a", "b"},
		`{"multi_match":{"query":"c++","fields":["*.code"]}}`:                {"a"},
		`{"query_string":{"query":"jose ang*","fields":["*.folded"]}}`:       {"a", "b"},
		`{"query_string":{"query":"profile.headline.code:\"c\\+\\+ and\""}}`: {"a"},
		`{"multi_match":{"query":"angstrom café","fields":["profile.full_name.folded","profile.summary",` +
			`"profile.headline.code"],"type":"cross_fields"}}`: {"a", "b"},
	} {
		got := f.search(`{"query":` + query + `,"sort":["profile_id.keyword"]}`)
		require.Equal(t, want, ids(got), query)
		require.ElementsMatch(t, want, ids(f.search(`{"query":`+query+`}`)), query)
	}
	result := f.search(`{"query":{"ids":{"values":["a"]}}}`)["results"].([]any)[0]
	require.NotContains(t, result, "current_position", "searchable only")
	require.NotContains(t, result, "years_of_experience", "searchable only")
	require.Contains(t, result, "skills")
}
