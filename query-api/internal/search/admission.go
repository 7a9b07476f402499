package search

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"muster/query-api/internal/search/aggregation"
	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
)

// admission limits the number of concurrent searches. Wide ones, which use all threads of a search, and expensive ones
// have separate slots: they wait for each other, and cheap ones do not wait for them. Expensive ones pause while others
// run. Without the limits, many concurrent searches would all exceed their deadlines.
type admission struct {
	cheap, wide, expensive chan struct{}
	// processors has an entry for each processor that computes for expensive searches: at most half of them, so that
	// cheap searches do not wait for the scheduler.
	processors chan struct{}
}

// newAdmission returns limits for the given numbers of concurrent searches.
func newAdmission(concurrent, wide int) admission {
	return admission{
		cheap: make(chan struct{}, concurrent), wide: make(chan struct{}, wide),
		expensive:  make(chan struct{}, max(1, concurrent/4)),
		processors: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
	}
}

// Compute waits for a processor on which a request with a large body is parsed. release must be called before the
// search runs. It returns an [*OverloadedError] if there is none before the deadline of a search.
func (s *Searcher) Compute(ctx context.Context) (release func(), err error) {
	bounded, cancel := context.WithTimeout(ctx, s.cfg.Deadline)
	defer cancel()
	select {
	case s.admission.processors <- struct{}{}:
		return func() { <-s.admission.processors }, nil
	case <-bounded.Done():
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, errOverloaded(s.cfg.Deadline)
	}
}

// slot is the permission of a search to run.
type slot struct {
	admission admission
	class     chan struct{} // holds one entry for each search of the class
	priority  int
	computes  bool // has a processor
}

// classFor returns the class of searches of a cost, and the priority of their statements.
func (a admission) classFor(cost int) (class chan struct{}, priority int) {
	switch {
	case cost > expensiveCost:
		return a.expensive, expensivePriority
	case cost > wideCost:
		return a.wide, widePriority
	}
	return a.cheap, cheapPriority
}

// acquire waits for a slot. It returns errQueueTimeout if ctx ends first.
func (a admission) acquire(ctx context.Context, cost int) (*slot, error) {
	t := &slot{admission: a}
	t.class, t.priority = a.classFor(cost)
	select {
	case t.class <- struct{}{}:
		t.compute(ctx)
		return t, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errQueueTimeout, ctx.Err())
	}
}

// compute waits for a processor if the search is expensive, or until ctx ends, which ends the search, too.
func (t *slot) compute(ctx context.Context) {
	if t.class != t.admission.expensive {
		return
	}
	select {
	case t.admission.processors <- struct{}{}:
		t.computes = true
	case <-ctx.Done():
	}
}

// pause gives the processor up while the search waits for the store. It reports whether there was one.
func (t *slot) pause() bool {
	had := t.computes
	if t.computes {
		t.computes = false
		<-t.admission.processors
	}
	return had
}

// downgrade moves an expensive search whose actual cost is lower to the class of wide ones, and lowers the priority
// number of its statements. It waits for a slot and returns errQueueTimeout if ctx ends first.
func (t *slot) downgrade(ctx context.Context, cost int) error {
	class, priority := t.admission.classFor(cost)
	if class != t.class && t.class == t.admission.expensive {
		select {
		case t.admission.wide <- struct{}{}:
			t.release()
			t.class = t.admission.wide // which computes without waiting
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errQueueTimeout, ctx.Err())
		}
	}
	t.priority = min(t.priority, priority)
	return nil
}

// errQueueTimeout is the error of a search that got no slot before its deadline.
var errQueueTimeout = errors.New("timed out waiting for other searches")

func (t *slot) release() {
	t.pause()
	<-t.class
}

// mayUseAllThreads reports whether a statement may use all threads of a search: no other cheap search runs, nor a wide
// one next to a cheap one. It is always false for expensive searches, since others may start while they run.
func (t *slot) mayUseAllThreads() bool {
	switch t.class {
	case t.admission.cheap:
		return len(t.admission.cheap) == 1 && len(t.admission.wide) == 0
	case t.admission.wide:
		return len(t.admission.cheap) == 0
	}
	return false
}

// waitIdle waits until no search runs, or ctx ends.
func (a admission) waitIdle(ctx context.Context) error {
	const pollInterval = 20 * time.Millisecond
	for len(a.cheap)+len(a.wide)+len(a.expensive) > 0 {
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

type slotKey struct{}

// newContext returns a context whose statements run in the slot. It is a context value because package postings hands
// statements back to the Searcher with a context only.
func (t *slot) newContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, slotKey{}, t)
}

// slotFrom returns the slot of ctx, or a cheap one that never uses all threads.
func slotFrom(ctx context.Context) *slot {
	if t, ok := ctx.Value(slotKey{}).(*slot); ok {
		return t
	}
	return &slot{priority: cheapPriority}
}

// The priorities of statements. After each block that it reads, the engine pauses a statement for up to a second while
// a statement with a smaller number runs.
const (
	cheapPriority = 1 + iota
	widePriority
	expensivePriority
)

const (
	// wideCost is the cost above which a search is wide. Nearly all queries cost less.
	wideCost = 50
	// expensiveCost is the cost above which a search is expensive. Two words over all fields cost less.
	expensiveCost = 150
)

// expansionCost returns the cost of a term for the terms that it may expand to. It is 0 up to the default of 50.
func expansionCost(expansions int) int { return max(0, expansions-50) / 8 }

// cost estimates the cost of a search in terms. Aggregations are wide: they read the values of all people who match.
func (s *Search) cost() int {
	sum := estimateCost(s.node, s.cursor.Stats)
	if len(s.aggregations) > 0 {
		sum += wideCost + len(s.aggregations)
	}
	for _, n := range aggregation.Nodes(s.aggregations) {
		sum += estimateCost(n, s.cursor.Stats)
	}
	return sum
}

// estimateCost estimates the cost of a query in terms. Clauses whose terms are all known to be absent cost nothing,
// since they are not executed.
func estimateCost(n algebra.Node, stats *planner.Stats) int {
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
				sum += expansionCost(n.Expansions)
			}
		case algebra.Combined:
			sum += len(n.Fields)
		case algebra.Fuzzy:
			sum += 6 + expansionCost(n.Expansions)
			if n.Rewrite == algebra.RewriteConstant { // the number of terms has no limit
				sum += 10
			}
		case algebra.Pattern:
			sum += expansionCost(n.Expansions)
			switch {
			case n.Regexp != nil: // terms are matched here, one by one
				sum += expensiveCost
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
