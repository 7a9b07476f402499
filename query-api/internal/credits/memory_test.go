package credits_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/credits"
	"muster/query-api/internal/credits/creditstest"
)

func TestMemory(t *testing.T) {
	creditstest.Run(t, func(_ *testing.T, n int) []credits.Store {
		m := credits.NewMemory(time.Now)
		out := make([]credits.Store, n)
		for i := range out {
			out[i] = m
		}
		return out
	})
}

// Old periods are forgotten, the current and the previous one are not.
func TestMemoryIsBounded(t *testing.T) {
	m := credits.NewMemory(time.Now)
	for month := 1; month <= 12; month++ {
		_, err := m.Load(t.Context(), fmt.Sprintf("2026-%02d", month), nil)
		require.NoError(t, err)
	}
	for month, loaded := range map[string]bool{"2026-01": false, "2026-09": false, "2026-11": true, "2026-12": true} {
		_, err := m.Usage(t.Context(), "o", month)
		require.Equal(t, loaded, err == nil, month)
	}
}

// A commit that is not settled ends after a day.
func TestCommitsEndWithoutSettle(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	m := credits.NewMemory(func() time.Time { return now })
	creditstest.RunLate(t, m, func() { now = now.Add(24 * time.Hour) })
	c := credits.Claim{ID: "in time", Organization: "o", Period: "2026-11", Credits: 5, CreditLimit: 5, Lease: time.Minute}
	_, err := m.Reserve(t.Context(), c)
	require.NoError(t, err)
	_, err = m.Commit(t.Context(), c, 0, 5)
	require.NoError(t, err)
	now = now.Add(23 * time.Hour)
	u, err := m.Usage(t.Context(), "o", "2026-11")
	require.NoError(t, err)
	require.Equal(t, int64(5), u.Credits)
}
