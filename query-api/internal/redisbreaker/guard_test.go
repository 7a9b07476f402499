package redisbreaker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"muster/platform/polltest"
	"muster/platform/tlsclient"
	"muster/platform/tlsclient/tlstest"
	"muster/query-api/internal/limits"
	"muster/query-api/internal/redisbreaker"
	"muster/query-api/internal/redistest"
)

// listen returns the address of a server that accepts connections and stays silent; with closed, of no server.
func listen(t *testing.T, closed bool) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	if closed {
		require.NoError(t, l.Close())
	} else {
		t.Cleanup(func() { require.NoError(t, l.Close()) })
	}
	return l.Addr().String()
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func guarded(
	t *testing.T, address string, registry *prometheus.Registry, timeouts redisbreaker.Timeouts,
) (*redis.Client, *redistest.Sent, *buffer) {
	t.Helper()
	client, err := redisbreaker.Open("redis://"+address+"/0", nil, timeouts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	log := &buffer{}
	guard, err := redisbreaker.New(slog.New(slog.NewTextHandler(log, nil)), registry, timeouts)
	require.NoError(t, err)
	passed := &redistest.Sent{}
	client.AddHook(guard)
	client.AddHook(passed)
	return client, passed, log
}

func TestGuard_FailsFastWhileRedisIsDown(t *testing.T) {
	for name, closed := range map[string]bool{"refused": true, "silent": false} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			client, passed, log := guarded(t, listen(t, closed), registry, redisbreaker.DefaultTimeouts())
			rate := limits.NewRedis(client, "rate:", limits.AllowTimeout)
			t.Cleanup(rate.Close)
			// take returns the duration of a call, which includes pauses of this process.
			take := func() (time.Duration, error) {
				began := time.Now()
				_, err := rate.Allow(t.Context(), "k", 10)
				if !errors.Is(err, redisbreaker.ErrUnavailable) && !errors.Is(err, limits.ErrTimeout) {
					t.Error(err)
				}
				return time.Since(began), err
			}
			atOnce := make([]time.Duration, 100)
			var all sync.WaitGroup
			for i := range atOnce {
				all.Go(func() { atOnce[i], _ = take() })
			}
			all.Wait()
			slices.Sort(atOnce)
			require.Less(t, atOnce[50], time.Second)
			require.Less(t, atOnce[99], 10*time.Second)
			// At first only rate limits skip the server.
			polltest.Until(t, 30*time.Second, func() bool {
				_, err := take()
				return errors.Is(err, redisbreaker.ErrUnavailable)
			}, "Redis is available")
			before, began := passed.Load(), time.Now()
			later := make([]time.Duration, 200)
			for i := range later {
				later[i], _ = take()
			}
			slices.Sort(later)
			require.Less(t, later[100], 100*time.Millisecond)
			require.LessOrEqual(t, passed.Load()-before, 1+int64(time.Since(began)/time.Second),
				"one command a second is sent")

			pipe := client.Pipeline()
			set := pipe.Set(t.Context(), "a", 1, 0)
			_, err := pipe.Exec(t.Context())
			require.ErrorIs(t, err, redisbreaker.ErrUnavailable)
			require.ErrorIs(t, set.Err(), redisbreaker.ErrUnavailable)

			rate.Close()
			require.Equal(t, 1, strings.Count(log.String(), "\n"), log)
			require.Contains(t, log.String(), "redis: unavailable")
			// It is probed once per second.
			state := states(t, registry)
			require.Zero(t, state["closed"], state)
			require.InDelta(t, 1, state["open"]+state["half-open"], 0, state)
		})
	}
}

// states returns the number of breakers in each state.
func states(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	found := make(map[string]float64)
	for _, family := range families {
		if family.GetName() != "muster_breakers" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "state" {
					found[l.GetValue()] = m.GetGauge().GetValue()
				}
			}
		}
	}
	require.Len(t, found, 3)
	return found
}

func TestGuard_IgnoresCanceledCallers(t *testing.T) {
	// A command without a waiting caller ends with the read timeout.
	second := time.Second
	client, passed, log := guarded(t, listen(t, false), prometheus.NewRegistry(),
		redisbreaker.Timeouts{Dial: 6 * second, Answer: 6 * second, Command: 20 * second, Pipeline: 20 * second})
	left, leave := context.WithCancel(t.Context())
	leave()
	var all sync.WaitGroup
	for range 5 {
		require.ErrorIs(t, client.Ping(left).Err(), context.Canceled)
		for want, begin := range map[error]func() (context.Context, context.CancelFunc){
			context.Canceled: func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(5*time.Millisecond, cancel)
				return ctx, cancel
			},
			context.DeadlineExceeded: func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(t.Context(), 5*time.Millisecond)
			},
		} {
			all.Go(func() {
				ctx, cancel := begin()
				defer cancel()
				if err := client.Ping(ctx).Err(); !errors.Is(err, want) || errors.Is(err, redisbreaker.ErrUnavailable) {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	require.Empty(t, log.String())
	before := passed.Load()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.Error(t, client.Ping(ctx).Err())
	require.Equal(t, before+1, passed.Load(), "command sent")
}

// late is a context that reports its deadline late, like a context whose timer has not fired yet.
type late struct {
	context.Context
	deadline time.Time
}

func (l late) Deadline() (time.Time, bool) { return l.deadline, true }

// The connection may report the caller's deadline before the context does.
func TestGuard_IgnoresCallerDeadlineBeforeContextEnds(t *testing.T) {
	second := time.Second
	client, passed, log := guarded(t, listen(t, false), prometheus.NewRegistry(),
		redisbreaker.Timeouts{Dial: 6 * second, Answer: 6 * second, Command: 20 * second, Pipeline: 20 * second})
	for range 5 {
		err := client.Ping(late{t.Context(), time.Now().Add(5 * time.Millisecond)}).Err()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, redisbreaker.ErrUnavailable)
	}
	require.Empty(t, log.String())
	require.EqualValues(t, 5, passed.Load(), "the breaker counted none of them")
}

func TestOpen_ErrorDoesNotRepeatURL(t *testing.T) {
	for _, url := range []string{
		"redis://:S3cret%zz@redis:6379/0", "redis://:S3cret#x@redis:6379/0", "redis://:S3cret/x@redis:6379/0",
		"redis://:12/S3cret@redis:6379/0",
		"redis://:12?S3cret@redis:6379/0", "S3cret@redis:6379", "user:S3cret@redis:6379", "S3cret://redis",
		"redis://redis:6379/0?S3cret=1",
		"redis://redis:6379/S3cret", "redis://:S3cret@redis:x6379/0", ":S3cret@redis:6379/0",
		"redis://redis:6379/0?read_timeout=S3cret", "", "redis:S3cret:6379",
	} {
		_, err := redisbreaker.Open(url, nil, redisbreaker.DefaultTimeouts())
		require.ErrorIs(t, err, redisbreaker.ErrURL, url)
		require.NotContains(t, strings.ToLower(err.Error()), "s3cret")
	}
	client, err := redisbreaker.Open("rediss://muster:p%25%23%2F%3F%40@redis:6380/2", nil,
		redisbreaker.DefaultTimeouts())
	require.NoError(t, err)
	options := client.Options()
	require.Equal(t, []any{"redis:6380", "muster", "p%#/?@", 2, true},
		[]any{options.Addr, options.Username, options.Password, options.DB, options.TLSConfig != nil})
	require.NoError(t, client.Close())
}

func TestOpen_SentinelsAndCertificates(t *testing.T) {
	const watched = "rediss://s:S3cret@one:26379/2?master_name=muster&addr=two:26379&username=u&password=S3cret"
	authority, err := tlstest.NewAuthority()
	require.NoError(t, err)
	files, err := authority.Write(t.TempDir(), "muster")
	require.NoError(t, err)
	vars := files.Env("REDIS")
	settings, err := tlsclient.FromEnv(func(name string) string { return vars[name] }, "REDIS")
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		url, says string
		files     *tlsclient.Settings
	}{
		"no name":                      {"redis://one:26379/0?master_name=", "not a URL such as", nil},
		"no address":                   {watched + "&addr=three", "not a URL such as", nil},
		"unsupported option":           {watched + "&quorum=2", "not a URL such as", nil},
		"replicas":                     {watched + "&replica_only=true", "replica_only", nil},
		"the nearest":                  {watched + "&route_by_latency=true", "route_by_latency", nil},
		"any":                          {watched + "&route_randomly=true", "route_randomly", nil},
		"certificates without TLS":     {"redis://:S3cret@redis:6379/0", "write rediss://", settings},
		"Sentinels of them":            {strings.Replace(watched, "rediss", "redis", 1), "write rediss://", settings},
		"certificates to a local file": {"unix:///run/redis.sock", "write rediss://", settings},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := redisbreaker.Open(tc.url, tc.files, redisbreaker.DefaultTimeouts())
			require.ErrorContains(t, err, tc.says)
			require.NotContains(t, err.Error(), "S3cret")
		})
	}
	for url, host := range map[string]string{watched: "", "rediss://redis:6380/0": "redis"} {
		client, err := redisbreaker.Open(url, settings, redisbreaker.DefaultTimeouts())
		require.NoError(t, err)
		secure := client.Options().TLSConfig
		require.Equal(t, host, secure.ServerName, "the name of each server")
		require.NotNil(t, secure.GetClientCertificate)
		require.NotNil(t, secure.RootCAs)
		require.NoError(t, client.Close())
	}
}
