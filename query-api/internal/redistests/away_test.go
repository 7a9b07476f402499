//go:build redis

package redistests_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"muster/query-api/internal/contexts"
	"muster/query-api/internal/credits"
	"muster/query-api/internal/idempotency"
	"muster/query-api/internal/limits"
	"muster/query-api/internal/redisguard"
	"muster/query-api/internal/redistest"
)

// open connects as the service does.
func open(t *testing.T, url string) *redis.Client {
	t.Helper()
	client, err := redisguard.Open(url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	guard, err := redisguard.New(slog.New(slog.DiscardHandler), nil)
	require.NoError(t, err)
	client.AddHook(guard)
	return client
}

// uses are what the service asks Redis for.
func uses(client *redis.Client) map[string]func(ctx context.Context, n int) error {
	rate, balances := limits.NewRedis(client, "rate:"), credits.NewRedis(client, "credits:")
	answers, left := idempotency.NewRedis(client, "answers:"), contexts.NewRedisLeft(client, "left:")
	return map[string]func(ctx context.Context, n int) error{
		"rate": func(ctx context.Context, _ int) error { _, err := rate.Take(ctx, "k", 100_000); return err },
		"credits": func(ctx context.Context, n int) error {
			_, err := balances.Reserve(ctx, credits.Claim{
				ID: strconv.Itoa(n), Organization: "o", Period: "2026-11", Credits: 1, CreditLimit: 1 << 40, Lease: time.Minute,
			})
			return err
		},
		"answers": func(ctx context.Context, n int) error {
			_, _, err := answers.Begin(ctx, strconv.Itoa(n), "f", "o", time.Minute)
			return err
		},
		"left": func(ctx context.Context, n int) error { return left.Note(ctx, strconv.Itoa(n)) },
	}
}

// A server that answers that it serves nobody is away, for everybody who uses it, at
// once, and until it serves again.
func TestServerUnable(t *testing.T) {
	for _, tc := range []struct {
		name, says, user string
		away, back       func(t *testing.T, s *redistest.Server, admin *redis.Client)
	}{
		{
			"a password", "NOAUTH", "",
			func(t *testing.T, _ *redistest.Server, admin *redis.Client) { config(t, admin, "requirepass", "other") },
			func(t *testing.T, _ *redistest.Server, admin *redis.Client) { config(t, admin, "requirepass", "") },
		},
		{
			"another password", "WRONGPASS", ":wrong@",
			func(t *testing.T, _ *redistest.Server, admin *redis.Client) { config(t, admin, "requirepass", "other") },
			func(t *testing.T, _ *redistest.Server, admin *redis.Client) { config(t, admin, "requirepass", "") },
		},
		{
			"full", "OOM", "",
			func(t *testing.T, _ *redistest.Server, admin *redis.Client) { config(t, admin, "maxmemory", "1") },
			func(t *testing.T, _ *redistest.Server, admin *redis.Client) { config(t, admin, "maxmemory", "0") },
		},
		{
			"a replica", "READONLY", "",
			func(t *testing.T, _ *redistest.Server, admin *redis.Client) {
				require.NoError(t, admin.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
			}, primary,
		},
		{
			"a replica that has lost its primary", "MASTERDOWN", "",
			func(t *testing.T, _ *redistest.Server, admin *redis.Client) {
				config(t, admin, "replica-serve-stale-data", "no")
				require.NoError(t, admin.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
			}, primary,
		},
		{
			"loading", "LOADING", "", load,
			func(t *testing.T, s *redistest.Server, _ *redis.Client) { require.NoError(t, s.Restart(t.Context())) },
		},
		{
			"too many connections", "", "",
			func(t *testing.T, _ *redistest.Server, admin *redis.Client) { config(t, admin, "maxclients", "1") },
			func(t *testing.T, _ *redistest.Server, admin *redis.Client) { config(t, admin, "maxclients", "1000") },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := redistest.Start(t)
			admin := server.Client(t)
			require.NoError(t, admin.Ping(t.Context()).Err())
			_, err := credits.NewRedis(admin, "credits:").Load(t.Context(), "2026-11", nil)
			require.NoError(t, err)
			tc.away(t, server, admin)

			all := uses(open(t, strings.Replace(server.URL(), "//", "//"+tc.user, 1)))
			said := false
			for n := range 30 {
				for name, use := range all {
					began := time.Now()
					err := use(t.Context(), n)
					require.ErrorIs(t, err, redisguard.ErrAway, name)
					require.Less(t, time.Since(began), 1500*time.Millisecond, "%s: %v", name, err)
					said = said || strings.Contains(err.Error(), tc.says)
				}
				<-time.After(20 * time.Millisecond)
			}
			require.True(t, said, tc.says)

			tc.back(t, server, admin)
			for name, use := range all {
				require.Eventually(t, func() bool {
					err = use(t.Context(), 1000)
					return err == nil || name == "credits" && strings.Contains(err.Error(), credits.ErrNotLoaded.Error())
				}, 5*time.Second, 10*time.Millisecond, "%s: %v", name, err)
			}
		})
	}
}

func config(t *testing.T, admin *redis.Client, name, value string) {
	t.Helper()
	require.NoError(t, admin.ConfigSet(t.Context(), name, value).Err())
}

func primary(t *testing.T, _ *redistest.Server, admin *redis.Client) {
	t.Helper()
	require.NoError(t, admin.ReplicaOf(t.Context(), "NO", "ONE").Err())
}

// load has the server load what another one has, for as long as a test takes.
func load(t *testing.T, _ *redistest.Server, admin *redis.Client) {
	t.Helper()
	other := redistest.Start(t)
	client := other.Client(t)
	config(t, client, "repl-diskless-sync-delay", "0")
	config(t, client, "rdbcompression", "no") // it answers every so many bytes
	pipe := client.Pipeline()
	for i := range 10_000 {
		pipe.Set(t.Context(), "key"+strconv.Itoa(i), strings.Repeat("x", 1000), 0)
	}
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	config(t, admin, "key-load-delay", "2000") // microseconds
	config(t, admin, "loading-process-events-interval-bytes", "1024")
	host, port, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(other.URL(), "redis://"), "/0"), ":")
	require.NoError(t, admin.ReplicaOf(t.Context(), host, port).Err())
	require.Eventually(t, func() bool {
		return redis.IsLoadingError(admin.Get(t.Context(), "key1").Err())
	}, 20*time.Second, 10*time.Millisecond)
}

// A server that takes a tenth of a second for each answer is not away: everything is
// counted, and calls of one key do not wait for each other.
func TestServerSlow(t *testing.T) {
	server := redistest.Start(t)
	_, err := credits.NewRedis(server.Client(t), "credits:").Load(t.Context(), "2026-11", nil)
	require.NoError(t, err)
	client := open(t, server.Slow(t, 100*time.Millisecond))
	for name, use := range uses(client) {
		require.Eventually(t, func() bool { return use(t.Context(), 0) == nil }, 5*time.Second, time.Millisecond, name)
	}
	rate := limits.NewRedis(client, "rate:")
	const calls = 30
	for range 2 { // the first have connections to open
		var all sync.WaitGroup
		var allowed atomic.Int64
		began := time.Now()
		for range calls {
			all.Go(func() {
				d, err := rate.Take(t.Context(), "one", 20)
				if err != nil {
					t.Error(err)
				}
				if d.Allowed {
					allowed.Add(1)
				}
			})
		}
		all.Wait()
		t.Logf("%d calls of one key in %s", calls, time.Since(began))
		require.Less(t, time.Since(began), time.Second)
		require.LessOrEqual(t, allowed.Load(), int64(20))
	}
	for name, use := range uses(client) {
		for n := range 5 {
			require.NoError(t, use(t.Context(), 1+n), name)
		}
	}
}

// A server that is silent for a moment is not away: rates do without it, and everybody
// else waits.
func TestServerStalls(t *testing.T) {
	server := redistest.Start(t)
	_, err := credits.NewRedis(server.Client(t), "credits:").Load(t.Context(), "2026-11", nil)
	require.NoError(t, err)
	client := open(t, server.URL())
	all := uses(client)
	for name, use := range all {
		require.NoError(t, use(t.Context(), 0), name)
	}
	require.NoError(t, server.Pause())
	began := time.Now()
	resumed := make(chan error, 1)
	time.AfterFunc(350*time.Millisecond, func() { resumed <- server.Resume() })
	t.Cleanup(func() { require.NoError(t, <-resumed) })
	rate := limits.NewRedis(client, "rate:")
	var takes sync.WaitGroup
	for range 10 {
		takes.Go(func() {
			if _, err := rate.Take(t.Context(), "k", 100_000); !errors.Is(err, limits.ErrLate) {
				t.Errorf("%s: %v", time.Since(began), err)
			}
		})
	}
	takes.Wait()
	t.Logf("all rates are given up after %s", time.Since(began))
	for name, use := range all {
		if name != "rate" {
			require.NoError(t, use(t.Context(), 1), name)
		}
	}
	require.Eventually(t, func() bool { return all["rate"](t.Context(), 1) == nil }, time.Second, time.Millisecond)
	for n := range 100 {
		for name, use := range all {
			require.NoError(t, use(t.Context(), 2+n), name)
		}
	}
}

// A server that always takes longer than rates wait serves everybody else, however many
// rates are asked for.
func TestServerSlowerThanRates(t *testing.T) {
	server := redistest.Start(t)
	_, err := credits.NewRedis(server.Client(t), "credits:").Load(t.Context(), "2026-11", nil)
	require.NoError(t, err)
	client := open(t, server.Slow(t, 400*time.Millisecond))
	all := uses(client)
	require.Eventually(t, func() bool { return all["credits"](t.Context(), 0) == nil }, 5*time.Second, time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	rate := limits.NewRedis(client, "rate:")
	var takes sync.WaitGroup
	for range 8 {
		takes.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				_, err := rate.Take(ctx, "k", 100_000)
				if errors.Is(err, redisguard.ErrAway) || time.Since(began) > time.Second {
					t.Errorf("%s: %v", time.Since(began), err)
				}
				<-time.After(5 * time.Millisecond)
			}
		})
	}
	for n := range 5 {
		require.NoError(t, all["credits"](t.Context(), 1+n))
	}
	stop()
	takes.Wait()
}

// A key's calls are not bounded by the time to the server and back.
func TestManyCallsOfAKey(t *testing.T) {
	server := redistest.Start(t)
	rate := limits.NewRedis(open(t, server.Slow(t, 5*time.Millisecond)), "rate:")
	var all sync.WaitGroup
	var decided, failed atomic.Int64
	began := time.Now()
	for range 32 {
		all.Go(func() {
			for time.Since(began) < 2*time.Second {
				if _, err := rate.Take(t.Context(), "one", 1_000_000); err != nil {
					failed.Add(1)
				}
				decided.Add(1)
			}
		})
	}
	all.Wait()
	t.Logf("%.0f decisions a second", float64(decided.Load())/time.Since(began).Seconds())
	require.Zero(t, failed.Load())
	require.Greater(t, decided.Load(), int64(1000))
}
