package algebra_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/algebra"
)

func TestNear_ReturnsTheTermsWithinTheDistance(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func(most int) string {
		letters := make([]rune, random.IntN(most+1))
		for i := range letters {
			letters[i] = []rune("abcé\u4e16")[random.IntN(5)]
		}
		return string(letters)
	}
	terms := []string{"\xff", "a\xffb"}
	for range 3000 {
		terms = append(terms, word(7))
	}
	slices.Sort(terms)
	terms = slices.Compact(terms)
	found := 0
	for range 300 {
		n := algebra.Fuzzy{Text: word(8), Edits: random.IntN(3), Transpositions: random.IntN(2) == 0}
		var want []string
		for _, term := range terms {
			if algebra.Edits(n.Text, term, n.Transpositions) <= n.Edits {
				want = append(want, term)
			}
		}
		require.Equal(t, want, algebra.Near(n, terms), "%+v", n)
		found += len(want)
	}
	require.Greater(t, found, 1000)
	require.Empty(t, algebra.Near(algebra.Fuzzy{Text: string(make([]rune, 30_000)), Edits: 2}, terms))
}
