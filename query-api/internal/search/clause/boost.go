package clause

import (
	"slices"

	"muster/query-api/internal/search/algebra"
)

// spread gives a query the boosts that Elasticsearch's function_score has: a boost, its own or one around it, multiplies
// the score of the query within, never what the functions make of it. It takes factor times the boosts met on the way
// down to where scores arise.
func spread(n algebra.Node, factor float64) algebra.Node {
	each := func(list []algebra.Node, factor float64) []algebra.Node {
		out := slices.Clone(list)
		for i := range out {
			out[i] = spread(out[i], factor)
		}
		return out
	}
	switch n := n.(type) {
	case algebra.Boost:
		return spread(n.Node, factor*n.Factor)
	case algebra.Constant:
		n.Node, n.Score = spread(unscored(n.Node), 1), n.Score*factor
		return n
	case algebra.Function:
		n.Node = spread(n.Node, factor)
		n.Functions = slices.Clone(n.Functions)
		for i, f := range n.Functions {
			if f.Filter != nil {
				n.Functions[i].Filter = spread(f.Filter, 1)
			}
		}
		return n
	case algebra.Bool:
		n.Must, n.Should = each(n.Must, factor), each(n.Should, factor)
		// A least score within a filter sees the boosts around it, but for a filter alone, which Lucene asks without.
		if len(n.Must)+len(n.Should)+len(n.MustNot) == 0 && len(n.Filter) == 1 {
			factor = 1
		}
		n.Filter, n.MustNot = each(eachUnscored(n.Filter), factor), each(eachUnscored(n.MustNot), factor)
		return n
	case algebra.DisMax:
		n.Nodes = each(n.Nodes, factor)
		return n
	case algebra.Nested:
		n.Node = spread(n.Node, factor)
		return n
	}
	return boosted(n, factor)
}

// unscored leaves out the boosts that Lucene drops where nobody asks for a score: those of the query itself, and of the
// clauses of a bool.
func unscored(n algebra.Node) algebra.Node {
	switch n := n.(type) {
	case algebra.Boost:
		return unscored(n.Node)
	case algebra.Bool:
		n.Must, n.Filter, n.Should, n.MustNot = eachUnscored(n.Must), eachUnscored(n.Filter), eachUnscored(n.Should), eachUnscored(n.MustNot)
		return n
	}
	return n
}

func eachUnscored(list []algebra.Node) []algebra.Node {
	out := slices.Clone(list)
	for i := range out {
		out[i] = unscored(out[i])
	}
	return out
}
