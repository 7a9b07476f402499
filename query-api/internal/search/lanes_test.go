package search

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/clause"
	"muster/query-api/searchbombs"
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
		require.LessOrEqual(t, weight(n), expensiveWeight, query)
	}
	for _, query := range []string{
		`{"match_phrase_prefix":{"profile.headline":{"query":"d","max_expansions":1024}}}`,
		`{"fuzzy":{"profile.headline":{"value":"data","max_expansions":1024}}}`,
	} {
		n, err := clause.Lower([]byte(query), "query", clause.Options{})
		require.NoError(t, err)
		require.Greater(t, weight(n), usualWeight, query)
	}
	expensive := 0
	for _, query := range searchbombs.Queries() {
		if n, err := clause.Lower([]byte(query), "query", clause.Options{}); err == nil && weight(n) > expensiveWeight {
			expensive++
		}
	}
	require.Greater(t, expensive, 15)
}

// An expensive query waits for another and pauses for cheap ones, which do not wait.
func TestLanes(t *testing.T) {
	l := newLanes(4)
	cheap, err := clause.Lower([]byte(`{"regexp":{"profile.summary":".*.*.*a.*"}}`), "query", clause.Options{})
	require.NoError(t, err)
	wide, err := clause.Lower([]byte(`{"dis_max":{"queries":[`+wildcards(6)+`]}}`), "query", clause.Options{})
	require.NoError(t, err)
	expensive, leave, err := l.enter(t.Context(), wide)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, _, err = l.enter(ctx, wide)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.False(t, l.alone(expensive))
	one, leaveOne, err := l.enter(t.Context(), cheap)
	require.NoError(t, err)
	require.True(t, l.alone(one), "the expensive one pauses")
	require.False(t, l.alone(expensive), "beside a cheap one")
	require.Greater(t, priority(expensive), priority(one))
	leave()
	require.True(t, l.alone(one))
	other, leaveOther, err := l.enter(t.Context(), cheap)
	require.NoError(t, err)
	require.False(t, l.alone(one), "two")
	require.False(t, l.alone(other), "two")
	leaveOther()
	leaveOne()
	_, leave, err = l.enter(t.Context(), wide)
	require.NoError(t, err)
	leave()
}

func wildcards(n int) string {
	list := `{"wildcard":{"profile.summary":"*a*"}}`
	for range n - 1 {
		list += `,{"wildcard":{"profile.summary":"*a*"}}`
	}
	return list
}
