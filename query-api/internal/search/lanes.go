package search

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
)

// lanes let so many searches run at once. Wide ones, which take all threads that a search may have, and expensive ones
// have lanes of their own, so that they wait for their like and the rest does not wait for them; expensive ones pause while
// others run. Many at once would each take longer than a search may, and nobody would be answered.
type lanes struct {
	cheap, wide, expensive chan struct{}
}

// newLanes makes lanes for so many searches at once, of which so many are wide.
func newLanes(concurrent, wide int) lanes {
	return lanes{cheap: make(chan struct{}, concurrent), wide: make(chan struct{}, wide), expensive: make(chan struct{}, max(1, concurrent/4))}
}

// turn is the place of a search in a lane.
type turn struct {
	lanes    lanes
	lane     chan struct{}
	priority int
}

// of is the lane of what weighs so much, and the priority of its statements.
func (l lanes) of(weight int) (lane chan struct{}, priority int) {
	switch {
	case weight > expensiveWeight:
		return l.expensive, expensivePriority
	case weight > usualWeight:
		return l.wide, unusualPriority
	}
	return l.cheap, cheapPriority
}

// enter waits for its turn until ctx ends, which is errWaited.
func (l lanes) enter(ctx context.Context, weight int) (*turn, error) {
	t := &turn{lanes: l}
	t.lane, t.priority = l.of(weight)
	select {
	case t.lane <- struct{}{}:
		return t, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errWaited, ctx.Err())
	}
}

// lighten goes over to the lane of wide searches when an expensive one turned out to weigh less than it seemed to.
func (t *turn) lighten(ctx context.Context, weight int) error {
	lane, priority := t.lanes.of(weight)
	if lane != t.lane && t.lane == t.lanes.expensive {
		select {
		case t.lanes.wide <- struct{}{}:
			t.leave()
			t.lane = t.lanes.wide
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errWaited, ctx.Err())
		}
	}
	t.priority = min(t.priority, priority)
	return nil
}

// errWaited says that a search waited for others until its end.
var errWaited = errors.New("waited for other searches")

func (t *turn) leave() { <-t.lane }

// alone says that the search may take as many threads as one may: no cheap one runs beside it, nor a wide one beside a cheap
// one. Expensive ones pause meanwhile, and never count as alone, as others may come while they run.
func (t *turn) alone() bool {
	switch t.lane {
	case t.lanes.cheap:
		return len(t.lanes.cheap) == 1 && len(t.lanes.wide) == 0
	case t.lanes.wide:
		return len(t.lanes.cheap) == 0
	}
	return false
}

// rest waits until no search runs, or ctx ends.
func (l lanes) rest(ctx context.Context) error {
	const look = 20 * time.Millisecond
	for len(l.cheap)+len(l.wide)+len(l.expensive) > 0 {
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

type turnKey struct{}

// within is the context of the statements of the search.
func (t *turn) within(ctx context.Context) context.Context {
	return context.WithValue(ctx, turnKey{}, t)
}

// turnOf is that of the search of ctx; where there is none it is a cheap one, never alone.
func turnOf(ctx context.Context) *turn {
	if t, ok := ctx.Value(turnKey{}).(*turn); ok {
		return t
	}
	return &turn{priority: cheapPriority}
}

// The priorities of statements: the engine pauses one of a greater number, for up to a
// second each time that it has read something, while any of a smaller one runs.
const (
	cheapPriority = 1 + iota
	unusualPriority
	expensivePriority
)

// usualWeight is that of nearly all that people ask: what weighs more is wide, and waits for them in
// the engine, too.
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
