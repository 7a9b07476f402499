package provider_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muster/discovery-worker/internal/provider"
	"muster/platform/breaker"
)

func TestBreakerOpensHalfOpensAndCloses(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	s := &scripted{ask: func(context.Context, string) (string, error) {
		if down.Load() {
			return "", errDown
		}
		return "here", nil
	}}
	const openFor = 10 * time.Second
	// It is made outside of the bubble: the goroutine of its cache never ends.
	g, reg := guard(t, s, provider.Config{Failures: 3, OpenFor: openFor})
	synctest.Test(t, func(t *testing.T) {
		for range 3 {
			_, err := g.Ask(t.Context(), "x")
			require.ErrorIs(t, err, errDown)
		}
		_, err := g.Ask(t.Context(), "x")
		require.ErrorIs(t, err, breaker.ErrOpen)
		require.EqualValues(t, 3, s.calls.Load(), "an open breaker costs no call")
		require.Equal(t, "open", g.State())

		time.Sleep(openFor + 1)
		require.Equal(t, "half-open", g.State())
		_, err = g.Ask(t.Context(), "x")
		require.ErrorIs(t, err, errDown)
		require.Equal(t, "open", g.State(), "a failed probe opens it again")

		down.Store(false)
		time.Sleep(openFor + 1)
		require.Equal(t, "half-open", g.State())
		answer, err := g.Ask(t.Context(), "x")
		require.NoError(t, err)
		require.Equal(t, "here", answer)
		require.Equal(t, "closed", g.State())
	})
	n, err := testutil.GatherAndCount(reg, "muster_discovery_provider_calls_total", "muster_breaker_state")
	require.NoError(t, err)
	require.Equal(t, 4, n, "answered, failed, open; and the state")
}
