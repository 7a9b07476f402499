package planner

import (
	"slices"

	"muster/query-api/internal/search/algebra"
)

// fewCandidates is the part of the people up to which it takes less to choose them first, and to copy what they have, than to look
// at what everybody has (deploy/docs/benchmarks.md).
const fewCandidates = 0.2

// WorthStages says that a ranking looks at elements or at the places of words, and that the words which the indexes know leave
// few people in whom to look.
func WorthStages(n algebra.Node, sorts []Sort, stats *Stats) bool {
	return Dear(n, sorts) && !ScoresDecide(n) && !slices.ContainsFunc(SortFilters(sorts), ScoresDecide) && share(n, stats) <= fewCandidates
}

// share bounds the part of the people who match, by what is known of the terms that necessary asks for.
func share(n algebra.Node, stats *Stats) float64 {
	least := 1.0
	narrow := func(n algebra.Node) { least = min(least, share(n, stats)) }
	sum := func(nodes []algebra.Node) float64 {
		total := 0.0
		for _, m := range nodes {
			total += share(m, stats)
		}
		return total
	}
	switch n := n.(type) {
	case algebra.None:
		return 0
	case algebra.Term:
		df, known := stats.Terms[termKey(n.Field, n.Text)]
		if of := stats.Fields[n.Field.Name()].Documents; known && of > 0 && HasDictionary(n.Field) {
			return float64(df) / float64(of)
		}
	case algebra.Phrase:
		for _, position := range n.Terms {
			if len(position) == 1 {
				narrow(algebra.Term{Field: n.Field, Text: position[0]})
			}
		}
	case algebra.Bool:
		for _, m := range slices.Concat(n.Must, n.Filter) {
			narrow(m)
		}
		if n.Minimum > 0 && n.MinimumField == nil {
			least = min(least, sum(n.Should))
		}
	case algebra.DisMax:
		least = min(least, sum(n.Nodes))
	case algebra.Boost:
		narrow(n.Node)
	case algebra.Constant:
		narrow(n.Node)
	case algebra.Nested:
		narrow(n.Node)
	case algebra.Function:
		narrow(n.Node)
	}
	return least
}
