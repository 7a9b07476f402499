package adversarialtest

import (
	"fmt"
	"strings"
)

func times(n int, item func(i int) string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = item(i)
	}
	return strings.Join(list, ",")
}

// Queries returns the queries, each a clause for the member "query" of a search.
func Queries() []string {
	var out []string
	same := func(n int, s string) string { return times(n, func(int) string { return s }) }
	wrap := func(n int, open, inner, end string) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	const all = `{"match_all":{}}`
	for _, n := range []int{19, 20, 200, 5000} {
		out = append(out,
			wrap(n, `{"bool":{"must":[`, all, `]}}`), wrap(n, `{"bool":{"must_not":`, all, `}}`),
			wrap(n, `{"constant_score":{"filter":`, all, `}}`), wrap(n, `{"dis_max":{"queries":[`, all, `]}}`),
			wrap(n, `{"nested":{"path":"experience","query":`, all, `}}`),
			wrap(n, `{"function_score":{"query":`, all, `}}`))
	}
	for _, n := range []int{1000, 10_000} {
		out = append(out,
			`{"bool":{"should":[`+times(n,
				func(i int) string { return fmt.Sprintf(`{"match":{"profile.headline":"w%d"}}`, i) })+`]}}`,
			`{"bool":{"should":[`+times(n,
				func(i int) string { return fmt.Sprintf(`{"prefix":{"profile.headline":"w%d"}}`, i) })+`]}}`,
			`{"bool":{"should":[`+times(n,
				func(i int) string { return fmt.Sprintf(`{"wildcard":{"profile.summary":"*%d*"}}`, i) })+`]}}`,
			`{"bool":{"should":[`+times(n,
				func(i int) string { return fmt.Sprintf(`{"fuzzy":{"profile.headline":"word%d"}}`, i) })+`]}}`,
			`{"bool":{"must_not":[`+times(n,
				func(i int) string { return fmt.Sprintf(`{"term":{"profile.connections":%d}}`, i) })+`]}}`,
			`{"bool":{"must":[`+same(n,
				`{"nested":{"path":"experience","query":{"match":{"experience.title":"engineer"}}}}`)+`]}}`,
			`{"dis_max":{"queries":[`+times(n,
				func(i int) string {
					return fmt.Sprintf(`{"match_phrase":{"experience.title":"data engineer %d"}}`,
						i)
				})+`]}}`,
			`{"function_score":{"functions":[`+times(n, func(i int) string {
				return fmt.Sprintf(`{"filter":{"match":{"profile.headline":"w%d"}},"weight":2}`, i)
			})+`]}}`,
			`{"match":{"profile.headline":"`+strings.ReplaceAll(times(n,
				func(i int) string { return fmt.Sprintf("w%d", i) }), ",", " ")+`"}}`,
			`{"match_phrase":{"experience.description":{"query":"`+strings.ReplaceAll(times(n,
				func(i int) string { return fmt.Sprintf("w%d", i) }), ",", " ")+`","slop":100}}}`,
			`{"terms":{"profile.headline":[`+times(n, func(i int) string { return fmt.Sprintf(`"w%d"`, i) })+`]}}`,
			`{"terms":{"profile.connections":[`+times(n, func(i int) string { return fmt.Sprint(i) })+`]}}`,
			`{"ids":{"values":[`+times(n, func(i int) string { return fmt.Sprintf(`"p%d"`, i) })+`]}}`,
			`{"query_string":{"query":"`+strings.Repeat("(", n)+"a"+strings.Repeat(")",
				n)+`","default_field":"profile.headline"}}`,
			`{"simple_query_string":{"query":"`+strings.Repeat("(", n)+"a"+strings.Repeat(")",
				n)+`","fields":["profile.headline"]}}`,
		)
	}
	for _, p := range []string{
		`*a*b*c*`, `*a*b*c*d*e*f*g*h*i*j*k*l*m*`, `?????????????????*`, strings.Repeat("*a", 5000),
		strings.Repeat("?", 30_000), `*`, `**********`, `*\\`,
	} {
		out = append(out, `{"wildcard":{"profile.summary":"`+p+`"}}`,
			`{"wildcard":{"experience.description.keyword":{"value":"`+p+`","case_insensitive":true}}}`)
	}
	for _, p := range []string{
		`(a+)+b`, `(a|a)*b`, `(.*a){20}`, `.*.*.*.*.*.*.*.*=.*`, `((a{1,100}){1,100}){1,100}`, `[a-z]{1000}`,
		`(((((((((((a)))))))))))`, `a{1000}{1000}`,
		`<1-999999999>`, `~(~(~(a)))`, `.*&.*&.*&~(a)`, `[\\u0000-\\uffff]*x`, strings.Repeat("(", 500) +
			strings.Repeat(")", 500), `#`, `@@@@@@@@@@@@@@@@`,
		"~(" + strings.Repeat("(", 40) + ".?" + strings.Repeat(")*", 40) + "z)",
		`~(((((.?){1000}){1000}){1000}){1000}z)`,
	} {
		out = append(out, `{"regexp":{"profile.summary":"`+p+`"}}`)
	}
	out = append(out,
		`{"fuzzy":{"profile.summary":{"value":"`+strings.Repeat("a", 30_000)+`","fuzziness":2}}}`,
		`{"fuzzy":{"profile.headline":{"value":"data","fuzziness":2,"max_expansions":1024}}}`,
		`{"match":{"profile.headline":{"query":"data engineer lover writer word","fuzziness":2,"max_expansions":1000}}}`,
		`{"match_phrase_prefix":{"profile.headline":{"query":"d","max_expansions":1024}}}`,
		`{"match_phrase":{"experience.description":"`+strings.ReplaceAll(times(2000,
			func(i int) string { return fmt.Sprintf("w%d", i) }), ",", " ")+`"}}`,
		`{"nested":{"path":"experience","query":{"match_phrase":{"experience.description":"`+strings.Repeat(
			"the a of to and in ", 340)+`"}}}}`,
		`{"wildcard":{"profile.summary":{"value":"*","rewrite":"scoring_boolean"}}}`,
		`{"prefix":{"experience.description":{"value":"","rewrite":"top_terms_1024"}}}`,
		`{"fuzzy":{"profile.summary":{"value":"aa","fuzziness":2,"rewrite":"constant_score"}}}`,
		`{"bool":{"should":[`+times(1000, func(i int) string {
			return fmt.Sprintf(
				`{"prefix":{"profile.headline":{"value":"w%d","rewrite":"top_terms_blended_freqs_1024"}}}`, i)
		})+`]}}`,
		`{"multi_match":{"query":"a b c d e f g h i j k l m n o p q r s t u v w x y z","fields":["*"],`+
			`"type":"cross_fields","lenient":true}}`,
		`{"multi_match":{"query":"data engineer","fields":["*","*","*"],"type":"most_fields","lenient":true}}`,
		`{"match_phrase":{"experience.description":{"query":"the a of to and in for with on at","slop":1000000}}}`,
		`{"range":{"updated_at":{"gte":"now`+strings.Repeat("-1d", 10_000)+`"}}}`,
		`{"range":{"profile.connections":{"gte":1e308,"lte":-1e308}}}`,
		`{"term":{"profile.headline":"`+strings.Repeat("x", 900_000)+`"}}`,
		`{"multi_match":{"query":"the a of to and in for with on at engineer data word w1 w2"}}`,
		`{"multi_match":{"query":"aaaa bbb the of","type":"phrase","slop":1000}}`,
		`{"query_string":{"query":"*a* OR *b* OR *c* OR /.*d.*/ OR e~2"}}`,
		`{"query_string":{"query":"`+strings.Repeat("*a* OR ", 500)+`b"}}`,
		`{"simple_query_string":{"query":"`+strings.Repeat("a~2 | ", 500)+`b"}}`,
		`{"function_score":{"query":{"multi_match":{"query":"data engineer word"}},"min_score":0.1}}`,
		`{"nested":{"path":"experience","query":{"function_score":{"query":{"match_phrase":{"experience.description":`+
			`{"query":"a to the in","slop":500}}},"min_score":0.01}}}}`,
		`{"combined_fields":{"query":"the a of to and in data engineer","fields":["profile.*_name",`+
			`"profile.headline","profile.summary","experience.description","experience.title"]}}`,
		`{"terms_set":{"profile.summary":{"terms":[`+times(1000,
			func(i int) string { return fmt.Sprintf(`"w%d"`, i) })+`],"minimum_should_match":500}}}`,
		`{"match":{"profile.headline":{"query":"data","minimum_should_match":"`+strings.Repeat("1<2 ", 10_000)+`"}}}`,
	)
	for _, list := range []string{"0", `""`, "{}", "[]"} { // values with long names
		out = append(out, wrap(190, `{"`+strings.Repeat("x", 64)+`":`,
			"["+same(1_000_000/(len(list)+1)-20_000, list)+"]", "}"))
	}
	for _, text := range []string{strings.Repeat("(", 32_760), strings.Repeat("(a ", 10_900),
		strings.Repeat(`\"a `, 8000), strings.Repeat(`a~\\(`, 6000), strings.Repeat(`a~\\\"`, 5000)} {
		clause := `{"simple_query_string":{"fields":["profile.headline"],"query":"` + text + `"}}`
		out = append(out, clause, `{"bool":{"should":[`+same(1_000_000/len(clause), clause)+`]}}`)
	}
	// Each level matches by a score that depends on the matches of the next level.
	least := func(levels, filters int, filter string) string {
		query := fmt.Sprintf(filter, 0)
		for range levels {
			query = `{"function_score":{"min_score":1,"score_mode":"avg","functions":[{"weight":2,"filter":` + query +
				`}` +
				strings.Repeat(",", min(filters, 1)) +
				times(filters, func(i int) string { return fmt.Sprintf(`{"weight":2,"filter":`+filter+`}`, i) }) +
				`]}}`
		}
		return query
	}
	const connections, title = `{"term":{"profile.connections":%d}}`, `{"match":{"experience.title":"w%d"}}`
	out = append(out, least(19, 0, connections), least(2, 240, connections),
		`{"nested":{"path":"experience","query":`+least(2, 240, title)+`}}`)
	number := "9007199254740993." + strings.Repeat("3", 1_000_000)
	out = append(out, `{"term":{"profile.connections":`+number+`}}`, `{"terms":{"profile.connections":[`+number+`]}}`,
		`{"range":{"profile.connections":{"gte":"`+number+`"}}}`, `{"range":{"updated_at":{"gte":"`+number+`"}}}`)
	return out
}
