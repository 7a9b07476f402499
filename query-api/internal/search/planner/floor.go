package planner

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"muster/query-api/internal/search/algebra"
)

// A page shows the best few of all who match, and most fields of a text over many hold words so frequent that nobody is
// among the best for their sake. Once it is known that as many people as a page needs score at least so much, the floor,
// what cannot reach it need not be read: MaxScore of Turtle and Flood (Query evaluation: strategies and optimizations,
// 1995), of fields rather than of postings.

const (
	// sampleNodes is how many nodes of a DisMax the sample is scored by, the most promising ones.
	sampleNodes = 4
	// manyAlternatives is how many nodes a DisMax has that is worth a floor: that of few fields costs what finding it does.
	manyAlternatives = 5
	// mostAsked is how many terms a query has at most for which a floor is sought: its conditions are written down once more
	// for each level of clauses.
	mostAsked = 512
)

// WorthFloor says that a page is ranked by a query that asks many fields for the same words, so that its order is known
// sooner when those are left out that cannot matter for it.
func WorthFloor(n algebra.Node, sorts []Sort, stats *Stats) bool {
	if len(sorts) == 0 || sorts[0].Kind != SortScore || !sorts[0].Descending || fallible(n) || ScoresDecide(n) || Asked(n, stats) > mostAsked {
		return false
	}
	c := scoring(stats, n)
	return !math.IsInf(c.bound(n), 1) && c.manyAlternatives(n)
}

func (c *compiler) manyAlternatives(n algebra.Node) bool {
	switch n := n.(type) {
	case algebra.Bool:
		return slices.ContainsFunc(n.Must, c.manyAlternatives) || slices.ContainsFunc(n.Should, c.manyAlternatives)
	case algebra.Boost:
		return c.manyAlternatives(n.Node)
	case algebra.DisMax:
		present := 0
		for _, m := range n.Nodes {
			if c.bound(m) > 0 {
				present++
			}
		}
		return n.Tie == 0 && present >= manyAlternatives
	}
	return false
}

// bound is a score that nobody exceeds, infinite when it is not known.
func (c *compiler) bound(n algebra.Node) float64 {
	switch n := n.(type) {
	case algebra.None:
		return 0
	case algebra.Term:
		return c.termBound(n)
	case algebra.Bool:
		total := 0.0
		for _, list := range [][]algebra.Node{n.Must, n.Should} {
			for _, m := range list {
				total += c.bound(m)
			}
		}
		return total
	case algebra.DisMax:
		most, total := 0.0, 0.0
		for _, m := range n.Nodes {
			score := c.bound(m)
			most, total = max(most, score), total+score
		}
		if math.IsInf(total, 1) {
			return total
		}
		return most + n.Tie*(total-most)
	case algebra.Boost:
		if n.Factor == 0 {
			return 0
		}
		return n.Factor * c.bound(n.Node)
	case algebra.Constant:
		return n.Score
	case algebra.Nested, algebra.Function, algebra.Phrase, algebra.Combined:
		return math.Inf(1)
	}
	return 1
}

// termBound is the score of a text of nothing but the term, however often: BM25 grows with the term's frequency f, and
// the length is at least nearly that, rounded down by at most an eighth.
func (c *compiler) termBound(n algebra.Term) float64 {
	if n.Absent || c.stats.absent(n.Field, n.Text) {
		return 0
	}
	weight, average := c.stats.term(n, c.blends[n.Statistics()])
	if !n.Field.IsText() {
		return weight * (k1 + 1) / (1 + k1*(1-b+b/average))
	}
	return weight * (k1 + 1) / (1 + k1*b/average*7/8)
}

// above is a node by which everybody who scores at least floor by n has the same score, to the last bit, and nobody a
// greater one. Those below may not match it.
func (c *compiler) above(n algebra.Node, floor float64) algebra.Node {
	if floor <= 0 {
		return n
	}
	switch n := n.(type) {
	case algebra.Bool:
		if len(n.Must)+len(n.Should) > longSum {
			return n // without a part the sum would be another tree, and round otherwise
		}
		slack := floor - c.bound(n) // what a part must have when all others are at their bounds, less its own
		n.Must, n.Should = c.allAbove(n.Must, slack), c.allAbove(n.Should, slack)
		return n
	case algebra.DisMax:
		if n.Tie != 0 {
			return n
		}
		n.Nodes = slices.Clone(n.Nodes)
		n.Nodes = slices.DeleteFunc(n.Nodes, func(m algebra.Node) bool { return c.bound(m) < floor })
		for i, m := range n.Nodes {
			n.Nodes[i] = c.above(m, floor)
		}
		return n
	case algebra.Boost:
		if n.Factor > 0 {
			n.Node = c.above(n.Node, floor/n.Factor)
		}
		return n
	}
	return n
}

func (c *compiler) allAbove(list []algebra.Node, slack float64) []algebra.Node {
	out := make([]algebra.Node, len(list))
	for i, m := range list {
		out[i] = c.above(m, c.bound(m)+slack)
	}
	return out
}

// reaching is the condition that a person matches a node and may score at least floor by it.
func (c *compiler) reaching(n algebra.Node, floor float64) string {
	root := &scope{}
	if floor <= 0 {
		return c.match(n, root)
	}
	switch n := n.(type) {
	case algebra.Bool:
		slack := floor - c.bound(n)
		parts := []string{c.boolean(n, root)}
		var weighed []string
		for _, m := range slices.Concat(n.Must, n.Should) {
			score := c.bound(m)
			if score+slack > 0 {
				parts = append(parts, c.reaching(m, score+slack))
			}
			if _, ok := m.(algebra.Term); ok && score > 0 {
				weighed = append(weighed, c.match(m, root)+" * "+c.float(score))
			} else if score > 0 {
				weighed = append(weighed, c.float(score))
			}
		}
		if len(weighed) > 1 {
			parts = append(parts, "("+plus(weighed)+" >= "+c.float(floor)+")")
		}
		return and(parts...)
	case algebra.DisMax:
		if n.Tie != 0 {
			return c.match(n, root)
		}
		list := make([]string, len(n.Nodes))
		for i, m := range n.Nodes {
			list[i] = c.reaching(m, floor)
		}
		return or(list...)
	case algebra.Boost:
		if n.Factor > 0 {
			return c.reaching(n.Node, floor/n.Factor)
		}
	}
	return c.match(n, root)
}

// promising is a node by which nobody scores more than by n, and which asks less: of many alternatives those that may
// give the greatest scores to as many people.
func (c *compiler) promising(n algebra.Node, people int64) algebra.Node {
	switch n := n.(type) {
	case algebra.Bool:
		n.Must, n.Should = slices.Clone(n.Must), slices.Clone(n.Should)
		for _, list := range [][]algebra.Node{n.Must, n.Should} {
			for i, m := range list {
				list[i] = c.promising(m, people)
			}
		}
		return n
	case algebra.Boost:
		n.Node = c.promising(n.Node, people)
		return n
	case algebra.DisMax:
		if n.Tie != 0 {
			return n
		}
		type promise struct {
			node  algebra.Node
			score float64
		}
		list := make([]promise, len(n.Nodes))
		for i, m := range n.Nodes {
			list[i].node = m
			if AtMost(m, c.stats) >= people {
				list[i].score = c.bound(m)
			}
		}
		slices.SortStableFunc(list, func(a, b promise) int { return cmp.Compare(b.score, a.score) })
		n.Nodes = nil
		for _, p := range list[:min(sampleNodes, len(list))] {
			n.Nodes = append(n.Nodes, p.node)
		}
		return n
	}
	return n
}

// sampled is the condition that somebody is in a sample of one in share, whose rows stand together.
func sampled(share uint64) string {
	return "profile_hash < " + strconv.FormatUint(math.MaxUint64/share, 10)
}
