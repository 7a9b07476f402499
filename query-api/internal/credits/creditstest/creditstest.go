// Package creditstest is the conformance suite of credits.Store.
package creditstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/platform/polltest"
	"muster/query-api/internal/credits"
)

// Replicas returns n stores that share their state; in memory it is one store.
type Replicas func(t *testing.T, n int) []credits.Store

const (
	period = "2026-11"
	lease  = time.Minute
)

func claim(id string, n int64, limit int64) credits.Claim {
	return credits.Claim{
		ID: id, Organization: "o1", Period: period, Key: "k", Endpoint: "/v1/x", Requests: 1, Credits: n,
		RequestLimit: 1_000_000, CreditLimit: limit, Lease: lease,
	}
}

// Run runs the suite.
func Run(t *testing.T, open Replicas) {
	one := func(t *testing.T) (context.Context, credits.Store) {
		s := open(t, 1)[0]
		loaded, err := s.Load(t.Context(), period, nil)
		require.NoError(t, err)
		require.True(t, loaded)
		return t.Context(), s
	}
	t.Run("needs the sums of the ledger", func(t *testing.T) {
		s := open(t, 1)[0]
		_, err := s.Reserve(t.Context(), claim("a", 1, 10))
		require.ErrorIs(t, err, credits.ErrNotLoaded)
		_, err = s.Commit(t.Context(), claim("a", 1, 10), 1, 1)
		require.ErrorIs(t, err, credits.ErrNotLoaded)
		_, err = s.Usage(t.Context(), "o1", period)
		require.ErrorIs(t, err, credits.ErrNotLoaded)
		require.NoError(t, s.Settle(t.Context(), []credits.Claim{claim("a", 1, 10)}))
		require.NoError(t, s.Release(t.Context(), []credits.Claim{claim("a", 1, 10)}))
		require.NoError(t, s.ReleaseReservations(t.Context(), []credits.Claim{claim("a", 1, 10)}))

		line := credits.Line{Key: "k", Endpoint: "/v1/x", Calls: 4, Requests: 3, Credits: 7}
		loaded, err := s.Load(t.Context(), period,
			credits.Balances{"o1": {line}, "o2": {{Key: "z", Endpoint: "/v1/y", Calls: 1, Credits: 2}}})
		require.NoError(t, err)
		require.True(t, loaded)
		loaded, err = s.Load(t.Context(), period, credits.Balances{})
		require.NoError(t, err)
		require.False(t, loaded, "a second load is ignored")
		u, err := s.Usage(t.Context(), "o1", period)
		require.NoError(t, err)
		require.Equal(t, credits.Totals{Balance: credits.Balance{Requests: 3, Credits: 7}, Lines: []credits.Line{line}},
			u)
		_, err = s.Reserve(t.Context(), claim("a", 4, 10))
		var e *credits.Exceeded
		require.ErrorAs(t, err, &e)
		require.False(t, e.Requests)
		require.Equal(t, int64(7), e.Balance.Credits)
		_, err = s.Reserve(t.Context(), claim("a", 3, 10))
		require.NoError(t, err)
	})
	t.Run("reserve, commit, settle", func(t *testing.T) {
		ctx, s := one(t)
		c := claim("a", 8, 10)
		b, err := s.Reserve(ctx, c)
		require.NoError(t, err)
		require.Equal(t, credits.Balance{HeldRequests: 1, HeldCredits: 8}, b)
		again, err := s.Reserve(ctx, c)
		require.NoError(t, err)
		require.Equal(t, b, again, "repeated reservation counts once")
		_, err = s.Reserve(ctx, claim("b", 3, 10))
		require.Error(t, err)
		b, err = s.Commit(ctx, c, 1, 2)
		require.NoError(t, err)
		require.Equal(t, credits.Balance{Requests: 1, Credits: 2}, b, "the unused part is released")
		b, err = s.Commit(ctx, c, 1, 2)
		require.NoError(t, err)
		require.Equal(t, int64(2), b.Credits, "repeated commit counts once")
		for range 2 {
			require.NoError(t, s.Settle(ctx, []credits.Claim{c}))
			require.NoError(t, s.Release(ctx, []credits.Claim{c}), "a settled claim is not released")
		}
		u, err := s.Usage(ctx, "o1", period)
		require.NoError(t, err)
		require.Equal(t, credits.Totals{
			Balance: credits.Balance{Requests: 1, Credits: 2},
			Lines:   []credits.Line{{Key: "k", Endpoint: "/v1/x", Calls: 1, Requests: 1, Credits: 2}},
		}, u)
		_, err = s.Commit(ctx, c, 1, 1)
		require.ErrorIs(t, err, credits.ErrLost)
		_, err = s.Commit(ctx, claim("never", 1, 1), 1, 1)
		require.ErrorIs(t, err, credits.ErrLost)
	})
	t.Run("a claim of many calls", func(t *testing.T) {
		ctx, s := one(t)
		c := claim("a", 8, 10)
		c.Requests, c.Calls = 5, 6
		_, err := s.Reserve(ctx, c)
		require.NoError(t, err)
		for range 2 {
			_, err = s.Commit(ctx, c, 4, 2)
			require.NoError(t, err)
		}
		u, err := s.Usage(ctx, "o1", period)
		require.NoError(t, err)
		require.Equal(t, []credits.Line{{Key: "k", Endpoint: "/v1/x", Calls: 6, Requests: 4, Credits: 2}}, u.Lines)
		require.NoError(t, s.Release(ctx, []credits.Claim{c}))
		u, err = s.Usage(ctx, "o1", period)
		require.NoError(t, err)
		require.Empty(t, u.Lines)
	})
	t.Run("at most the reserved amount", func(t *testing.T) {
		ctx, s := one(t)
		_, err := s.Reserve(ctx, claim("a", 2, 10))
		require.NoError(t, err)
		b, err := s.Commit(ctx, claim("a", 2, 10), 5, 9)
		require.NoError(t, err)
		require.Equal(t, credits.Balance{Requests: 1, Credits: 2}, b)
	})
	t.Run("less than the commit", func(t *testing.T) {
		ctx, s := one(t)
		_, err := s.Reserve(ctx, claim("a", 9, 10))
		require.NoError(t, err)
		for _, used := range []struct{ said, is int64 }{{5, 5}, {2, 2}, {9, 2}} {
			b, err := s.Commit(ctx, claim("a", 9, 10), 1, used.said)
			require.NoError(t, err)
			require.Equal(t, credits.Balance{Requests: 1, Credits: used.is}, b)
		}
		u, err := s.Usage(ctx, "o1", period)
		require.NoError(t, err)
		require.Equal(t, []credits.Line{{Key: "k", Endpoint: "/v1/x", Calls: 1, Requests: 1, Credits: 2}}, u.Lines)
	})
	t.Run("release", func(t *testing.T) {
		ctx, s := one(t)
		for _, commit := range []bool{false, true} {
			c := claim(fmt.Sprint(commit), 10, 10)
			_, err := s.Reserve(ctx, c)
			require.NoError(t, err)
			if commit {
				_, err = s.Commit(ctx, c, 1, 10)
				require.NoError(t, err)
			}
			require.NoError(t, s.Release(ctx, []credits.Claim{c, c, claim("never", 1, 1)}))
			u, err := s.Usage(ctx, "o1", period)
			require.NoError(t, err)
			require.Equal(t, credits.Totals{}, u)
		}
	})
	t.Run("release of reservations keeps commits", func(t *testing.T) {
		ctx, s := one(t)
		c := claim("committed", 5, 10)
		for _, r := range []credits.Claim{c, claim("reserved", 5, 10)} {
			_, err := s.Reserve(ctx, r)
			require.NoError(t, err)
		}
		_, err := s.Commit(ctx, c, 1, 3)
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, s.ReleaseReservations(ctx, []credits.Claim{
				c, claim("reserved", 5, 10), claim("never", 1, 1),
			}))
			u, err := s.Usage(ctx, "o1", period)
			require.NoError(t, err)
			require.Equal(t, credits.Balance{Requests: 1, Credits: 3}, u.Balance)
		}
		require.NoError(t, s.Release(ctx, []credits.Claim{c}), "until it is settled")
		u, err := s.Usage(ctx, "o1", period)
		require.NoError(t, err)
		require.Equal(t, credits.Totals{}, u)
	})
	t.Run("limits", func(t *testing.T) {
		ctx, s := one(t)
		c := claim("a", 5, 5)
		c.RequestLimit = 1
		_, err := s.Reserve(ctx, c)
		require.NoError(t, err)
		c.ID = "b"
		_, err = s.Reserve(ctx, c)
		var e *credits.Exceeded
		require.ErrorAs(t, err, &e)
		require.True(t, e.Requests, "monthly requests are checked before credits")
		c.RequestLimit, c.CreditLimit = 2, 4
		_, err = s.Reserve(ctx, c)
		require.ErrorAs(t, err, &e)
		require.False(t, e.Requests)
		// A plan reduced below the usage rejects paid calls but not free ones.
		c.Credits, c.Requests = 0, 0
		_, err = s.Reserve(ctx, c)
		require.NoError(t, err)
		// A plan increase during the period applies immediately.
		c.ID, c.Credits, c.CreditLimit = "c", 5, 10
		_, err = s.Reserve(ctx, c)
		require.NoError(t, err)
	})
	t.Run("organizations and periods are separate", func(t *testing.T) {
		ctx, s := one(t)
		_, err := s.Load(ctx, "2026-12", nil)
		require.NoError(t, err)
		for i, other := range []func(*credits.Claim){
			func(*credits.Claim) {}, func(c *credits.Claim) { c.Organization = "o2" },
			func(c *credits.Claim) { c.Period = "2026-12" },
		} {
			c := claim(fmt.Sprint(i), 10, 10)
			other(&c)
			_, err := s.Reserve(ctx, c)
			require.NoError(t, err)
		}
	})
	t.Run("leases end", func(t *testing.T) {
		ctx, s := one(t)
		c := claim("dead", 10, 10)
		c.Lease = 50 * time.Millisecond
		_, err := s.Reserve(ctx, c)
		require.NoError(t, err)
		polltest.Until(t, 30*time.Second, func() bool {
			_, err = s.Reserve(ctx, claim("alive", 10, 10))
			return err == nil
		}, "lease not expired: %v", func() any { return err })
		_, err = s.Commit(ctx, c, 1, 10)
		require.ErrorIs(t, err, credits.ErrLost)
	})
	t.Run("repeating renews the lease", func(t *testing.T) {
		ctx, s := one(t)
		reserve := func(c credits.Claim, lease time.Duration) {
			t.Helper()
			c.Lease = lease
			_, err := s.Reserve(ctx, c)
			require.NoError(t, err)
		}
		c := claim("prolonged", 10, 10)
		reserve(c, 50*time.Millisecond)
		reserve(c, time.Minute)
		<-time.After(100 * time.Millisecond)
		u, err := s.Usage(ctx, "o1", period)
		require.NoError(t, err)
		require.EqualValues(t, 10, u.HeldCredits)
		_, err = s.Commit(ctx, c, 1, 10)
		require.NoError(t, err)
		reserve(c, time.Millisecond)
		<-time.After(20 * time.Millisecond)
		u, err = s.Usage(ctx, "o1", period)
		require.NoError(t, err)
		require.EqualValues(t, 10, u.Credits, "a commit outlives its reservation")
	})
	t.Run("64 callers, the last 100 credits, 3 replicas", func(t *testing.T) { lastCredits(t, open(t, 3)) })
}

// RunLate tests commits that are not settled before their leases end; end makes them expire. They are reverted until
// their events are published.
func RunLate(t *testing.T, s credits.Store, end func()) {
	ctx := t.Context()
	loaded, err := s.Load(ctx, period, nil)
	require.NoError(t, err)
	require.True(t, loaded)
	settle := func(c credits.Claim) error { return s.Settle(ctx, []credits.Claim{c}) }
	used := func(organization string, requests, spent int64) {
		t.Helper()
		want := credits.Totals{Balance: credits.Balance{Requests: requests, Credits: spent}}
		if requests > 0 {
			want.Lines = []credits.Line{{Key: "k", Endpoint: "/v1/x", Calls: 1, Requests: requests, Credits: spent}}
		}
		got, err := s.Usage(ctx, organization, period)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for name, c := range map[string]struct {
		then            func(credits.Claim) error
		requests, spent int64
	}{
		"settled": {settle, 1, 5},
		"reservations released": {func(c credits.Claim) error {
			return errors.Join(s.ReleaseReservations(ctx, []credits.Claim{c}), settle(c))
		}, 1, 5},
		"released": {func(c credits.Claim) error { return s.Release(ctx, []credits.Claim{c}) }, 0, 0},
		"unanswered": {func(c credits.Claim) error {
			_, err := s.Commit(ctx, c, 1, 0)
			return errors.Join(err, settle(c))
		}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			claimed := claim("late", 8, 10)
			claimed.Organization = name
			_, err := s.Reserve(ctx, claimed)
			require.NoError(t, err)
			_, err = s.Commit(ctx, claimed, 1, 5)
			require.NoError(t, err)
			used(name, 1, 5)
			end()
			used(name, 0, 0)
			require.NoError(t, c.then(claimed))
			used(name, c.requests, c.spent)
			require.NoError(t, settle(claimed))
			require.NoError(t, s.Release(ctx, []credits.Claim{claimed}))
			used(name, c.requests, c.spent)
		})
	}
}

// lastCredits lets concurrent callers use up the remaining credits: each needs up to 7 and uses some. The reservations
// must never exceed the balance, and in the end no usable credit may remain.
func lastCredits(t *testing.T, replicas []credits.Store) {
	ctx := t.Context()
	_, err := replicas[0].Load(
		ctx, period, credits.Balances{"o1": {{Key: "k", Endpoint: "/v1/x", Calls: 1, Credits: 900}}},
	)
	require.NoError(t, err)
	const limit, callers = 1000, 64
	var used, worst atomic.Int64
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			s := replicas[caller%len(replicas)]
			for call := 0; ; call++ {
				need := int64(1 + (caller+call)%7)
				c := claim(fmt.Sprintf("%d-%d", caller, call), need, limit)
				b, err := s.Reserve(ctx, c)
				var e *credits.Exceeded
				switch {
				case errors.As(err, &e):
					// Other callers may still release credits, but the usage never decreases.
					if e.Balance.Credits == limit || e.Balance.HeldCredits == 0 && e.Balance.Credits+need > limit {
						return
					}
					continue
				case err != nil:
					t.Errorf("reserve: %v", err)
					return
				}
				for now := b.Credits + b.HeldCredits; ; {
					if most := worst.Load(); now <= most || worst.CompareAndSwap(most, now) {
						break
					}
				}
				spend := need - int64(call%2)
				if _, err := s.Commit(ctx, c, 1, spend); err != nil {
					t.Errorf("commit: %v", err)
					return
				}
				used.Add(spend)
				if err := s.Settle(ctx, []credits.Claim{c}); err != nil {
					t.Errorf("settle: %v", err)
				}
			}
		})
	}
	wg.Wait()
	u, err := replicas[0].Usage(ctx, "o1", period)
	require.NoError(t, err)
	require.Equal(t, 900+used.Load(), u.Credits, "granted credits are counted")
	require.LessOrEqual(t, worst.Load(), int64(limit))
	require.Equal(t, int64(limit), u.Credits, "the last credit is usable")
	require.Zero(t, u.HeldCredits)
}
