package search

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/clause"
	"muster/query-api/internal/search/planner"
	"muster/query-api/searchbombs"
	"muster/schemas/readmodel"
)

// What people ask is cheap, and of the bombs the wide ones are expensive.
func TestWeight(t *testing.T) {
	for _, query := range []string{
		`{"match_all":{}}`,
		`{"multi_match":{"query":"data engineer"}}`,
		`{"query_string":{"query":"(engineer OR developer) AND NOT manager","default_field":"profile.headline"}}`,
		`{"match_phrase":{"profile.headline":{"query":"senior software engineer at","slop":3}}}`,
		`{"nested":{"path":"experience","query":{"bool":{"must":[{"match":{"experience.title":"engineer"}},{"wildcard":{"experience.company_name":"*labs*"}}]}}}}`,
	} {
		n, err := clause.Lower([]byte(query), "query", clause.Options{})
		require.NoError(t, err)
		require.LessOrEqual(t, weight(n, planner.NewStats()), expensiveWeight, query)
	}
	for _, query := range []string{
		`{"match_phrase_prefix":{"profile.headline":{"query":"d","max_expansions":1024}}}`,
		`{"fuzzy":{"profile.headline":{"value":"data","max_expansions":1024}}}`,
	} {
		n, err := clause.Lower([]byte(query), "query", clause.Options{})
		require.NoError(t, err)
		require.Greater(t, weight(n, planner.NewStats()), usualWeight, query)
	}
	expensive := 0
	for _, query := range searchbombs.Queries() {
		if n, err := clause.Lower([]byte(query), "query", clause.Options{}); err == nil && weight(n, planner.NewStats()) > expensiveWeight {
			expensive++
		}
	}
	require.Greater(t, expensive, 15)

	n, err := clause.Lower([]byte(`{"multi_match":{"query":"one two three four five"}}`), "query", clause.Options{})
	require.NoError(t, err)
	stats := planner.NewStats()
	require.Greater(t, weight(n, stats), expensiveWeight)
	for _, w := range []string{"one", "two", "three", "four", "five"} {
		for _, f := range readmodel.SearchFields() {
			if f.Path != "profile.headline" {
				stats.Absent[planner.TermKey(f.Path, w)] = true
			}
			stats.Absent[planner.TermKey(f.Path+".keyword", w)] = true
		}
	}
	require.LessOrEqual(t, weight(n, stats), usualWeight, "absent words weigh nothing")
}

// An expensive query waits for another and pauses for cheap ones, which do not wait. One that turns out to be cheap goes over to them.
func TestLanes(t *testing.T) {
	l := newLanes(4)
	weigh := func(query string) int {
		n, err := clause.Lower([]byte(query), "query", clause.Options{})
		require.NoError(t, err)
		return weight(n, planner.NewStats())
	}
	cheap, wide := weigh(`{"regexp":{"profile.summary":".*.*.*a.*"}}`), weigh(`{"dis_max":{"queries":[`+wildcards(6)+`]}}`)
	expensive, expensiveTurn, err := l.enter(t.Context(), wide)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, _, err = l.enter(ctx, wide)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.False(t, l.alone(expensive))
	one, oneTurn, err := l.enter(t.Context(), cheap)
	require.NoError(t, err)
	require.True(t, l.alone(one), "the expensive one pauses")
	require.False(t, l.alone(expensive), "beside a cheap one")
	require.Greater(t, priority(expensive), priority(one))
	lightened, err := expensiveTurn.lighten(expensive, wide)
	require.NoError(t, err)
	require.Equal(t, expensivePriority, priority(lightened), "as wide as before")
	lightened, err = expensiveTurn.lighten(expensive, cheap)
	require.NoError(t, err)
	require.Equal(t, cheapPriority, priority(lightened))
	require.False(t, l.alone(one), "two")
	_, nextTurn, err := l.enter(t.Context(), wide)
	require.NoError(t, err, "its lane is free")
	nextTurn.leave()
	expensiveTurn.leave()
	require.True(t, l.alone(one))
	other, otherTurn, err := l.enter(t.Context(), cheap)
	require.NoError(t, err)
	require.False(t, l.alone(one), "two")
	require.False(t, l.alone(other), "two")
	otherTurn.leave()
	oneTurn.leave()

	full := newLanes(1)
	wideTurn, cheapTurn := enter(t, full, wide), enter(t, full, cheap)
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = wideTurn.lighten(context.WithValue(ctx, priorityKey{}, expensivePriority), cheap)
	require.ErrorIs(t, err, context.DeadlineExceeded, "no place there")
	wideTurn.leave()
	cheapTurn.leave()
	enter(t, full, wide).leave()
	enter(t, full, cheap).leave()
}

func enter(t *testing.T, l lanes, weight int) *turn {
	t.Helper()
	_, turn, err := l.enter(t.Context(), weight)
	require.NoError(t, err)
	return turn
}

func wildcards(n int) string {
	list := `{"wildcard":{"profile.summary":"*a*"}}`
	for range n - 1 {
		list += `,{"wildcard":{"profile.summary":"*a*"}}`
	}
	return list
}
