package limits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/limits"
	"muster/query-api/internal/limits/limitstest"
)

func TestMemory(t *testing.T) {
	limitstest.Run(t, func(t *testing.T, n int) []limits.Limiter {
		m, err := limits.NewMemory(time.Now)
		require.NoError(t, err)
		out := make([]limits.Limiter, n)
		for i := range out {
			out[i] = m
		}
		return out
	})
}

func TestMemory_WindowRestoresRequestAfterAMinute(t *testing.T) {
	now := time.Unix(0, 0)
	l, err := limits.NewMemory(func() time.Time { return now })
	require.NoError(t, err)
	take := func() limits.Decision {
		d, err := l.AllowInWindow(t.Context(), "k", 2)
		require.NoError(t, err)
		return d
	}
	require.True(t, take().Allowed)
	now = now.Add(50 * time.Second)
	require.True(t, take().Allowed)
	require.Equal(t, limits.Decision{Limit: 2, RetryAfter: 10 * time.Second, ResetAfter: time.Minute}, take())
	now = now.Add(10 * time.Second)
	require.True(t, take().Allowed)
	require.Equal(t, 50*time.Second, take().RetryAfter)
}
