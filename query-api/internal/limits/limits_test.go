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
