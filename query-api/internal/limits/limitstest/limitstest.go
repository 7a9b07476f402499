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

// Replicas returns n limiters that share their state; in memory it is one limiter.
type Replicas func(t *testing.T, n int) []limits.Limiter

// clocks is the maximum drift between the clocks of the store and of the test during a test, in seconds.
const clocks = 0.1

// Run runs the suite.
func Run(t *testing.T, open Replicas) {
	t.Run("a minute's requests may come in one burst", func(t *testing.T) {
		l := open(t, 1)[0]
		began := time.Now()
		// about compares with the state at the first request, within the clock drift.
		about := func(seconds float64, d time.Duration) {
			t.Helper()
			passed := time.Since(began).Seconds()
			require.LessOrEqual(t, d.Seconds(), seconds+clocks)
			require.GreaterOrEqual(t, d.Seconds(), seconds-passed-clocks)
		}
		for i := range int64(5) {
			d, err := l.Allow(t.Context(), "k", 5)
			require.NoError(t, err)
			require.True(t, d.Allowed)
			require.Equal(t, int64(5), d.Limit)
			require.Equal(t, 4-i, d.Remaining)
			require.Zero(t, d.RetryAfter)
			about(float64(12*(i+1)), d.ResetAfter)
		}
		d, err := l.Allow(t.Context(), "k", 5)
		require.NoError(t, err)
		require.False(t, d.Allowed)
		require.Zero(t, d.Remaining)
		about(12, d.RetryAfter)
		about(60, d.ResetAfter)

		d, err = l.Allow(t.Context(), "other", 5)
		require.NoError(t, err)
		require.True(t, d.Allowed, "keys are independent")
		d, err = l.Allow(t.Context(), "k", 50)
		require.NoError(t, err)
		require.True(t, d.Allowed, "another plan resets the limit")
	})
	t.Run("a rejected request is allowed after RetryAfter", func(t *testing.T) {
		l := open(t, 1)[0]
		const perMinute = 1200 // one every 50 ms
		var d limits.Decision
		began := time.Now()
		for d.Allowed = true; d.Allowed; {
			require.Less(t, time.Since(began), time.Minute, "all requests are allowed")
			var err error
			d, err = l.Allow(t.Context(), "k", perMinute)
			require.NoError(t, err)
		}
		require.Positive(t, d.RetryAfter)
		require.LessOrEqual(t, d.RetryAfter, 51*time.Millisecond)
		<-time.After(d.RetryAfter + 5*time.Millisecond)
		d, err := l.Allow(t.Context(), "k", perMinute)
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
					d, err := replicas[caller%len(replicas)].Allow(t.Context(), "k", perMinute)
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
	t.Run("no window exceeds the limit, on 3 replicas", func(t *testing.T) {
		replicas := open(t, 3)
		const most, callers = 10, 32
		began := time.Now()
		var allowed atomic.Int64
		var wg sync.WaitGroup
		for caller := range callers {
			wg.Go(func() {
				d, err := replicas[caller%len(replicas)].AllowInWindow(t.Context(), "k", most)
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
		d, err := replicas[0].AllowInWindow(t.Context(), "k", most)
		require.NoError(t, err)
		require.False(t, d.Allowed)
		require.Equal(t, int64(most), d.Limit)
		require.Zero(t, d.Remaining)
		require.LessOrEqual(t, d.RetryAfter.Seconds(), 60+clocks)
		require.GreaterOrEqual(t, d.RetryAfter.Seconds(), 60-time.Since(began).Seconds()-clocks)
		require.GreaterOrEqual(t, d.ResetAfter, d.RetryAfter)

		d, err = replicas[1].AllowInWindow(t.Context(), "other", most)
		require.NoError(t, err)
		require.True(t, d.Allowed, "keys are independent")
		require.Equal(t, int64(most-1), d.Remaining)
		require.Zero(t, d.RetryAfter)
		d, err = replicas[2].Allow(t.Context(), "k", most)
		require.NoError(t, err)
		require.True(t, d.Allowed, "rates are independent")
	})
	t.Run("bounds", func(t *testing.T) {
		l := open(t, 1)[0]
		for _, bad := range []int64{0, -1, int64(time.Minute) + 1} {
			_, err := l.Allow(t.Context(), "k", bad)
			require.Error(t, err)
			_, err = l.AllowInWindow(t.Context(), "k", bad)
			require.Error(t, err)
		}
		for _, good := range []int64{1, 60_000_000} {
			d, err := l.Allow(t.Context(), "k", good)
			require.NoError(t, err)
			require.True(t, d.Allowed)
		}
	})
}
