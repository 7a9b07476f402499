package planner

import (
	"math"
	"slices"

	"muster/query-api/internal/search/algebra"
)

// maxEager is the most nodes of a query whose parts are all evaluated at once.
const maxEager = 64

// eager says that the server may evaluate every part of a statement for every row that it reads, whether another part
// has excluded the row already or not. For what is cheap that takes less than choosing rows, which copies their lists
// (deploy/docs/benchmarks.md). It may not where a part is dear, as regular expressions and phrases are, or
// fails on a value that another part keeps from it, as an average of no numbers does when it is made a whole one.
func eager(n algebra.Node, sorts []Sort, stats *Stats) bool {
	nodes, ok := 0, true
	visit := func(n algebra.Node) {
		if t, is := n.(algebra.Term); is && stats.absent(t.Field, t.Text) {
			return
		}
		nodes++
		switch n.(type) {
		case algebra.All, algebra.None, algebra.Term, algebra.Set, algebra.Combined, algebra.Range, algebra.Exists,
			algebra.Bool, algebra.DisMax, algebra.Boost, algebra.Constant, algebra.Nested:
		default:
			ok = false
		}
	}
	algebra.Walk(n, visit)
	for _, s := range sorts {
		ok = ok && s.Mode != algebra.ScoreAvg && s.Mode != algebra.ScoreMedian
		if s.Nested != nil {
			algebra.Walk(s.Nested, visit)
		}
	}
	return ok && nodes <= maxEager
}

// readsTokens says that a statement is asked without answers of the indexes (Statement.TokensRead). Those of one text cost
// more than they save where a phrase has its tokens read in any case, and those of several save more.
func readsTokens(n algebra.Node, stats *Stats) bool {
	return ScoresDecide(n) || hasPhrase(n) && !severalTexts(n, stats)
}

// Asked is how many terms a query looks for, each in its field, but for those that nobody has.
func Asked(n algebra.Node, stats *Stats) int {
	asked := 0
	algebra.Walk(n, func(n algebra.Node) {
		if t, ok := n.(algebra.Term); ok && !stats.absent(t.Field, t.Text) {
			asked++
		}
	})
	return asked
}

// severalTexts says that a query asks at least two texts of the person, and no phrase of elements.
func severalTexts(n algebra.Node, stats *Stats) bool {
	texts := make(map[string]bool)
	algebra.Walk(atRoot(n), func(n algebra.Node) {
		switch n := n.(type) {
		case algebra.Term:
			if n.Field.IsText() && !stats.absent(n.Field, n.Text) {
				texts[n.Field.Name()] = true
			}
		case algebra.Phrase:
			if !stats.Lacks(n) {
				texts[n.Field.Name()] = true
			}
		}
	})
	elements := false
	algebra.Walk(n, func(n algebra.Node) {
		if n, ok := n.(algebra.Nested); ok {
			elements = elements || hasPhrase(n.Node)
		}
	})
	return len(texts) > 1 && !elements
}

// hasPhrase says that a query looks at the places of words.
func hasPhrase(n algebra.Node) bool {
	found := false
	algebra.Walk(n, func(n algebra.Node) {
		if p, ok := n.(algebra.Phrase); ok {
			found = found || len(p.Terms) > 1 && p.Found == nil
		}
	})
	return found
}

// Dear says that a page takes much more to find who matches than to keep them: their elements, or the places of words,
// are looked at one by one, and all of them have to be before it is known who comes first. Such work is better not done twice.
func Dear(n algebra.Node, sorts []Sort) bool {
	dear := hasPhrase(n)
	algebra.Walk(n, func(n algebra.Node) {
		_, elements := n.(algebra.Nested)
		dear = dear || elements
	})
	return dear && !InTableOrder(n, sorts)
}

// InTableOrder says that people come as the table has them, so that the first who match are first.
func InTableOrder(n algebra.Node, sorts []Sort) bool {
	return !slices.ContainsFunc(sorts, func(s Sort) bool {
		return s.Kind == SortField || s.Kind == SortScore && varies(n)
	})
}

// varies says that people who match may have different scores.
func varies(n algebra.Node) bool {
	switch n := n.(type) {
	case algebra.Term, algebra.Phrase, algebra.Combined, algebra.Function:
		return true
	case algebra.Bool:
		return len(n.Should) > 0 || slices.ContainsFunc(n.Must, varies)
	case algebra.DisMax:
		return len(n.Nodes) > 1 || slices.ContainsFunc(n.Nodes, varies)
	case algebra.Boost:
		return varies(n.Node)
	case algebra.Nested:
		return n.Mode == algebra.ScoreSum || n.Mode != algebra.ScoreNone && varies(n.Node)
	}
	return false
}

// AtMost bounds how many people match, by what is known of the terms that they must have; math.MaxInt64 when nothing is.
func AtMost(n algebra.Node, stats *Stats) int64 {
	sum := func(nodes []algebra.Node) int64 {
		total := int64(0)
		for _, m := range nodes {
			if total += AtMost(m, stats); total < 0 {
				return math.MaxInt64
			}
		}
		return total
	}
	least := int64(math.MaxInt64)
	switch n := n.(type) {
	case algebra.None:
		return 0
	case algebra.Term:
		if stats == nil {
			return least
		}
		if df, ok := stats.Terms[termKey(n.Field, n.Text)]; ok {
			return df // elements count beside the person
		}
	case algebra.Phrase:
		for _, position := range n.Terms {
			if len(position) == 1 {
				least = min(least, AtMost(algebra.Term{Field: n.Field, Text: position[0]}, stats))
			}
		}
	case algebra.Bool:
		for _, list := range [][]algebra.Node{n.Must, n.Filter} {
			for _, m := range list {
				least = min(least, AtMost(m, stats))
			}
		}
		if n.Minimum > 0 && n.MinimumField == nil {
			least = min(least, sum(n.Should))
		}
	case algebra.DisMax:
		return sum(n.Nodes)
	case algebra.Boost:
		return AtMost(n.Node, stats)
	case algebra.Constant:
		return AtMost(n.Node, stats)
	case algebra.Nested:
		return AtMost(n.Node, stats)
	case algebra.Function:
		return AtMost(n.Node, stats)
	}
	return least
}
