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

func TestMemory_KeepsCurrentAndPreviousPeriod(t *testing.T) {
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

func TestMemory_CommitIsRevertedAfterADay(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	m := credits.NewMemory(func() time.Time { return now })
	creditstest.RunLate(t, m, func() { now = now.Add(24 * time.Hour) })
	c := credits.Claim{ID: "in time", Organization: "o", Period: "2026-11", Credits: 5, CreditLimit: 5,
		Lease: time.Minute}
	_, err := m.Reserve(t.Context(), c)
	require.NoError(t, err)
	_, err = m.Commit(t.Context(), c, 0, 5)
	require.NoError(t, err)
	now = now.Add(23 * time.Hour)
	u, err := m.Usage(t.Context(), "o", "2026-11")
	require.NoError(t, err)
	require.Equal(t, int64(5), u.Credits)
}

func TestMemory_LeasesExpireIndependently(t *testing.T) {
	for _, leases := range [][]time.Duration{{time.Minute, time.Hour}, {time.Hour, time.Minute}} {
		now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
		m := credits.NewMemory(func() time.Time { return now })
		_, err := m.Load(t.Context(), "2026-11", nil)
		require.NoError(t, err)
		for _, lease := range leases {
			_, err := m.Reserve(t.Context(), credits.Claim{
				ID: lease.String(), Organization: "o", Period: "2026-11", Requests: 1, Credits: 5, RequestLimit: 2,
				CreditLimit: 10, Lease: lease,
			})
			require.NoError(t, err)
		}
		for _, c := range []struct {
			later time.Duration
			held  credits.Balance
		}{
			{0, credits.Balance{HeldRequests: 2, HeldCredits: 10}},
			{2 * time.Minute, credits.Balance{HeldRequests: 1, HeldCredits: 5}},
			{2 * time.Hour, credits.Balance{}},
		} {
			now = now.Add(c.later)
			u, err := m.Usage(t.Context(), "o", "2026-11")
			require.NoError(t, err)
			require.Equal(t, c.held, u.Balance, "%v, after %v", leases, c.later)
		}
	}
}
