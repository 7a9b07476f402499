package planner

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/algebra"
)

func TestHints(t *testing.T) {
	term := algebra.Term{Text: "engineer"}
	phrase := algebra.Phrase{Terms: [][]string{{"software"}, {"engineer"}}}
	for name, c := range map[string]struct {
		node               algebra.Node
		sorts              []Sort
		eager, readsTokens bool
	}{
		"words":                    {node: algebra.Bool{Should: []algebra.Node{term, algebra.Range{}}, Minimum: 1}, eager: true},
		"elements":                 {node: algebra.Nested{Node: algebra.Bool{Must: []algebra.Node{term}}}, eager: true},
		"a pattern":                {node: algebra.Bool{Must: []algebra.Node{term, algebra.Pattern{}}}},
		"a phrase":                 {node: algebra.Bool{Must: []algebra.Node{term, phrase}}, readsTokens: true},
		"a phrase of one word":     {node: algebra.Phrase{Terms: [][]string{{"engineer"}}}},
		"a function":               {node: algebra.Function{Node: term}},
		"a least score":            {node: algebra.Function{Node: term, MinScore: new(float64)}, readsTokens: true},
		"an average to sort by":    {node: term, sorts: []Sort{{Kind: SortField, Mode: algebra.ScoreAvg}}},
		"a least value to sort by": {node: term, sorts: []Sort{{Kind: SortField, Mode: algebra.ScoreMin}}, eager: true},
		"a pattern in a sort":      {node: term, sorts: []Sort{{Kind: SortField, Mode: algebra.ScoreMin, Nested: algebra.Pattern{}}}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.eager, eager(c.node, c.sorts), "eager")
			require.Equal(t, c.readsTokens, readsTokens(c.node), "reads tokens")
		})
	}
	var many algebra.DisMax
	for range maxEager {
		many.Nodes = append(many.Nodes, term)
	}
	require.False(t, eager(many, nil), "one more than may be")
}

func TestAtMost(t *testing.T) {
	field := algebra.Field{}
	term := func(text string) algebra.Node { return algebra.Term{Field: field, Text: text} }
	stats := &Stats{Terms: map[string]int64{termKey(field, "few"): 3, termKey(field, "many"): 70, termKey(field, "huge"): math.MaxInt64}}
	for name, c := range map[string]struct {
		node algebra.Node
		want int64
	}{
		"everybody":    {algebra.All{}, math.MaxInt64},
		"nobody":       {algebra.None{}, 0},
		"a term":       {term("few"), 3},
		"not counted":  {term("other"), math.MaxInt64},
		"both":         {algebra.Bool{Must: []algebra.Node{term("many")}, Filter: []algebra.Node{term("few"), algebra.All{}}}, 3},
		"either":       {algebra.Bool{Should: []algebra.Node{term("many"), term("few")}, Minimum: 1}, 73},
		"should alone": {algebra.Bool{Should: []algebra.Node{term("many")}}, math.MaxInt64},
		"not":          {algebra.Bool{MustNot: []algebra.Node{term("few")}}, math.MaxInt64},
		"the best":     {algebra.DisMax{Nodes: []algebra.Node{term("few"), term("many")}}, 73},
		"no overflow":  {algebra.DisMax{Nodes: []algebra.Node{term("huge"), term("huge")}}, math.MaxInt64},
		"a phrase":     {algebra.Phrase{Field: field, Terms: [][]string{{"many"}, {"few"}, {"a", "b"}}}, 3},
		"wrapped":      {algebra.Boost{Node: algebra.Constant{Node: algebra.Nested{Node: algebra.Function{Node: term("few")}}}}, 3},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, AtMost(c.node, stats)) })
	}
	require.Equal(t, int64(math.MaxInt64), AtMost(term("few"), nil))
}
