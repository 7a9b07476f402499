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

// Wide and expensive queries wait for their like and not for each other, nobody waits for them, and expensive ones pause. One that turns out to be lighter goes over to
// the wide ones.
func TestLanes(t *testing.T) {
	l := newLanes(4, 1)
	weigh := func(query string) int {
		n, err := clause.Lower([]byte(query), "query", clause.Options{})
		require.NoError(t, err)
		return weight(n, planner.NewStats())
	}
	cheap, wide, expensive := weigh(`{"regexp":{"profile.summary":".*.*.*a.*"}}`), weigh(`{"dis_max":{"queries":[`+wildcards(2)+`]}}`), weigh(`{"dis_max":{"queries":[`+wildcards(6)+`]}}`)
	enter := func(weight int) *turn {
		turn, err := l.enter(t.Context(), weight)
		require.NoError(t, err)
		return turn
	}
	full := func(weight int) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := l.enter(ctx, weight)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	dear := enter(expensive)
	require.False(t, dear.alone(), "others may come")
	full(expensive)
	one := enter(cheap)
	require.True(t, one.alone(), "the expensive one pauses")
	require.Greater(t, dear.priority, one.priority)
	broad := enter(wide)
	require.Greater(t, broad.priority, one.priority)
	require.Greater(t, dear.priority, broad.priority)
	require.False(t, one.alone(), "beside a wide one")
	require.False(t, broad.alone(), "beside a cheap one")
	full(wide)
	one.leave()
	require.True(t, broad.alone(), "the expensive one pauses")

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, dear.lighten(ctx, cheap), context.DeadlineExceeded, "a wide one runs")
	broad.leave()
	require.NoError(t, dear.lighten(t.Context(), expensive))
	require.Equal(t, expensivePriority, dear.priority, "as dear as before")
	require.NoError(t, dear.lighten(t.Context(), cheap))
	require.Equal(t, cheapPriority, dear.priority)
	require.True(t, dear.alone())
	full(wide)
	enter(expensive).leave() // its lane is free
	one, other := enter(cheap), enter(cheap)
	require.NoError(t, one.lighten(t.Context(), 0), "nothing is lighter")
	require.False(t, one.alone(), "two")
	require.False(t, other.alone(), "two")
	for _, turn := range []*turn{one, other, dear} {
		turn.leave()
	}

	none := turnOf(t.Context())
	require.Equal(t, cheapPriority, none.priority)
	require.False(t, none.alone())
	require.Same(t, one, turnOf(one.within(t.Context())))
}

func wildcards(n int) string {
	list := `{"wildcard":{"profile.summary":"*a*"}}`
	for range n - 1 {
		list += `,{"wildcard":{"profile.summary":"*a*"}}`
	}
	return list
}

// What nobody waits for waits for all who do.
func TestRest(t *testing.T) {
	l := newLanes(4, 1)
	require.NoError(t, l.rest(t.Context()))
	turn, err := l.enter(t.Context(), 1)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, l.rest(ctx), context.DeadlineExceeded)
	rested := make(chan error, 1)
	go func() { rested <- l.rest(t.Context()) }()
	turn.leave()
	require.NoError(t, <-rested)
}
