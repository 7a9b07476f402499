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

// clocks is by how many seconds the clock of a store and that of the test may drift apart
// while a test runs.
const clocks = 0.1

// Run runs the suite.
func Run(t *testing.T, open Replicas) {
	t.Run("a minute's requests may come at once", func(t *testing.T) {
		l := open(t, 1)[0]
		began := time.Now()
		// about compares with what it was when the first request came.
		about := func(seconds float64, d time.Duration) {
			t.Helper()
			passed := time.Since(began).Seconds()
			require.LessOrEqual(t, d.Seconds(), seconds+clocks)
			require.GreaterOrEqual(t, d.Seconds(), seconds-passed-clocks)
		}
		for i := range int64(5) {
			d, err := l.Take(t.Context(), "k", 5)
			require.NoError(t, err)
			require.True(t, d.Allowed)
			require.Equal(t, int64(5), d.Limit)
			require.Equal(t, 4-i, d.Remaining)
			require.Zero(t, d.RetryAfter)
			about(float64(12*(i+1)), d.ResetAfter)
		}
		d, err := l.Take(t.Context(), "k", 5)
		require.NoError(t, err)
		require.False(t, d.Allowed)
		require.Zero(t, d.Remaining)
		about(12, d.RetryAfter)
		about(60, d.ResetAfter)

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
		began := time.Now()
		for d.Allowed = true; d.Allowed; {
			require.Less(t, time.Since(began), time.Minute, "no request is refused")
			var err error
			d, err = l.Take(t.Context(), "k", perMinute)
			require.NoError(t, err)
		}
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
	t.Run("no minute has more than so many, on 3 replicas", func(t *testing.T) {
		replicas := open(t, 3)
		const most, callers = 10, 32
		began := time.Now()
		var allowed atomic.Int64
		var wg sync.WaitGroup
		for caller := range callers {
			wg.Go(func() {
				d, err := replicas[caller%len(replicas)].TakeInMinute(t.Context(), "k", most)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					allowed.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, most, allowed.Load())
		d, err := replicas[0].TakeInMinute(t.Context(), "k", most)
		require.NoError(t, err)
		require.False(t, d.Allowed)
		require.Equal(t, int64(most), d.Limit)
		require.Zero(t, d.Remaining)
		require.LessOrEqual(t, d.RetryAfter.Seconds(), 60+clocks)
		require.GreaterOrEqual(t, d.RetryAfter.Seconds(), 60-time.Since(began).Seconds()-clocks)
		require.GreaterOrEqual(t, d.ResetAfter, d.RetryAfter)

		d, err = replicas[1].TakeInMinute(t.Context(), "other", most)
		require.NoError(t, err)
		require.True(t, d.Allowed, "keys are apart")
		require.Equal(t, int64(most-1), d.Remaining)
		require.Zero(t, d.RetryAfter)
		d, err = replicas[2].Take(t.Context(), "k", most)
		require.NoError(t, err)
		require.True(t, d.Allowed, "rates are apart")
	})
	t.Run("bounds", func(t *testing.T) {
		l := open(t, 1)[0]
		for _, bad := range []int64{0, -1, int64(time.Minute) + 1} {
			_, err := l.Take(t.Context(), "k", bad)
			require.Error(t, err)
			_, err = l.TakeInMinute(t.Context(), "k", bad)
			require.Error(t, err)
		}
		for _, good := range []int64{1, 60_000_000} {
			d, err := l.Take(t.Context(), "k", good)
			require.NoError(t, err)
			require.True(t, d.Allowed)
		}
	})
}
