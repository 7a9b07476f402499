//go:build redis

package queryapi_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"muster/platform/polltest"
	queryapi "muster/query-api"
	"muster/query-api/internal/redistest"
	"muster/schemas/record"
)

// Calls fail immediately, and the log reports the outage once.
func TestAPI_RedisOutageAllowsRatesAndFailsCharges(t *testing.T) {
	server := redistest.Start(t)
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) {
		client, err := queryapi.OpenRedis(redisAt(server.URL()))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		d.Redis = client
	})
	f.insert(record.KindNetworkPerson, networkPerson("p1", "octavia", "2026-01-01"))
	waitForStatus(t, http.StatusOK,
		func() response { return ask(t, f, f.service.URL(), networkPath, `{"network":"octavia"}`) })

	// calls makes calls of one key at a steady rate and returns how long each took.
	calls := func(n int, body string, status int) []time.Duration {
		took := make([]time.Duration, n)
		var all sync.WaitGroup
		for i := range took {
			all.Go(func() {
				began := time.Now()
				got := ask(t, f, f.service.URL(), networkPath, body)
				took[i] = time.Since(began)
				if got.status != status {
					t.Errorf("%d %s", got.status, got.body)
				}
			})
			<-time.After(20 * time.Millisecond)
		}
		all.Wait()
		slices.Sort(took)
		return took
	}
	for _, tc := range []struct {
		name       string
		away, back func() error
	}{
		{"killed", server.Kill, func() error { return server.Restart(t.Context()) }},
		{"stopped", server.Pause, server.Resume},
	} {
		t.Run(tc.name, func(t *testing.T) {
			logged := len(f.log.String())
			require.NoError(t, tc.away())
			free := calls(50, `{}`, http.StatusBadRequest)
			charged := calls(50, `{"network":"octavia"}`, http.StatusInternalServerError)
			t.Logf("free: median %s, longest %s; charged: median %s, longest %s", free[25], free[49], charged[25],
				charged[49])
			// Durations of calls in flight include pauses of this process.
			for _, took := range [][]time.Duration{free, charged} {
				require.Less(t, took[25], 500*time.Millisecond)
				require.Less(t, took[37], 1500*time.Millisecond)
				require.Less(t, took[49], 9*time.Second, "a request that hangs ends after ten seconds")
			}
			require.NoError(t, tc.back())
			// The end of the outage is logged after five seconds without failures.
			var got response
			polltest.Until(t, 2*time.Minute, func() bool {
				got = ask(t, f, f.service.URL(), networkPath, `{"network":"octavia"}`)
				return got.status == http.StatusOK &&
					strings.Contains(f.log.String()[logged:], "redis: available again")
			}, "the last answer is %d, and the log does not say that redis: available again",
				func() any { return got.status })
			// A busy machine may cause other outages before and after.
			told, _, _ := strings.Cut(f.log.String()[logged:], "redis: available again")
			lines := slices.DeleteFunc(slices.Collect(strings.Lines(told)), func(line string) bool {
				return strings.Contains(line, `"level":"DEBUG"`) || !strings.Contains(strings.ToLower(line), "redis")
			})
			require.LessOrEqual(t, len(lines), 1, lines)
		})
	}
}

// underWay counts the commands in flight.
type underWay struct{ n atomic.Int64 }

func (u *underWay) DialHook(next redis.DialHook) redis.DialHook { return next }

func (u *underWay) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		u.n.Add(1)
		defer u.n.Add(-1)
		return next(ctx, cmd)
	}
}

func (u *underWay) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestService_SendsNothingToRedisAfterStop(t *testing.T) {
	server := redistest.Start(t)
	u := &underWay{}
	var cfg queryapi.Config
	var deps queryapi.Deps
	f := start(t, func(c *queryapi.Config, d *queryapi.Deps) {
		d.Redis = server.Client(t)
		cfg, deps = *c, *d
	})
	client := server.Client(t)
	client.AddHook(u)
	cfg.DataDir, deps.Registerer, deps.Redis = t.TempDir(), nil, client
	s, err := queryapi.New(t.Context(), cfg, deps)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Run(ctx) }()
	ready(t, s)
	waitForStatus(t, http.StatusBadRequest, func() response { return ask(t, f, s.URL(), networkPath, `{}`) })

	require.NoError(t, server.Pause())
	resume := sync.OnceValue(server.Resume)
	t.Cleanup(func() { require.NoError(t, resume()) })
	require.Equal(t, http.StatusBadRequest, ask(t, f, s.URL(), networkPath, `{}`).status, "it passes without its rate")
	require.Positive(t, u.n.Load(), "the rate check still runs")
	time.AfterFunc(500*time.Millisecond, func() {
		if err := resume(); err != nil {
			t.Error(err)
		}
	})
	stop()
	require.NoError(t, <-stopped)
	require.Zero(t, u.n.Load())
}
