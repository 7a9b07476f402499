package clause_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/clause"
)

func TestLower_NamesClausesAsElasticsearch(t *testing.T) {
	named := func(name string) string { return `{"term":{"profile.connections":{"value":1,"_name":"` + name + `"}}}` }
	for query, want := range map[string][]string{
		`{"bool":{"_name":"all","filter":` + named("filter") + `,"should":` + named("should") + `,"must_not":` +
			named("not") +
			`,"must":` + named("must") + `}}`: {"must", "not", "should", "filter", "all"},
		`{"function_score":{"query":` + named("query") + `,"functions":[{"filter":` + named("filter") +
			`,"weight":2}]}}`: {
			"filter", "query",
		},
		`{"function_score":{"functions":[{"filter":{"match_all":{"_name":"lost"}},"weight":2},` +
			`{"filter":{"bool":{"must":[],"_name":"lost"}},"weight":2},` +
			`{"filter":{"bool":{"must_not":` + named("not") + `,"_name":"kept"}},"weight":2}]}}`: {"not", "kept"},
		`{"bool":{"should":[{"bool":{"must":[{"match_none":{}},` + named("lost") + `]}},` + named("kept") + `]}}`: {"kept"},
		`{"match_none":{"_name":"none"}}`: {"none"},
		// The match_none that it becomes inherits its name.
		`{"bool":{"_name":"emptied","filter":[{"match_none":{"_name":"lost"}},` + named("lost") + `]}}`: {"emptied"},
	} {
		var got []string
		o := options()
		o.NamedClause = func(name string, _ algebra.Node) { got = append(got, name) }
		_, err := clause.Lower([]byte(query), "query", o)
		require.NoError(t, err, query)
		require.Equal(t, want, got, query)
	}
}
