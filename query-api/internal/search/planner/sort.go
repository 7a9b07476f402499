package planner

import (
	"slices"

	"muster/query-api/internal/search/algebra"
)

// SortKind is what a sort key compares.
type SortKind uint8

// The kinds of sort keys.
const (
	SortScore SortKind = iota + 1
	SortField
	SortDocument // by person, always the last key
)

// Sort is one sort key.
type Sort struct {
	Kind       SortKind
	Field      algebra.Field
	Descending bool
	// MissingFirst sorts people without a value first. Missing, if set, replaces a missing value.
	MissingFirst bool
	Missing      *string
	Mode         algebra.ScoreMode // of several values: min, max, sum, avg or median
	// Nested, if set, selects the elements whose values count; Children limits them to the first ones with a value.
	Nested   algebra.Node
	Children *int
	// Double states that numbers are compared, averaged and summed as 64-bit floating point numbers.
	Double bool
}

// Key is the value of a sort key of one person, as cursors store it.
type Key struct {
	Missing bool   `json:"m,omitempty"`
	Value   string `json:"v,omitempty"`
}

// Place is the position of a person in the order of a walk.
type Place struct {
	Keys []Key  `json:"k,omitempty"`
	Hash uint64 `json:"h"`
	ID   string `json:"p"`
	// Score is the score of the person, if it was computed.
	Score float32 `json:"-"`
}

// SortFilters returns the filters on elements of sort keys.
func SortFilters(sorts []Sort) []algebra.Node {
	var list []algebra.Node
	for _, s := range sorts {
		if s.Nested != nil {
			list = append(list, s.Nested)
		}
	}
	return list
}

// Scored reports whether the order depends on scores.
func Scored(sorts []Sort) bool {
	for _, s := range sorts {
		if s.Kind == SortScore {
			return true
		}
	}
	return false
}

// ScoresDecide reports whether scores decide which people match.
func ScoresDecide(n algebra.Node) bool {
	found := false
	algebra.Walk(n, func(n algebra.Node) {
		if f, ok := n.(algebra.Function); ok && f.MinScore != nil {
			found = true
		}
	})
	return found
}

// Scores reports whether a page needs scores: for its order, for that of inner hits, or for the elements of a sort key.
func Scores(n algebra.Node, sorts []Sort) bool {
	found := Scored(sorts) || slices.ContainsFunc(SortFilters(sorts), ScoresDecide)
	algebra.Walk(n, func(n algebra.Node) {
		if m, ok := n.(algebra.Nested); ok && m.InnerHits.Scored() {
			found = true
		}
	})
	return found
}
