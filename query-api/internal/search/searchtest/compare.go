package searchtest

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Searcher executes search requests: {"query": ..., "sort": ...}.
type Searcher interface {
	// Search returns the exact total and the first hits in order, not necessarily all.
	Search(ctx context.Context, body []byte) (Result, error)
}

// Result is the result of a search.
type Result struct {
	Total        int
	Hits         []Hit
	Aggregations jsontext.Value
}

// Hit is a matching document.
type Hit struct {
	ID    string
	Score *float64         // nil if unknown, or if the order is another
	Sort  []jsontext.Value // values of the sort keys, of the reference only
	Inner map[string]Inner // by the names of inner_hits
	Names []string         // of the clauses that match
}

// Tolerance is the maximum relative difference of equal scores.
const Tolerance = 1e-4

// Compare returns an error that describes how got differs from the reference, whose hits must be complete. Documents
// with equal scores or sort values may be in any order.
func Compare(reference, got Result, totalsOnly bool) error {
	if got.Total != reference.Total {
		return fmt.Errorf("total is %d, want %d%s", got.Total, reference.Total, firstDifference(reference, got))
	}
	if len(reference.Hits) != reference.Total {
		return fmt.Errorf("the reference returned %d of its %d hits", len(reference.Hits), reference.Total)
	}
	known := make(map[string]Hit, len(reference.Hits))
	for _, h := range reference.Hits {
		known[h.ID] = h
	}
	seen := make(map[string]bool, len(got.Hits))
	for i, h := range got.Hits {
		want, ok := known[h.ID]
		if !ok {
			return fmt.Errorf("hit %d, %s, is not in the reference", i, h.ID)
		}
		if seen[h.ID] {
			return fmt.Errorf("hit %d, %s, is a duplicate", i, h.ID)
		}
		seen[h.ID] = true
		if totalsOnly {
			continue
		}
		expected := reference.Hits[i]
		if !sameRank(expected, want) {
			return fmt.Errorf("hit %d is %s with %s, want %s with %s", i, h.ID, keys(want),
				expected.ID, keys(expected))
		}
		if h.Score != nil && want.Score != nil && !near(*h.Score, *want.Score) {
			return fmt.Errorf("hit %d, %s, has score %g, want %g", i, h.ID, *h.Score, *want.Score)
		}
		if a, b := distinct(h.Names), distinct(want.Names); !slices.Equal(a, b) {
			return fmt.Errorf("names of hit %d, %s, are %v, want %v", i, h.ID, a, b)
		}
	}
	return nil
}

func distinct(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

// firstDifference names the first hits that only one of the two has.
func firstDifference(reference, got Result) string {
	if len(got.Hits) < got.Total {
		return ""
	}
	a, b := ids(reference), ids(got)
	var out string
	for _, h := range reference.Hits {
		if !b[h.ID] {
			out += "; missing: " + h.ID
			break
		}
	}
	for _, h := range got.Hits {
		if !a[h.ID] {
			out += "; unexpected: " + h.ID
			break
		}
	}
	return out
}

func ids(r Result) map[string]bool {
	out := make(map[string]bool, len(r.Hits))
	for _, h := range r.Hits {
		out[h.ID] = true
	}
	return out
}

func keys(h Hit) string {
	if len(h.Sort) > 0 {
		return fmt.Sprintf("sort values %s", h.Sort)
	}
	if h.Score != nil {
		return fmt.Sprintf("score %g", *h.Score)
	}
	return "no score"
}

func sameRank(a, b Hit) bool {
	if len(a.Sort) != len(b.Sort) {
		return false
	}
	if len(a.Sort) == 0 {
		return a.Score != nil && b.Score != nil && near(*a.Score, *b.Score)
	}
	for i, v := range a.Sort {
		w := b.Sort[i]
		if v.String() == w.String() {
			continue
		}
		if v.Kind() != '0' || w.Kind() != '0' {
			return false
		}
		var x, y float64
		if _, err := fmt.Sscan(v.String(), &x); err != nil {
			return false
		}
		if _, err := fmt.Sscan(w.String(), &y); err != nil {
			return false
		}
		if x == math.Trunc(x) && y == math.Trunc(y) || !near(x, y) {
			return false
		}
		if math.Abs(x-y) > math.Abs(x)*1e-12 && math.Abs(x) > 1e9 { // a mean of dates, not a score
			return false
		}
	}
	return true
}

func near(a, b float64) bool {
	return float32(a) == float32(b) || math.Abs(a-b) <= Tolerance*math.Max(math.Abs(a), math.Abs(b))
}
