package search

import (
	"context"
	"strings"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
)

// lanes let so many searches run at once. Expensive ones have a lane of their
// own, so that they wait for each other and the rest does not wait for them, and
// they pause while others run.
type lanes struct {
	cheap, expensive chan struct{}
}

func newLanes(concurrent int) lanes {
	return lanes{cheap: make(chan struct{}, concurrent), expensive: make(chan struct{}, max(1, concurrent/4))}
}

// alone says that no cheap search runs but the one of ctx: the expensive ones pause
// meanwhile. An expensive one never counts as alone, as others may come while it runs.
func (l lanes) alone(ctx context.Context) bool {
	return priority(ctx) < expensivePriority && len(l.cheap) == 1
}

// turn is the place of a search in a lane.
type turn struct {
	lanes lanes
	lane  chan struct{}
}

// of is the lane of what weighs so much, and the priority of its statements.
func (l lanes) of(weight int) (lane chan struct{}, priority int) {
	switch {
	case weight > expensiveWeight:
		return l.expensive, expensivePriority
	case weight > usualWeight:
		return l.cheap, unusualPriority
	}
	return l.cheap, cheapPriority
}

// idle says that no other search runs at all.
func (l lanes) idle() bool { return len(l.cheap)+len(l.expensive) == 1 }

// enter waits for its turn until ctx ends. The search goes on with the context that it
// returns, and leaves in the end.
func (l lanes) enter(ctx context.Context, weight int) (context.Context, *turn, error) {
	lane, p := l.of(weight)
	select {
	case lane <- struct{}{}:
		return context.WithValue(ctx, priorityKey{}, p), &turn{lanes: l, lane: lane}, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// lighten goes over to the lane of a search that turned out to weigh less than it seemed to.
func (t *turn) lighten(ctx context.Context, weight int) (context.Context, error) {
	lane, p := t.lanes.of(weight)
	if p >= priority(ctx) {
		return ctx, nil
	}
	if lane != t.lane {
		select {
		case lane <- struct{}{}:
			t.leave()
			t.lane = lane
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return context.WithValue(ctx, priorityKey{}, p), nil
}

func (t *turn) leave() { <-t.lane }

// The priorities of statements: the engine pauses one of a greater number, for up to a
// second each time that it has read something, while any of a smaller one runs.
const (
	cheapPriority = 1 + iota
	unusualPriority
	expensivePriority
)

type priorityKey struct{}

// priority is that of the search of ctx, cheap where there is none.
func priority(ctx context.Context) int {
	if p, ok := ctx.Value(priorityKey{}).(int); ok {
		return p
	}
	return cheapPriority
}

// usualWeight is that of nearly all that people ask: what weighs more waits for them in
// the engine, though not here.
const usualWeight = 50

// expensiveWeight is beyond what people ask: two words over all fields weigh less.
const expensiveWeight = 150

// beyond is what a term weighs for the words that it may be, more than there are unless
// somebody asks for more.
func beyond(expansions int) int { return max(0, expansions-50) / 8 }

// weight estimates what a query costs before anything is read, in terms. Once it is known which of them nobody has, only
// the others count: no clause that is made of the absent ones alone is asked.
func weight(n algebra.Node, stats *planner.Stats) int {
	sum := 0
	algebra.Walk(n, func(n algebra.Node) {
		if len(stats.Absent) > 0 {
			switch n := n.(type) {
			case algebra.Bool, algebra.DisMax, algebra.Boost, algebra.Constant:
				return
			case algebra.Term:
				if stats.Absent[planner.TermKey(n.Field.Name(), n.Text)] {
					return
				}
			case algebra.Phrase:
				if stats.Lacks(n) {
					return
				}
			}
		}
		switch n := n.(type) {
		case algebra.Set:
			sum += 1 + len(n.Values)/256
		case algebra.Phrase:
			each := 2
			if n.Slop > 0 {
				each = 10
			}
			sum += each * len(n.Terms)
			if n.PrefixLast {
				sum += beyond(n.Expansions)
			}
		case algebra.Combined:
			sum += len(n.Fields)
		case algebra.Fuzzy:
			sum += 6 + beyond(n.Expansions)
			if n.Rewrite == algebra.RewriteConstant { // however many words there are
				sum += 10
			}
		case algebra.Pattern:
			sum += beyond(n.Expansions)
			switch {
			case n.Kind == algebra.Prefix:
				sum += 4
			case n.Kind == algebra.Whole:
				sum++
			case n.Kind == algebra.Wildcard && !strings.HasPrefix(n.Text, "*") && len(n.Text) < 40:
				sum += 8
			default:
				sum += 30 + len(n.Text)/10
			}
		case algebra.Nested:
			sum += 4
		case algebra.Function:
			sum += 2 + len(n.Functions)
		default:
			sum++
		}
	})
	return sum
}
