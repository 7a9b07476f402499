package provider_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muster/discovery-worker/internal/background"
	"muster/discovery-worker/internal/provider"
	"muster/platform/breaker"
)

func TestGuarded_BreakerOpensHalfOpensAndCloses(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	s := &scripted{ask: func(context.Context, string) (string, error) {
		if down.Load() {
			return "", errDown
		}
		return "here", nil
	}}
	const openFor = 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		g, reg := guard(t, s, provider.Config{Failures: 3, OpenFor: openFor})
		for range 3 {
			_, err := g.Ask(t.Context(), "x")
			require.ErrorIs(t, err, errDown)
		}
		_, err := g.Ask(t.Context(), "x")
		require.ErrorIs(t, err, breaker.ErrOpen)
		require.EqualValues(t, 3, s.calls.Load(), "no calls while the breaker is open")
		require.Equal(t, "open", g.State())

		time.Sleep(openFor + 1)
		require.Equal(t, "half-open", g.State())
		_, err = g.Ask(t.Context(), "x")
		require.ErrorIs(t, err, errDown)
		require.Equal(t, "open", g.State(), "a failed probe reopens the breaker")

		down.Store(false)
		time.Sleep(openFor + 1)
		require.Equal(t, "half-open", g.State())
		answer, err := g.Ask(t.Context(), "x")
		require.NoError(t, err)
		require.Equal(t, "here", answer)
		require.Equal(t, "closed", g.State())
		n, err := testutil.GatherAndCount(reg, "muster_discovery_provider_calls_total", "muster_breaker_state")
		require.NoError(t, err)
		require.Equal(t, 4, n, "three outcomes and the state")
	})
}

// No goroutine expires responses, or the bubble would not end.
func TestGuarded_CachesUntilExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{ask: func(_ context.Context, q string) (string, error) { return q + "!", nil }}
		g, _ := guard(t, s, provider.Config{CacheFor: time.Minute})
		for _, calls := range []int{1, 1, 2} {
			answer, err := g.Ask(t.Context(), "x")
			require.NoError(t, err)
			require.Equal(t, "x!", answer)
			require.EqualValues(t, calls, s.calls.Load())
			time.Sleep(time.Minute / 2)
		}
	})
}

// Running and waiting calls end with their group, and no call starts afterwards.
func TestGuarded_CallsEndWithGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := make(chan struct{}) // all waiting callers got the error before a slot became free
		s := &scripted{ask: func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			<-all
			return "", context.Cause(ctx)
		}}
		var work background.Group
		g, _ := guard(t, s, provider.Config{Timeout: time.Hour, Concurrent: 1, Background: &work})
		asking, leave := context.WithCancel(t.Context())
		errs := make(chan error, 2)
		for _, q := range []string{"x", "y"} {
			go func() {
				_, err := g.Ask(asking, q)
				errs <- err
			}()
			synctest.Wait()
		}
		leave()
		require.ErrorIs(t, <-errs, context.Canceled)
		require.ErrorIs(t, <-errs, context.Canceled)
		began := time.Now()
		go func() { synctest.Wait(); close(all) }()
		work.Stop()
		require.Zero(t, time.Since(began))
		// A slot is free.
		for range 64 {
			_, err := g.Ask(t.Context(), "z")
			require.ErrorIs(t, err, background.ErrStopped)
		}
		require.EqualValues(t, 1, s.calls.Load())
	})
}
