package planner

import (
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
