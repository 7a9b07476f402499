//go:build redis

package redistest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/throttled/throttled/v2"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"

	"muster/platform/polltest"
	"muster/query-api/internal/contexts"
	"muster/query-api/internal/credits"
	"muster/query-api/internal/credits/creditstest"
	"muster/query-api/internal/idempotency"
	"muster/query-api/internal/idempotency/idempotencytest"
	"muster/query-api/internal/limits"
	"muster/query-api/internal/limits/limitstest"
	"muster/query-api/internal/redistest"
)

// waitTimeout bounds waits in tests.
const waitTimeout = 30 * time.Second

// newRates returns a limiter without a practical timeout.
func newRates(t *testing.T, client redis.UniversalClient, prefix string) *limits.Redis {
	t.Helper()
	l := limits.NewRedis(client, prefix, waitTimeout)
	t.Cleanup(l.Close) // before the client is closed
	return l
}

func TestCredits(t *testing.T) {
	server := redistest.Start(t)
	creditstest.Run(t, func(t *testing.T, n int) []credits.Store {
		out := make([]credits.Store, n)
		for i := range out {
			out[i] = credits.NewRedis(server.Client(t), t.Name()+":")
		}
		return out
	})
}

func TestCredits_CommitIsRevertedAfterADay(t *testing.T) {
	client := redistest.Start(t).Client(t)
	creditstest.RunLate(t, credits.NewRedis(client, "c:"), func() {
		keys, err := client.Keys(t.Context(), "c:*:leases").Result()
		require.NoError(t, err)
		for _, key := range keys {
			ids, err := client.ZRange(t.Context(), key, 0, -1).Result()
			require.NoError(t, err)
			for _, id := range ids {
				require.NoError(t, client.ZAdd(t.Context(), key, redis.Z{Score: 1, Member: id}).Err())
			}
		}
	})
}

func TestIdempotency(t *testing.T) {
	server := redistest.Start(t)
	idempotencytest.Run(t, func(t *testing.T, n int) []idempotency.Store {
		out := make([]idempotency.Store, n)
		for i := range out {
			out[i] = idempotency.NewRedis(server.Client(t), t.Name()+":")
		}
		return out
	})
}

// A call marked after its result was settled learns that.
func TestAbandonedCalls_AreSeenBySettle(t *testing.T) {
	left := contexts.NewRedisAbandonedCalls(redistest.Start(t).Client(t), "left:")
	settle := func(id string, want bool) {
		t.Helper()
		got, err := left.Settle(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	note := func(id string, want bool) {
		t.Helper()
		got, err := left.MarkAbandoned(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	note("first", false)
	settle("first", true)
	settle("first", true)
	settle("second", false)
	settle("second", false)
	note("second", true)
	settle("second", false) // it is answered: no replica delivers the result if it is read again
}

func TestLimits(t *testing.T) {
	server := redistest.Start(t)
	limitstest.Run(t, func(t *testing.T, n int) []limits.Limiter {
		out := make([]limits.Limiter, n)
		for i := range out {
			out[i] = newRates(t, server.Client(t), t.Name()+":")
		}
		return out
	})
}

// It used the Redis store of throttled.
func TestLimits_ShareStateWithEarlierVersion(t *testing.T) {
	client := redistest.Start(t).Client(t)
	store, err := goredisstore.NewCtx(client, "rate:")
	require.NoError(t, err)
	before, err := throttled.NewGCRARateLimiterCtx(store,
		throttled.RateQuota{MaxRate: throttled.PerMin(6), MaxBurst: 5})
	require.NoError(t, err)
	now := newRates(t, client, "rate:")
	for i := range 3 {
		limited, result, err := before.RateLimitCtx(t.Context(), "k:6", 1)
		require.NoError(t, err)
		require.False(t, limited)
		require.Equal(t, 5-2*i, result.Remaining)
		d, err := now.Allow(t.Context(), "k", 6)
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.EqualValues(t, 4-2*i, d.Remaining)
	}
	limited, _, err := before.RateLimitCtx(t.Context(), "k:6", 1)
	require.NoError(t, err)
	require.True(t, limited)
	d, err := now.Allow(t.Context(), "k", 6)
	require.NoError(t, err)
	require.False(t, d.Allowed)
}

// Also if it has read old data from its disk.
func TestCredits_KilledServerIsNotLoaded(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(func() *redis.Options {
		o, err := redis.ParseURL(server.URL())
		require.NoError(t, err)
		o.MaxRetries, o.ReadTimeout = -1, waitTimeout
		return o
	}())
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	store := credits.NewRedis(client, "c:")
	limiter := newRates(t, client, "l:")
	claim := func(id string, n int64) credits.Claim {
		return credits.Claim{ID: id, Organization: "o", Period: "2026-11", Credits: n, CreditLimit: 100,
			Lease: time.Minute}
	}
	_, err := store.Load(t.Context(), "2026-11", nil)
	require.NoError(t, err)
	_, err = store.Reserve(t.Context(), claim("old", 10))
	require.NoError(t, err)
	require.NoError(t, server.Save(t.Context(), client), "old data is on disk")
	_, err = store.Commit(t.Context(), claim("old", 10), 0, 10)
	require.NoError(t, err)
	_, err = store.Reserve(t.Context(), claim("in flight", 10))
	require.NoError(t, err)

	require.NoError(t, server.Kill())
	_, err = store.Reserve(t.Context(), claim("closed", 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, credits.ErrNotLoaded)
	var exceeded *credits.Exceeded
	require.False(t, errors.As(err, &exceeded))
	_, err = limiter.Allow(t.Context(), "k", 1)
	require.Error(t, err, "no decision: the caller allows the request")

	require.NoError(t, server.Restart(t.Context()))
	keys, err := client.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.NotEmpty(t, keys, "the server has loaded its file")
	polltest.Until(t, waitTimeout, func() bool {
		_, err = store.Reserve(t.Context(), claim("closed", 1))
		return errors.Is(err, credits.ErrNotLoaded)
	}, "want credits.ErrNotLoaded, got %v", func() any { return err })
	_, err = store.Commit(t.Context(), claim("in flight", 10), 0, 10)
	require.ErrorIs(t, err, credits.ErrNotLoaded)
	loaded, err := store.Load(t.Context(), "2026-11",
		credits.Balances{"o": {{Key: "k", Endpoint: "e", Calls: 1, Credits: 10}}})
	require.NoError(t, err)
	require.True(t, loaded)
	_, err = store.Commit(t.Context(), claim("in flight", 10), 0, 10)
	require.ErrorIs(t, err, credits.ErrLost)
	b, err := store.Reserve(t.Context(), claim("open", 90))
	require.NoError(t, err)
	require.Equal(t, credits.Balance{Credits: 10, HeldCredits: 90}, b)
	d, err := limiter.Allow(t.Context(), "l", 1) // the allowed call may be counted for k by now
	require.NoError(t, err)
	require.True(t, d.Allowed)
}

func TestCredits_FailoverAndBackIsNotLoaded(t *testing.T) {
	a, b := redistest.Start(t), redistest.Start(t)
	clients := map[*redistest.Server]*redis.Client{a: a.Client(t), b: b.Client(t)}
	stores := make(map[*redistest.Server]*credits.Redis)
	for server, client := range clients {
		config(t, client, "repl-diskless-sync-delay", "0")
		stores[server] = credits.NewRedis(client, "c:")
	}
	follow := func(server, other *redistest.Server) {
		t.Helper()
		host, port, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(other.URL(), "redis://"), "/0"), ":")
		require.NoError(t, clients[server].ReplicaOf(t.Context(), host, port).Err())
		polltest.Until(t, waitTimeout, func() bool {
			info, err := clients[server].Info(t.Context(), "replication").Result()
			return err == nil && strings.Contains(info, "master_link_status:up")
		}, "replica not in sync")
	}
	load := func(server *redistest.Server, used int64) {
		t.Helper()
		_, err := stores[server].Usage(t.Context(), "o", "2026-11")
		require.ErrorIs(t, err, credits.ErrNotLoaded)
		loaded, err := stores[server].Load(t.Context(), "2026-11",
			credits.Balances{"o": {{Key: "k", Endpoint: "e", Calls: 1, Credits: used}}})
		require.NoError(t, err)
		require.True(t, loaded)
		u, err := stores[server].Usage(t.Context(), "o", "2026-11")
		require.NoError(t, err)
		require.Equal(t, used, u.Credits)
	}
	load(a, 10)
	follow(b, a)
	primary(t, b, clients[b])
	load(b, 20)
	follow(a, b)
	primary(t, a, clients[a])
	load(a, 30)
	// The other server gets no requests this time; it has the data sent before.
	follow(b, a)
	primary(t, b, clients[b])
	follow(a, b)
	primary(t, a, clients[a])
	load(a, 40)
}

// It identifies servers by run ID only.
func TestCredits_ShareBalancesWithEarlierVersion(t *testing.T) {
	client := redistest.Start(t).Client(t)
	store := credits.NewRedis(client, "c:")
	before := func() {
		t.Helper()
		require.EqualValues(t, 1, client.Del(t.Context(), "c:2026-11:origin").Val())
	}
	sums := credits.Balances{"o": {{Key: "k", Endpoint: "e", Calls: 1, Credits: 10}}}
	loaded, err := store.Load(t.Context(), "2026-11", sums)
	require.NoError(t, err)
	require.True(t, loaded)
	before()
	loaded, err = store.Load(t.Context(), "2026-11", nil)
	require.NoError(t, err)
	require.False(t, loaded)
	before()
	u, err := store.Usage(t.Context(), "o", "2026-11")
	require.NoError(t, err)
	require.EqualValues(t, 10, u.Credits)
}
