package clause

import (
	"reflect"
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
		outside := 1.0
		if n.Sealed {
			factor, outside = 1, factor
		}
		n.Node = spread(n.Node, factor)
		n.Functions = slices.Clone(n.Functions)
		for i, f := range n.Functions {
			if f.Filter != nil {
				n.Functions[i].Filter = spread(f.Filter, 1)
			}
		}
		return boosted(n, outside)
	case algebra.Bool:
		n.Must, n.Should = each(n.Must, factor), each(n.Should, factor)
		// A least score within a filter sees the boosts around it, mostly.
		if constant(n) {
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

// constant says that Lucene makes a clause of constant score of a bool or of its filters, and asks those without a boost:
// where they are one filter alone, or stand beside a must that is all people. It leaves out what says nothing before.
func constant(n algebra.Bool) bool {
	var filters []algebra.Node
	for _, f := range eachUnscored(n.Filter) {
		if !everybody(f) && (len(filters) == 0 || !reflect.DeepEqual(f, filters[0])) {
			filters = append(filters, f)
		}
	}
	if len(n.Must) > 0 {
		return len(filters) > 0 && !slices.ContainsFunc(n.Must, func(m algebra.Node) bool { return !all(m) })
	}
	return len(filters) <= 1 && len(n.Should) == 0 &&
		!slices.ContainsFunc(n.MustNot, func(m algebra.Node) bool { return m != algebra.None{} })
}

// all says that a node is match_all, perhaps with a boost.
func all(n algebra.Node) bool {
	switch n := n.(type) {
	case algebra.All:
		return true
	case algebra.Boost:
		return all(n.Node)
	case algebra.Bool:
		return len(n.Must) == 1 && len(n.Filter)+len(n.Should)+len(n.MustNot) == 0 && all(n.Must[0])
	}
	return false
}

// everybody says that Lucene leaves out a filter since all people pass it.
func everybody(n algebra.Node) bool {
	others := func(list []algebra.Node) bool {
		return slices.ContainsFunc(list, func(n algebra.Node) bool { return !everybody(n) })
	}
	switch n := n.(type) {
	case algebra.All:
		return true
	case algebra.Boost:
		return everybody(n.Node)
	case algebra.Constant:
		return everybody(n.Node)
	case algebra.DisMax:
		return len(n.Nodes) == 1 && everybody(n.Nodes[0])
	case algebra.Bool:
		if n.MinimumField != nil ||
			slices.ContainsFunc(n.MustNot, func(m algebra.Node) bool { return m != algebra.None{} }) ||
			others(n.Must) || others(n.Filter) {
			return false
		}
		return n.Minimum == 0 || len(n.Should) == 1 && everybody(n.Should[0])
	}
	return false
}

// unscored leaves out the boosts that Lucene drops where nobody asks for a score: those of the query itself, and of the
// clauses of a bool.
func unscored(n algebra.Node) algebra.Node {
	switch n := n.(type) {
	case algebra.Boost:
		return unscored(n.Node)
	case algebra.Bool:
		n.Must, n.Filter, n.Should, n.MustNot = eachUnscored(n.Must), eachUnscored(n.Filter), eachUnscored(n.Should),
			eachUnscored(n.MustNot)
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
