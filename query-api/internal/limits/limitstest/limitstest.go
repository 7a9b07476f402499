// Package limitstest is the conformance suite of limits.Limiter.
package limitstest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/limits"
)

// Replicas opens several limiters that share their state; those in memory are
// one and the same.
type Replicas func(t *testing.T, n int) []limits.Limiter

// Run runs the suite.
func Run(t *testing.T, open Replicas) {
	t.Run("a minute's requests may come at once", func(t *testing.T) {
		l := open(t, 1)[0]
		for i := range int64(5) {
			d, err := l.Take(t.Context(), "k", 5)
			require.NoError(t, err)
			require.True(t, d.Allowed)
			require.Equal(t, int64(5), d.Limit)
			require.Equal(t, 4-i, d.Remaining)
			require.Zero(t, d.RetryAfter)
			require.InDelta(t, float64(12*(i+1)), d.ResetAfter.Seconds(), 2)
		}
		d, err := l.Take(t.Context(), "k", 5)
		require.NoError(t, err)
		require.False(t, d.Allowed)
		require.Zero(t, d.Remaining)
		require.InDelta(t, 12, d.RetryAfter.Seconds(), 2)
		require.InDelta(t, 60, d.ResetAfter.Seconds(), 2)

		d, err = l.Take(t.Context(), "other", 5)
		require.NoError(t, err)
		require.True(t, d.Allowed, "keys are apart")
		d, err = l.Take(t.Context(), "k", 50)
		require.NoError(t, err)
		require.True(t, d.Allowed, "another plan begins afresh")
	})
	t.Run("a refused request is allowed after RetryAfter", func(t *testing.T) {
		l := open(t, 1)[0]
		const perMinute = 1200 // one each 50 ms
		var d limits.Decision
		require.Eventually(t, func() bool {
			var err error
			d, err = l.Take(t.Context(), "k", perMinute)
			require.NoError(t, err)
			return !d.Allowed
		}, 20*time.Second, time.Nanosecond)
		require.Positive(t, d.RetryAfter)
		require.LessOrEqual(t, d.RetryAfter, 51*time.Millisecond)
		<-time.After(d.RetryAfter + 5*time.Millisecond)
		d, err := l.Take(t.Context(), "k", perMinute)
		require.NoError(t, err)
		require.True(t, d.Allowed)
	})
	t.Run("many callers on 3 replicas", func(t *testing.T) {
		replicas := open(t, 3)
		const perMinute, callers, each = 100, 64, 10
		var allowed atomic.Int64
		var wg sync.WaitGroup
		began := time.Now()
		for caller := range callers {
			wg.Go(func() {
				for range each {
					d, err := replicas[caller%len(replicas)].Take(t.Context(), "k", perMinute)
					if err != nil {
						t.Error(err)
						return
					}
					if d.Allowed {
						allowed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		most := perMinute + int64(time.Since(began)*perMinute/time.Minute) + 1
		require.GreaterOrEqual(t, allowed.Load(), int64(perMinute))
		require.LessOrEqual(t, allowed.Load(), most)
	})
	t.Run("bounds", func(t *testing.T) {
		l := open(t, 1)[0]
		for _, bad := range []int64{0, -1, int64(time.Minute) + 1} {
			_, err := l.Take(t.Context(), "k", bad)
			require.Error(t, err)
		}
		for _, good := range []int64{1, 60_000_000} {
			d, err := l.Take(t.Context(), "k", good)
			require.NoError(t, err)
			require.True(t, d.Allowed)
		}
	})
}
