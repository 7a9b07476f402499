package queryapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/readmodel"
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

// link links network people with accounts of the code host, as the projector does.
func (f *fixture) link(ver uint64, accounts map[string]readmodel.LinkedAccount) {
	f.t.Helper()
	var rows []readmodel.LinkedRow
	for id, a := range accounts {
		rows = append(rows, readmodel.LinkedRow{ProfileID: id, Ver: ver, Account: a})
	}
	require.NoError(f.t, readmodel.InsertLinked(f.t.Context(), f.conn, rows))
	f.syncSearch(record.KindNetworkPerson)
}

func TestSearch_FieldsOfLinkedAccountsFollowTheAccount(t *testing.T) {
	f := start(t, nil)
	for _, id := range []string{"a", "b", "c", "d"} { // in parts of their own
		f.insert(record.KindNetworkPerson, `{"profile_id":"`+id+`","last_updated":"2024-06-01","username":"x`+id+`"}`)
	}
	account := func(id int64, username string, repos, followers int64, languages ...string) readmodel.LinkedAccount {
		return readmodel.LinkedAccount{UserID: id, Username: username, Languages: languages, PublicRepos: repos,
			Followers: followers}
	}
	const missing = readmodel.SearchMissing
	require.Empty(t, ids(f.search(`{"query":{"exists":{"field":"codehost.username"}}}`)), "before there are any")
	long := strings.Repeat("long ", 60)
	f.link(1, map[string]readmodel.LinkedAccount{
		"a": account(1, "Ada-Lin", 3, 70, "Go", "C++", "Jupyter Notebook"),
		"b": account(2, "bob", 0, missing, "Go", long),
		"c": account(3, "!!", missing, 5),
	})
	requireHits := func(want map[string][]string) {
		t.Helper()
		for query, people := range want {
			got := f.search(`{"query":` + query + `,"sort":["profile_id.keyword"]}`)
			require.Equal(t, people, ids(got), query)
			require.ElementsMatch(t, people, ids(f.search(`{"query":`+query+`}`)), query)
			got = f.post("/v1/person/search/explain", `{"query":`+query+`,"sort":["codehost.languages.keyword"]}`).json()
			require.NotContains(t, got, "refused", query)
		}
	}
	requireHits(map[string][]string{
		`{"term":{"codehost.username.keyword":"Ada-Lin"}}`:                          {"a"},
		`{"match":{"codehost.username":"LIN"}}`:                                     {"a"},
		`{"match_phrase":{"codehost.username":"ada lin"}}`:                          {"a"},
		`{"prefix":{"codehost.username":"bo"}}`:                                     {"b"},
		`{"fuzzy":{"codehost.username":"bab"}}`:                                     {"b"},
		`{"wildcard":{"codehost.username.keyword":"*-L*"}}`:                         {"a"},
		`{"exists":{"field":"codehost.username"}}`:                                  {"a", "b", "c"},
		`{"terms":{"codehost.languages.keyword":["C++","Rust"]}}`:                   {"a"},
		`{"match":{"codehost.languages":{"query":"go notebook","operator":"and"}}}`: {"a"},
		`{"match_phrase":{"codehost.languages":"go c"}}`:                            nil,
		`{"match":{"codehost.languages":"long"}}`:                                   {"b"},
		`{"prefix":{"codehost.languages.keyword":"long"}}`:                          nil,
		`{"exists":{"field":"codehost.languages"}}`:                                 {"a", "b"},
		`{"range":{"codehost.public_repos":{"gte":0}}}`:                             {"a", "b"},
		`{"range":{"codehost.followers":{"lt":70}}}`:                                {"c"},
		`{"bool":{"must_not":{"exists":{"field":"codehost.followers"}}}}`:           {"b", "d"},
		`{"query_string":{"query":"codehost.\\*:jupyter"}}`:                         {"a"},
		`{"multi_match":{"query":"bob xd"}}`:                                        {"b", "d"},
		`{"function_score":{"query":{"exists":{"field":"codehost.followers"}},` +
			`"field_value_factor":{"field":"codehost.followers"}}}`: {"a", "c"},
	})
	require.Equal(t, []string{"a", "c", "b", "d"}, ids(f.search(`{"query":{"match_all":{}},"sort":[`+
		`{"codehost.followers":"desc"},"profile_id.keyword"]}`)))
	require.Equal(t, []string{"a", "b", "c", "d"}, ids(f.search(`{"query":{"match_all":{}},"sort":[`+
		`"codehost.languages.keyword","profile_id.keyword"]}`)))
	aggregations := func() any {
		return f.search(`{"query":{"match_all":{}},"size":0,"aggs":{"languages":{"terms":{"field":` +
			`"codehost.languages.keyword"}},"followers":{"sum":{"field":"codehost.followers"}}}}`)["aggregations"]
	}
	requireAggregations := func(followers float64, languages ...any) {
		t.Helper()
		var buckets []any
		for i := 0; i < len(languages); i += 2 {
			buckets = append(buckets, map[string]any{"key": languages[i], "doc_count": languages[i+1]})
		}
		got, ok := aggregations().(map[string]any)
		require.True(t, ok)
		require.Equal(t, buckets, got["languages"].(map[string]any)["buckets"])
		require.Equal(t, followers, got["followers"].(map[string]any)["value"])
	}
	requireAggregations(75, "Go", 2.0, "C++", 1.0, "Jupyter Notebook", 1.0)
	for path, body := range map[string]string{
		"codehost.username.keyword": `{"query":{"match_all":{}},"size":0,"aggs":{"x":{"terms":{"field":` +
			`"codehost.username.keyword"}}}}`,
	} {
		response := f.post("/v1/person/search", body)
		require.Equal(t, http.StatusBadRequest, response.status)
		require.Contains(t, response.detail(), path)
	}

	f.link(2, map[string]readmodel.LinkedAccount{
		"a": account(1, "ada", 4, 1, "Go"), "b": readmodel.Unlinked(), "d": account(2, "bob", 0, 9, "C++", "Rust"),
	})
	requireHits(map[string][]string{
		`{"match":{"codehost.username":"lin"}}`:           nil,
		`{"match":{"codehost.username":"ada bob"}}`:       {"a", "d"},
		`{"exists":{"field":"codehost.username"}}`:        {"a", "c", "d"},
		`{"match":{"codehost.languages":"long jupyter"}}`: nil,
		`{"fuzzy":{"codehost.languages":"rast"}}`:         {"d"},
		`{"range":{"codehost.followers":{"lt":70}}}`:      {"a", "c", "d"},
	})
	requireAggregations(15, "C++", 1.0, "Go", 1.0, "Rust", 1.0)

	f.insert(record.KindNetworkPerson, `{"profile_id":"a","last_updated":"2025-06-01","username":"xa","headline":"new"}`,
		`{"profile_id":"d","last_updated":"2025-06-01","deleted":true}`)
	requireHits(map[string][]string{
		`{"match":{"codehost.username":"ada bob"}}`:                                                     {"a"},
		`{"bool":{"must":[{"match":{"profile.headline":"new"}},{"term":{"codehost.public_repos":4}}]}}`: {"a"},
	})
	requireAggregations(6, "Go", 1.0)
	result := f.search(`{"query":{"ids":{"values":["a"]}}}`)["results"].([]any)[0]
	require.NotContains(t, result, "codehost", "searchable only")
}
