package planner

import (
	"slices"

	"muster/query-api/internal/search/algebra"
)

// SortKind is what a sort key orders by.
type SortKind uint8

// The kinds of sort keys.
const (
	SortScore SortKind = iota + 1
	SortField
	SortDocument // by the person alone, as the last key always does
)

// Sort is one sort key.
type Sort struct {
	Kind       SortKind
	Field      algebra.Field
	Descending bool
	// MissingFirst puts people without a value first; Missing, when set, is the
	// value that they count with instead.
	MissingFirst bool
	Missing      *string
	Mode         algebra.ScoreMode // of several values: min, max, sum, avg or median
	// Nested, when set, says which elements count, and Children how many of those with a value do, the first ones.
	Nested   algebra.Node
	Children *int
	// Double: numbers are compared, averaged and summed as 64-bit floating point numbers.
	Double bool
}

// Key is the value of a sort key of one person, as cursors keep it.
type Key struct {
	Missing bool   `json:"m,omitempty"`
	Value   string `json:"v,omitempty"`
}

// Place is where a person stands in the order of a walk.
type Place struct {
	Keys      []Key  `json:"k,omitempty"`
	Hash      uint64 `json:"h"`
	ProfileID string `json:"p"`
}

// SortFilters are the conditions on the elements that sort keys take.
func SortFilters(sorts []Sort) []algebra.Node {
	var list []algebra.Node
	for _, s := range sorts {
		if s.Nested != nil {
			list = append(list, s.Nested)
		}
	}
	return list
}

// Scored says whether the order depends on scores.
func Scored(sorts []Sort) bool {
	for _, s := range sorts {
		if s.Kind == SortScore {
			return true
		}
	}
	return false
}

// ScoresDecide says that who matches depends on scores, whatever the order.
func ScoresDecide(n algebra.Node) bool {
	found := false
	algebra.Walk(n, func(n algebra.Node) {
		if f, ok := n.(algebra.Function); ok && f.MinScore != nil {
			found = true
		}
	})
	return found
}

// Scores says that a page needs scores: for its order, for that of inner hits, or for the elements that a sort key
// takes.
func Scores(n algebra.Node, sorts []Sort) bool {
	found := Scored(sorts) || slices.ContainsFunc(SortFilters(sorts), ScoresDecide)
	algebra.Walk(n, func(n algebra.Node) {
		if m, ok := n.(algebra.Nested); ok && m.InnerHits.Scored() {
			found = true
		}
	})
	return found
}
