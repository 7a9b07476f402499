package clause

import (
	"reflect"
	"slices"

	"muster/query-api/internal/search/algebra"
)

// pushBoosts moves the boosts around a function_score into its query, as Elasticsearch does: a boost multiplies the
// score of the query inside, never the result of the functions. factor is the product of the boosts around n.
func pushBoosts(n algebra.Node, factor float64) algebra.Node {
	each := func(list []algebra.Node, factor float64) []algebra.Node {
		out := slices.Clone(list)
		for i := range out {
			out[i] = pushBoosts(out[i], factor)
		}
		return out
	}
	switch n := n.(type) {
	case algebra.Boost:
		return pushBoosts(n.Node, factor*n.Factor)
	case algebra.Constant:
		n.Node, n.Score = pushBoosts(dropUnusedBoosts(n.Node), 1), n.Score*factor
		return n
	case algebra.Function:
		outside := 1.0
		if n.Sealed {
			factor, outside = 1, factor
		}
		n.Node = pushBoosts(n.Node, factor)
		n.Functions = slices.Clone(n.Functions)
		for i, f := range n.Functions {
			if f.Filter != nil {
				n.Functions[i].Filter = pushBoosts(f.Filter, 1)
			}
		}
		return boosted(n, outside)
	case algebra.Bool:
		n.Must, n.Should = each(n.Must, factor), each(n.Should, factor)
		// A min_score inside a filter mostly sees the boosts around it.
		if isConstantScore(n) {
			factor = 1
		}
		n.Filter, n.MustNot = each(eachUnboosted(n.Filter), factor), each(eachUnboosted(n.MustNot), factor)
		return n
	case algebra.DisMax:
		n.Nodes = each(n.Nodes, factor)
		return n
	case algebra.Nested:
		outside := 1.0
		if n.InnerHits != nil && multiplies(n.Node) { // The scores of inner hits do not have the boosts around them.
			factor, outside = 1, factor
		}
		n.Node = pushBoosts(n.Node, factor)
		return boosted(n, outside)
	}
	return boosted(n, factor)
}

// multiplies reports whether a boost inside a node multiplies its score, as one around it does.
func multiplies(n algebra.Node) bool {
	all := true
	algebra.Walk(n, func(n algebra.Node) {
		if f, ok := n.(algebra.Function); ok {
			all = all && f.MinScore == nil && (len(f.Functions) == 0 || f.BoostMode == algebra.ScoreMultiply)
		}
	})
	return all
}

// isConstantScore reports whether Lucene rewrites a bool, or its filters, to a constant-score clause, which drops
// boosts inside: the only clause is a filter, or its must clauses match all documents. It ignores clauses without
// effect.
func isConstantScore(n algebra.Bool) bool {
	var filters []algebra.Node
	for _, f := range eachUnboosted(n.Filter) {
		if !isMatchAllFilter(f) && (len(filters) == 0 || !reflect.DeepEqual(f, filters[0])) {
			filters = append(filters, f)
		}
	}
	if len(n.Must) > 0 {
		return len(filters) > 0 && !slices.ContainsFunc(n.Must, func(m algebra.Node) bool { return !isMatchAll(m) })
	}
	return len(filters) <= 1 && len(n.Should) == 0 &&
		!slices.ContainsFunc(n.MustNot, func(m algebra.Node) bool { return m != algebra.None{} })
}

// isMatchAll reports whether a node is match_all, with or without a boost.
func isMatchAll(n algebra.Node) bool {
	switch n := n.(type) {
	case algebra.All:
		return true
	case algebra.Boost:
		return isMatchAll(n.Node)
	case algebra.Bool:
		return len(n.Must) == 1 && len(n.Filter)+len(n.Should)+len(n.MustNot) == 0 && isMatchAll(n.Must[0])
	}
	return false
}

// isMatchAllFilter reports whether Lucene drops a filter because it matches all documents.
func isMatchAllFilter(n algebra.Node) bool {
	others := func(list []algebra.Node) bool {
		return slices.ContainsFunc(list, func(n algebra.Node) bool { return !isMatchAllFilter(n) })
	}
	switch n := n.(type) {
	case algebra.All:
		return true
	case algebra.Boost:
		return isMatchAllFilter(n.Node)
	case algebra.Constant:
		return isMatchAllFilter(n.Node)
	case algebra.DisMax:
		return len(n.Nodes) == 1 && isMatchAllFilter(n.Nodes[0])
	case algebra.Bool:
		if n.MinimumField != nil ||
			slices.ContainsFunc(n.MustNot, func(m algebra.Node) bool { return m != algebra.None{} }) ||
			others(n.Must) || others(n.Filter) {
			return false
		}
		return n.Minimum == 0 || len(n.Should) == 1 && isMatchAllFilter(n.Should[0])
	}
	return false
}

// dropUnusedBoosts removes the boosts that Lucene drops if scores are not needed: those of the query itself and of
// the clauses of a bool.
func dropUnusedBoosts(n algebra.Node) algebra.Node {
	switch n := n.(type) {
	case algebra.Boost:
		return dropUnusedBoosts(n.Node)
	case algebra.Bool:
		n.Must, n.Filter, n.Should, n.MustNot = eachUnboosted(n.Must), eachUnboosted(n.Filter), eachUnboosted(n.Should),
			eachUnboosted(n.MustNot)
		return n
	}
	return n
}

func eachUnboosted(list []algebra.Node) []algebra.Node {
	out := slices.Clone(list)
	for i := range out {
		out[i] = dropUnusedBoosts(out[i])
	}
	return out
}
