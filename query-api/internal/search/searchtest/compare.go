package searchtest

import (
	"context"
	"fmt"
	"math"

	"github.com/go-json-experiment/json/jsontext"
)

// Searcher answers search requests: {"query": ..., "sort": ...}.
type Searcher interface {
	// Search gives the exact total and the first hits in order, all of them or as many as it gives.
	Search(ctx context.Context, body []byte) (Result, error)
}

// Result is an answer.
type Result struct {
	Total int
	Hits  []Hit
}

// Hit is a document found.
type Hit struct {
	ID    string
	Score *float64         // nil when unknown, or when the order is another
	Sort  []jsontext.Value // values of the sort keys; needed of the judge only
	Inner map[string]Inner // by the names of inner_hits
}

// Tolerance is how far two scores may be apart, relative to the greater one.
const Tolerance = 1e-4

// Compare says how got differs from what the judge found, or returns nil. The judge's hits must be complete. Documents
// whose scores or sort values are equal may come in any order.
func Compare(judge, got Result, totalsOnly bool) error {
	if got.Total != judge.Total {
		return fmt.Errorf("total is %d, the judge's %d%s", got.Total, judge.Total, firstDifference(judge, got))
	}
	if len(judge.Hits) != judge.Total {
		return fmt.Errorf("the judge gave %d of its %d hits", len(judge.Hits), judge.Total)
	}
	known := make(map[string]Hit, len(judge.Hits))
	for _, h := range judge.Hits {
		known[h.ID] = h
	}
	seen := make(map[string]bool, len(got.Hits))
	for i, h := range got.Hits {
		want, ok := known[h.ID]
		if !ok {
			return fmt.Errorf("hit %d, %s, is none of the judge's", i, h.ID)
		}
		if seen[h.ID] {
			return fmt.Errorf("hit %d, %s, came before", i, h.ID)
		}
		seen[h.ID] = true
		if totalsOnly {
			continue
		}
		place := judge.Hits[i]
		if !samePlace(place, want) {
			return fmt.Errorf("hit %d is %s with %s, at its place the judge has %s with %s", i, h.ID, keys(want),
				place.ID, keys(place))
		}
		if h.Score != nil && want.Score != nil && !near(*h.Score, *want.Score) {
			return fmt.Errorf("hit %d, %s, has the score %g, the judge's is %g", i, h.ID, *h.Score, *want.Score)
		}
	}
	return nil
}

// firstDifference names people whom only one of the two found.
func firstDifference(judge, got Result) string {
	if len(got.Hits) < got.Total {
		return ""
	}
	a, b := ids(judge), ids(got)
	var out string
	for _, h := range judge.Hits {
		if !b[h.ID] {
			out += "; missing: " + h.ID
			break
		}
	}
	for _, h := range got.Hits {
		if !a[h.ID] {
			out += "; too many: " + h.ID
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

func samePlace(a, b Hit) bool {
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
		if math.Abs(x-y) > math.Abs(x)*1e-12 && math.Abs(x) > 1e9 { // the mean of dates, no score
			return false
		}
	}
	return true
}

func near(a, b float64) bool {
	return math.Abs(a-b) <= Tolerance*math.Max(math.Abs(a), math.Abs(b))
}
