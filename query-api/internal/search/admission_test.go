package search

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/query-api/adversarialtest"
	"muster/query-api/internal/search/clause"
	"muster/query-api/internal/search/planner"
	"muster/schemas/readmodel"
)

// isOnlySearch reports whether no other search has a slot.
func (t *slot) isOnlySearch() bool {
	return len(t.admission.cheap)+len(t.admission.wide)+len(t.admission.expensive) == 1
}

func TestEstimateCost_UsualQueriesAreCheap(t *testing.T) {
	for _, query := range []string{
		`{"match_all":{}}`,
		`{"multi_match":{"query":"data engineer"}}`,
		`{"query_string":{"query":"(engineer OR developer) AND NOT manager","default_field":"profile.headline"}}`,
		`{"match_phrase":{"profile.headline":{"query":"senior software engineer at","slop":3}}}`,
		`{"nested":{"path":"experience","query":{"bool":{"must":[{"match":{"experience.title":"engineer"}},` +
			`{"wildcard":{"experience.company_name":"*labs*"}}]}}}}`,
	} {
		n, err := clause.Lower([]byte(query), "query", clause.Options{})
		require.NoError(t, err)
		require.LessOrEqual(t, estimateCost(n, planner.NewStats()), expensiveCost, query)
	}
	for _, query := range []string{
		`{"match_phrase_prefix":{"profile.headline":{"query":"d","max_expansions":1024}}}`,
		`{"fuzzy":{"profile.headline":{"value":"data","max_expansions":1024}}}`,
	} {
		n, err := clause.Lower([]byte(query), "query", clause.Options{})
		require.NoError(t, err)
		require.Greater(t, estimateCost(n, planner.NewStats()), wideCost, query)
	}
	expensive := 0
	for _, query := range adversarialtest.Queries() {
		n, err := clause.Lower([]byte(query), "query", clause.Options{})
		if err == nil && estimateCost(n, planner.NewStats()) > expensiveCost {
			expensive++
		}
	}
	require.Greater(t, expensive, 15)

	n, err := clause.Lower([]byte(`{"multi_match":{"query":"one two three four five"}}`), "query", clause.Options{})
	require.NoError(t, err)
	stats := planner.NewStats()
	require.Greater(t, estimateCost(n, stats), expensiveCost)
	for _, w := range []string{"one", "two", "three", "four", "five"} {
		for _, f := range readmodel.SearchFields() {
			if f.Path != "profile.headline" {
				stats.Absent[planner.TermKey(f.Path, w)] = true
			}
			stats.Absent[planner.TermKey(f.Path+".keyword", w)] = true
		}
	}
	require.LessOrEqual(t, estimateCost(n, stats), wideCost, "absent words cost nothing")
}

// Wide and expensive queries wait for their own class, and expensive ones pause. One that turns out to cost less moves
// to the wide class.
func TestAdmission_ClassesWaitOnlyForTheirOwn(t *testing.T) {
	a := newAdmission(4, 1)
	costOf := func(query string) int {
		n, err := clause.Lower([]byte(query), "query", clause.Options{})
		require.NoError(t, err)
		return estimateCost(n, planner.NewStats())
	}
	cheap := costOf(`{"regexp":{"profile.summary":".*.*.*a.*"}}`)
	wide := costOf(`{"dis_max":{"queries":[` + wildcards(2) + `]}}`)
	expensive := costOf(`{"dis_max":{"queries":[` + wildcards(6) + `]}}`)
	acquire := func(cost int) *slot {
		slot, err := a.acquire(t.Context(), cost)
		require.NoError(t, err)
		return slot
	}
	requireFull := func(cost int) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := a.acquire(ctx, cost)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	costly := acquire(expensive)
	require.True(t, costly.isOnlySearch())
	require.False(t, costly.mayUseAllThreads(), "others may come")
	requireFull(expensive)
	one := acquire(cheap)
	require.True(t, one.mayUseAllThreads(), "the expensive one pauses")
	require.False(t, one.isOnlySearch())
	require.False(t, costly.isOnlySearch())
	require.Greater(t, costly.priority, one.priority)
	broad := acquire(wide)
	require.Greater(t, broad.priority, one.priority)
	require.Greater(t, costly.priority, broad.priority)
	require.False(t, one.mayUseAllThreads(), "a wide one runs")
	require.False(t, broad.mayUseAllThreads(), "a cheap one runs")
	requireFull(wide)
	one.release()
	require.True(t, broad.mayUseAllThreads(), "the expensive one pauses")

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, costly.downgrade(ctx, cheap), context.DeadlineExceeded, "a wide one runs")
	broad.release()
	require.NoError(t, costly.downgrade(t.Context(), expensive))
	require.Equal(t, expensivePriority, costly.priority, "the cost is unchanged")
	require.NoError(t, costly.downgrade(t.Context(), cheap))
	require.Equal(t, cheapPriority, costly.priority)
	require.True(t, costly.mayUseAllThreads())
	requireFull(wide)
	acquire(expensive).release() // its class has a free slot
	one, other := acquire(cheap), acquire(cheap)
	require.NoError(t, one.downgrade(t.Context(), 0), "nothing costs less")
	require.False(t, one.mayUseAllThreads(), "two")
	require.False(t, other.mayUseAllThreads(), "two")
	for _, slot := range []*slot{one, other, costly} {
		slot.release()
	}
	require.True(t, acquire(wide).isOnlySearch())

	none := slotFrom(t.Context())
	require.Equal(t, cheapPriority, none.priority)
	require.False(t, none.mayUseAllThreads())
	require.False(t, none.isOnlySearch())
	require.Same(t, one, slotFrom(one.newContext(t.Context())))
}

func wildcards(n int) string {
	list := `{"wildcard":{"profile.summary":"*a*"}}`
	for range n - 1 {
		list += `,{"wildcard":{"profile.summary":"*a*"}}`
	}
	return list
}

func TestAdmission_BackgroundWaitsForAllQueries(t *testing.T) {
	a := newAdmission(4, 1)
	require.NoError(t, a.waitIdle(t.Context()))
	slot, err := a.acquire(t.Context(), 1)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, a.waitIdle(ctx), context.DeadlineExceeded)
	idle := make(chan error, 1)
	go func() { idle <- a.waitIdle(t.Context()) }()
	slot.release()
	require.NoError(t, <-idle)
}

// Half of the processors compute for expensive searches, which give them up while they wait for the store.
func TestAdmission_ExpensiveSearchesLeaveProcessors(t *testing.T) {
	a := newAdmission(64, 1)
	a.processors = make(chan struct{}, 1)
	s := &Searcher{admission: a, cfg: Config{Deadline: 20 * time.Millisecond}}
	computing := func() bool { return len(a.processors) == 1 }
	for _, cost := range []int{1, wideCost + 1} {
		slot, err := a.acquire(t.Context(), cost)
		require.NoError(t, err)
		require.False(t, computing())
		require.False(t, slot.pause())
		slot.release()
	}
	costly, err := a.acquire(t.Context(), expensiveCost+1)
	require.NoError(t, err)
	require.True(t, computing())
	_, err = s.Compute(t.Context())
	require.ErrorAs(t, err, new(*OverloadedError))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Compute(ended)
	require.ErrorIs(t, err, context.Canceled)

	require.True(t, costly.pause())
	require.False(t, costly.pause())
	release, err := s.Compute(t.Context())
	require.NoError(t, err)
	costly.compute(ended)
	require.False(t, costly.pause(), "its search ends, too")
	release()
	costly.compute(t.Context())
	require.True(t, computing())
	require.NoError(t, costly.downgrade(t.Context(), 1))
	require.False(t, computing())
	costly.compute(t.Context())
	require.False(t, computing(), "it is not expensive")
	costly.release()
}
