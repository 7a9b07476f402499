package redisguard_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"muster/query-api/internal/limits"
	"muster/query-api/internal/redisguard"
)

// listen returns the address of a server that takes connections and says nothing; with
// closed, of none.
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

func guarded(t *testing.T, address string, registry *prometheus.Registry) (*redis.Client, *buffer) {
	t.Helper()
	client, err := redisguard.Open("redis://" + address + "/0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	log := &buffer{}
	guard, err := redisguard.New(slog.New(slog.NewTextHandler(log, nil)), registry)
	require.NoError(t, err)
	client.AddHook(guard)
	return client, log
}

// Nobody waits long for a server that is away, and hardly anybody waits at all; those
// neither who come at the same moment.
func TestAway(t *testing.T) {
	for name, closed := range map[string]bool{"refused": true, "silent": false} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			client, log := guarded(t, listen(t, closed), registry)
			rate := limits.NewRedis(client, "rate:")
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					began := time.Now()
					if _, err := rate.Take(t.Context(), "k", 10); err == nil || time.Since(began) > 2*time.Second {
						t.Errorf("%s: %v", time.Since(began), err)
					}
				})
			}
			all.Wait()
			// At first rates alone do without the server.
			_, err := rate.Take(t.Context(), "k", 10)
			require.True(t, errors.Is(err, redisguard.ErrAway) || !closed && errors.Is(err, limits.ErrLate), err)
			began := time.Now()
			for range 200 {
				_, err := rate.Take(t.Context(), "k", 10)
				require.True(t, errors.Is(err, redisguard.ErrAway) || !closed && errors.Is(err, limits.ErrLate), err)
			}
			require.Less(t, time.Since(began), time.Second, "one of them at most has asked")
			require.Eventually(t, func() bool {
				_, err := rate.Take(t.Context(), "k", 10)
				return errors.Is(err, redisguard.ErrAway)
			}, 2*time.Second, time.Millisecond)

			pipe := client.Pipeline()
			set := pipe.Set(t.Context(), "a", 1, 0)
			_, err = pipe.Exec(t.Context())
			require.ErrorIs(t, err, redisguard.ErrAway)
			require.ErrorIs(t, set.Err(), redisguard.ErrAway)

			require.Equal(t, 1, strings.Count(log.b.String(), "\n"), log.b.String())
			require.Contains(t, log.b.String(), "Redis is away")
			require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP muster_breakers Circuit breakers in each state.
# TYPE muster_breakers gauge
muster_breakers{set="redis",state="closed"} 0
muster_breakers{set="redis",state="half-open"} 0
muster_breakers{set="redis",state="open"} 1
`), "muster_breakers"))
		})
	}
}

// Callers who leave, or have no more time, say nothing of Redis.
func TestCallersWhoLeave(t *testing.T) {
	client, log := guarded(t, listen(t, false), prometheus.NewRegistry())
	left, leave := context.WithCancel(t.Context())
	leave()
	for range 5 {
		require.ErrorIs(t, client.Ping(left).Err(), context.Canceled)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Millisecond, cancel)
		err := client.Ping(ctx).Err()
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, redisguard.ErrAway)
		ctx, cancel = context.WithTimeout(t.Context(), 5*time.Millisecond)
		err = client.Ping(ctx).Err()
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, redisguard.ErrAway)
	}
	require.Empty(t, log.b.String())
	began := time.Now()
	require.Error(t, client.Ping(t.Context()).Err())
	require.Greater(t, time.Since(began), 100*time.Millisecond, "it was asked")
}

// What is wrong with a URL is said without the URL: its password may be anywhere in it.
func TestOpenRepeatsNoPassword(t *testing.T) {
	for _, url := range []string{
		"redis://:S3cret%zz@redis:6379/0", "redis://:S3cret#x@redis:6379/0", "redis://:S3cret/x@redis:6379/0", "redis://:12/S3cret@redis:6379/0",
		"redis://:12?S3cret@redis:6379/0", "S3cret@redis:6379", "user:S3cret@redis:6379", "S3cret://redis", "redis://redis:6379/0?S3cret=1",
		"redis://redis:6379/S3cret", "redis://:S3cret@redis:x6379/0", ":S3cret@redis:6379/0", "redis://redis:6379/0?read_timeout=S3cret", "",
	} {
		_, err := redisguard.Open(url)
		require.ErrorIs(t, err, redisguard.ErrURL, url)
		require.NotContains(t, strings.ToLower(err.Error()), "s3cret")
	}
	client, err := redisguard.Open("rediss://muster:p%25%23%2F%3F%40@redis:6380/2")
	require.NoError(t, err)
	options := client.Options()
	require.Equal(t, []any{"redis:6380", "muster", "p%#/?@", 2, true}, []any{options.Addr, options.Username, options.Password, options.DB, options.TLSConfig != nil})
	require.NoError(t, client.Close())
}
