package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

// Candidates are chosen first where their elements or places of words are looked at and few have the words.
func TestWorthStages(t *testing.T) {
	field := func(path, nested, column string) algebra.Field {
		return algebra.Field{SearchField: readmodel.SearchField{Path: path, Nested: nested, Column: column, Type: readmodel.SearchText, Indexed: true}}
	}
	headline, title := field("profile.headline", "", "profile_headline"), field("experience.title", "experience", "experience_title")
	company := field("experience.company_name", "experience", "experience_company_name")
	stats := NewStats()
	for _, f := range []algebra.Field{headline, title, company} {
		stats.Fields[f.Name()] = FieldStats{Documents: 1000, Terms: 3000}
	}
	stats.Terms[termKey(headline, "often")], stats.Terms[termKey(headline, "seldom")] = 500, 100
	stats.Terms[termKey(title, "often")], stats.Terms[termKey(title, "seldom")], stats.Terms[termKey(company, "seldom")] = 500, 50, 50
	term := func(f algebra.Field, text string) algebra.Node { return algebra.Term{Field: f, Text: text} }
	phrase := func(words ...string) algebra.Node {
		p := algebra.Phrase{Field: headline}
		for _, w := range words {
			p.Terms = append(p.Terms, []string{w})
		}
		return p
	}
	nested := func(n algebra.Node) algebra.Node {
		return algebra.Nested{Path: "experience", Node: n, Mode: algebra.ScoreAvg}
	}
	byScore := []Sort{{Kind: SortScore, Descending: true}}
	for name, test := range map[string]struct {
		node algebra.Node
		want bool
	}{
		"a phrase with a seldom word":                    {phrase("often", "seldom"), true},
		"a phrase of words that many have":               {phrase("often", "often"), false},
		"a phrase with a word of which nothing is known": {phrase("unknown"), false},
		"no places, no elements":                         {term(headline, "seldom"), false},
		"elements":                                       {nested(algebra.Bool{Must: []algebra.Node{term(title, "often"), term(company, "seldom")}}), true},
		"elements that many have":                        {nested(term(title, "often")), false},
		"either of two words":                            {nested(algebra.Bool{Should: []algebra.Node{term(title, "often"), term(company, "seldom")}, Minimum: 1}), false},
		"either of two seldom words":                     {nested(algebra.Bool{Should: []algebra.Node{term(title, "seldom"), term(company, "seldom")}, Minimum: 1}), true},
		"as many of two as a field says":                 {nested(algebra.Bool{Should: []algebra.Node{term(title, "seldom"), term(company, "seldom")}, Minimum: 1, MinimumField: &headline}), false},
		"a word beside elements":                         {algebra.Bool{Must: []algebra.Node{term(headline, "seldom"), nested(term(title, "often"))}}, true},
		"a word that need not be there":                  {algebra.Bool{Must: []algebra.Node{nested(term(title, "often"))}, Should: []algebra.Node{term(headline, "seldom")}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, WorthStages(test.node, byScore, stats))
			statement := RankStatement(Rank{Node: test.node, Sort: byScore, Stats: stats, Limit: 11, Staged: WorthStages(test.node, byScore, stats)})
			require.Equal(t, test.want, statement.Staged)
			if test.want {
				require.Contains(t, statement.SQL, "(SELECT * FROM search_people FINAL WHERE (has(")
				require.False(t, statement.TokensRead)
			}
		})
	}
	require.False(t, RankStatement(Rank{Node: nested(algebra.All{}), Sort: byScore, Stats: stats, Limit: 11, Staged: true}).Staged, "no index answers")
	require.False(t, RankStatement(Rank{Node: phrase("often", "seldom"), Sort: byScore, Stats: stats, Limit: 11, Staged: true, From: People{Refreshed: true}}).Staged)
}
