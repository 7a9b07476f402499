//go:build redis

package redistest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"muster/platform/polltest"
	"muster/platform/tlsclient"
	"muster/query-api/internal/contexts"
	"muster/query-api/internal/credits"
	"muster/query-api/internal/idempotency"
	"muster/query-api/internal/limits"
	"muster/query-api/internal/redisbreaker"
	"muster/query-api/internal/redistest"
)

// patient returns timeouts that are long enough for a busy machine, so that a failure has another reason.
func patient() redisbreaker.Timeouts { return redisbreaker.DefaultTimeouts().Times(60) }

// open connects like the service.
func open(t *testing.T, url string, files *tlsclient.Settings, timeouts redisbreaker.Timeouts) *redis.Client {
	t.Helper()
	client, err := redisbreaker.Open(url, files, timeouts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	guard, err := redisbreaker.New(slog.New(slog.DiscardHandler), nil, timeouts)
	require.NoError(t, err)
	client.AddHook(guard)
	return client
}

// impatient returns a limiter with the timeout of production.
func impatient(t *testing.T, client *redis.Client) *limits.Redis {
	t.Helper()
	l := limits.NewRedis(client, "rate:", limits.AllowTimeout)
	t.Cleanup(l.Close)
	return l
}

// uses are the operations of the service on Redis.
func uses(client *redis.Client, rate limits.Limiter) map[string]func(ctx context.Context, n int) error {
	balances := credits.NewRedis(client, "credits:")
	answers, left := idempotency.NewRedis(client, "answers:"), contexts.NewRedisAbandonedCalls(client, "left:")
	return map[string]func(ctx context.Context, n int) error{
		"rate": func(ctx context.Context, _ int) error { _, err := rate.Allow(ctx, "k", 100_000); return err },
		"credits": func(ctx context.Context, n int) error {
			_, err := balances.Reserve(ctx, credits.Claim{
				ID: strconv.Itoa(n), Organization: "o", Period: "2026-11", Credits: 1, CreditLimit: 1 << 40,
				Lease: time.Minute,
			})
			return err
		},
		"answers": func(ctx context.Context, n int) error {
			_, _, err := answers.Begin(ctx, strconv.Itoa(n), "f", "o", time.Minute)
			return err
		},
		"left": func(ctx context.Context, n int) error {
			_,
				err := left.MarkAbandoned(ctx, strconv.Itoa(n))
			return err
		},
	}
}

// A server that answers that it cannot serve is unavailable to all users until it serves again.
func TestRedis_ErrorRepliesOpenBreaker(t *testing.T) {
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

			client := open(t, strings.Replace(server.URL(), "//", "//"+tc.user, 1), nil, redisbreaker.DefaultTimeouts())
			all := uses(client, impatient(t, client))
			said, late := false, 0
			var took []time.Duration
			for n := range 30 {
				for name, use := range all {
					began := time.Now()
					err := use(t.Context(), n)
					took = append(took, time.Since(began))
					if name == "rate" && errors.Is(err, limits.ErrTimeout) {
						late++
						continue
					}
					require.ErrorIs(t, err, redisbreaker.ErrUnavailable, name)
					said = said || strings.Contains(err.Error(), tc.says)
				}
				<-time.After(20 * time.Millisecond)
			}
			require.True(t, said, tc.says)
			require.LessOrEqual(t, late, 10)
			slices.Sort(took)
			require.Less(t, took[len(took)*95/100], 1500*time.Millisecond)
			require.Less(t, took[len(took)-1], 10*time.Second)

			tc.back(t, server, admin)
			for name, use := range all {
				polltest.Until(t, waitTimeout, func() bool {
					err = use(t.Context(), 1000)
					return err == nil || name == "credits" &&
						strings.Contains(err.Error(), credits.ErrNotLoaded.Error())
				}, "%s: %v", name, func() any { return err })
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

// load makes the server load the data of another one, slowly enough for a test.
func load(t *testing.T, _ *redistest.Server, admin *redis.Client) {
	t.Helper()
	other := redistest.Start(t)
	client := other.Client(t)
	config(t, client, "repl-diskless-sync-delay", "0")
	config(t, client, "rdbcompression", "no") // replies are sent per number of loaded bytes
	pipe := client.Pipeline()
	for i := range 10_000 {
		pipe.Set(t.Context(), "key"+strconv.Itoa(i), strings.Repeat("x", 1000), 0)
	}
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	config(t, admin, "key-load-delay", "5000") // microseconds
	config(t, admin, "loading-process-events-interval-bytes", "1024")
	host, port, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(other.URL(), "redis://"), "/0"), ":")
	require.NoError(t, admin.ReplicaOf(t.Context(), host, port).Err())
	var loading error
	polltest.Until(t, waitTimeout, func() bool {
		loading = admin.Get(t.Context(), "key1").Err()
		return redis.IsLoadingError(loading)
	}, "it does not load: %v", func() any { return loading })
}

// With 0.1 s per reply everything is counted, and calls of one key do not wait for each other.
func TestRedis_SlowServerIsAvailable(t *testing.T) {
	server := redistest.Start(t)
	_, err := credits.NewRedis(server.Client(t), "credits:").Load(t.Context(), "2026-11", nil)
	require.NoError(t, err)
	const delay = 100 * time.Millisecond
	client := open(t, server.Slow(t, delay), nil, redisbreaker.DefaultTimeouts())
	rate := impatient(t, client)
	const calls, perMinute = 30, 20
	// A round is undisturbed if none of its calls fails.
	round := 0
	polltest.Until(t, time.Minute, func() bool {
		round++ // each has its own key, and the first opens connections
		var all sync.WaitGroup
		var allowed, failed atomic.Int64
		began := time.Now()
		for range calls {
			all.Go(func() {
				d, err := rate.Allow(t.Context(), strconv.Itoa(round), perMinute)
				if err != nil {
					failed.Add(1)
				}
				if d.Allowed {
					allowed.Add(1)
				}
			})
		}
		all.Wait()
		took := time.Since(began)
		t.Logf("%d calls of one key in %s, of which %d fail", calls, took, failed.Load())
		require.LessOrEqual(t, allowed.Load(), int64(perMinute)+int64(took*perMinute/time.Minute)+1)
		if failed.Load() > 0 {
			return false
		}
		require.GreaterOrEqual(t, allowed.Load(), int64(perMinute))
		return took < calls*delay/2
	}, "calls of one key fail, or wait for each other")
	n := 0
	polltest.Until(t, time.Minute, func() bool {
		for range 5 {
			n++
			for name, use := range uses(client, rate) {
				if err = use(t.Context(), n); err != nil {
					err = fmt.Errorf("%s: %w", name, err)
					return false
				}
			}
		}
		return true
	}, "%v", func() any { return err })
}

func TestRedis_ShortStallSkipsRatesOnly(t *testing.T) {
	server := redistest.Start(t)
	_, err := credits.NewRedis(server.Client(t), "credits:").Load(t.Context(), "2026-11", nil)
	require.NoError(t, err)
	client := open(t, server.URL(), nil, patient())
	sent := &redistest.Sent{}
	client.AddHook(sent)
	rate := impatient(t, client)
	all := uses(client, rate)
	for name, use := range all {
		polltest.Until(t, waitTimeout, func() bool { err = use(t.Context(), 0); return err == nil }, "%s: %v", name,
			func() any { return err })
	}
	require.NoError(t, server.Pause())
	resume := sync.OnceValue(server.Resume)
	var takes, others sync.WaitGroup
	t.Cleanup(func() {
		require.NoError(t, resume())
		others.Wait()
	})
	began := time.Now()
	for range 10 {
		takes.Go(func() {
			if _, err := rate.Allow(t.Context(), "k", 100_000); !errors.Is(err, limits.ErrTimeout) {
				t.Errorf("%s: %v", time.Since(began), err)
			}
		})
	}
	takes.Wait()
	t.Logf("all rate checks time out after %s", time.Since(began))
	before := sent.Load()
	for name, use := range all {
		if name == "rate" {
			continue
		}
		others.Go(func() {
			if err := use(t.Context(), 1); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	// Marking an abandoned call is a pipeline, which is not counted.
	polltest.Until(t, waitTimeout, func() bool { return sent.Load() >= before+int64(len(all)-2) },
		"the others do not ask")
	require.NoError(t, resume())
	others.Wait()
	polltest.Until(t, waitTimeout, func() bool { err = all["rate"](t.Context(), 1); return err == nil }, "%v",
		func() any { return err })
	for n := range 100 {
		for name, use := range all {
			if err := use(t.Context(), 2+n); name != "rate" || !errors.Is(err, limits.ErrTimeout) {
				require.NoError(t, err, name)
			}
		}
	}
}

func TestRedis_SlowerThanRateTimeoutServesOthers(t *testing.T) {
	server := redistest.Start(t)
	_, err := credits.NewRedis(server.Client(t), "credits:").Load(t.Context(), "2026-11", nil)
	require.NoError(t, err)
	client := open(t, server.Slow(t, 400*time.Millisecond), nil, patient())
	rate := impatient(t, client)
	all := uses(client, rate)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	var took []time.Duration
	var takes sync.WaitGroup
	for range 8 {
		takes.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				_, err := rate.Allow(ctx, "k", 100_000)
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
				if errors.Is(err, redisbreaker.ErrUnavailable) {
					t.Error(err)
				}
				<-time.After(5 * time.Millisecond)
			}
		})
	}
	for n := range 5 {
		require.NoError(t, all["credits"](t.Context(), n))
	}
	stop()
	takes.Wait()
	slices.Sort(took)
	t.Logf("%d rate checks, the last of which times out after %s", len(took), took[len(took)-1])
	require.Less(t, took[len(took)*9/10], time.Second)
	require.Less(t, took[len(took)-1], 10*time.Second)
}

func TestRedis_KeyIsNotBoundByRoundTrips(t *testing.T) {
	server := redistest.Start(t)
	const delay, callers, each = 5 * time.Millisecond, 32, 125
	rate := newRates(t, open(t, server.Slow(t, delay), nil, patient()), "rate:")
	var all sync.WaitGroup
	began := time.Now()
	for range callers {
		all.Go(func() {
			for range each {
				if _, err := rate.Allow(t.Context(), "one", 1_000_000); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	t.Logf("%.0f decisions a second", callers*each/took.Seconds())
	require.Less(t, took, callers*each*delay/2, "half of the sequential time")
}
