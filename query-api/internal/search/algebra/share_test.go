package algebra_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

func TestShareStatistics_EqualTermsShareTheFirstOnes(t *testing.T) {
	field := algebra.Field{SearchField: readmodel.SearchField{Path: "f", Type: readmodel.SearchText}}
	term := func(text string, blend int, boost float64) algebra.Node {
		n := algebra.Term{Field: field, Text: text, Blend: blend}
		if boost == 1 {
			return n
		}
		return algebra.Boost{Node: n, Factor: boost}
	}
	anyOf := func(nodes ...algebra.Node) algebra.Node { return algebra.Bool{Should: nodes, Minimum: 1} }
	for name, test := range map[string]struct {
		query algebra.Node
		want  []int // by the terms, in their order
	}{
		"equal boosts": {anyOf(anyOf(term("a", 1, .5), term("b", 1, .5)),
			anyOf(term("b", 2, .5), term("c", 2, .5))), []int{1, 1, 1, 2}},
		"other boosts": {anyOf(anyOf(term("a", 1, .5), term("b", 1, .5)),
			anyOf(term("b", 2, .25), term("c", 2, .5))), []int{1, 1, 2, 2}},
		"a word that is": {anyOf(term("b", 0, 1), anyOf(term("b", 2, 1), term("c", 2, .5))), []int{0, 0, 2}},
		"the other way":  {anyOf(anyOf(term("b", 2, 1), term("c", 2, .5)), term("b", 0, 1)), []int{2, 2, 2}},
		"both must": {algebra.Bool{Must: []algebra.Node{anyOf(term("a", 1, .5), term("b", 1, .5)),
			anyOf(term("b", 2, .5), term("c", 2, .5))}}, []int{1, 1, 2, 2}},
		"two of them": {algebra.Bool{Should: []algebra.Node{anyOf(term("a", 1, .5), term("b", 1, .5)),
			anyOf(term("b", 2, .5), term("c", 2, .5))}, Minimum: 2}, []int{1, 1, 2, 2}},
		"the best counts": {algebra.DisMax{Nodes: []algebra.Node{anyOf(term("a", 1, .5), term("b", 1, .5)),
			anyOf(term("b", 2, .5), term("c", 2, .5))}}, []int{1, 1, 2, 2}},
		"all of them do": {algebra.DisMax{Tie: 1, Nodes: []algebra.Node{anyOf(term("a", 1, .5), term("b", 1, .5)),
			anyOf(term("b", 2, .5), term("c", 2, .5))}}, []int{1, 1, 1, 2}},
		"a boosted group": {anyOf(term("b", 0, 1), algebra.Boost{Node: anyOf(term("b", 2, 1), term("c", 2, .5)),
			Factor: 2}), []int{0, 2, 2}},
		"one in a must": {anyOf(term("b", 0, 1),
			algebra.Bool{Must: []algebra.Node{anyOf(term("b", 2, 1), term("c", 2, .5))}}), []int{0, 0, 2}},
		"beside a must": {algebra.Bool{Must: []algebra.Node{term("b", 3, 1)},
			Should: []algebra.Node{term("b", 1, 1), term("b", 2, 1)}}, []int{3, 1, 1}},
		"a word twice": {anyOf(term("b", 0, .5), anyOf(term("a", 1, .5), term("b", 1, .5)),
			anyOf(term("a", 2, .5), term("b", 2, .5))), []int{0, 1, 1, 1, 1}},
		"alike by name": {anyOf(anyOf(term("a", 0, .5), term("b", 0, .5)),
			anyOf(term("a", 2, .5), term("b", 2, .5))), []int{0, 0, 0, 0}},
		"in a list inside": {algebra.Nested{Path: "p", Node: anyOf(anyOf(term("a", 1, .5), term("b", 1, .5)),
			anyOf(term("b", 2, .5), term("c", 2, .5)))}, []int{1, 1, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int
			algebra.Walk(algebra.ShareStatistics(test.query), func(n algebra.Node) {
				if t, ok := n.(algebra.Term); ok {
					got = append(got, t.Statistics())
				}
			})
			require.Equal(t, test.want, got)
		})
	}
}
