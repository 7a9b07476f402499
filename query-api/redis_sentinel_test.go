//go:build redis

package queryapi_test

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"muster/platform/polltest"
	queryapi "muster/query-api"
	"muster/query-api/internal/redistest"
	"muster/schemas/event"
	"muster/schemas/record"
)

// redisAt returns the environment variables for a server.
func redisAt(url string) func(string) string {
	return func(name string) string {
		if name == queryapi.RedisEnv {
			return url
		}
		return ""
	}
}

func TestReplicas_ChargeOnceAcrossSentinelFailover(t *testing.T) {
	for name, tc := range map[string]struct {
		away, back func(*redistest.Server) error
	}{
		"killed": {(*redistest.Server).Kill, nil},
		"silent": {(*redistest.Server).Pause, (*redistest.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary, next := redistest.Start(t), redistest.Start(t)
			next.Follow(t, primary)
			sentinels := redistest.StartSentinels(t, "muster", primary, 1)
			connect := func() redis.UniversalClient {
				client, err := queryapi.OpenRedis(redisAt(sentinels.URL()))
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, client.Close()) })
				return client
			}
			var deps queryapi.Deps
			f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) {
				d.Redis = connect()
				deps = *d
			})
			f.insert(record.KindNetworkPerson, networkPerson("p1", "octavia", "2026-01-01"))
			f.withLimits(func(l *event.Limits) {
				l.Credits, l.RequestsPerMinute, l.MonthlyRequests = 1_000_000, 6_000_000, 1_000_000
			})
			deps.Registerer, deps.Redis = nil, connect()
			urls := []string{f.service.URL(), replica(t, deps)}
			for _, url := range urls {
				waitForStatus(t, http.StatusOK, func() response { return askUsage(t, f, url) })
			}

			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var answered [2]atomic.Int64
			var failed, claimed atomic.Int64
			var callers sync.WaitGroup
			for i := range 8 {
				callers.Go(func() {
					for n := 0; ctx.Err() == nil; n++ {
						// Calls with a key are repeated at the other replica. Interrupted ones find the key claimed for
						// a while.
						keyed, at := i%4 >= 2, i%2
						header := make(http.Header)
						if keyed {
							header.Set("Idempotency-Key", strconv.Itoa(i)+"-"+strconv.Itoa(n))
						}
						for {
							got := askWith(t, f, urls[at], networkPath, `{"network":"octavia"}`, header)
							if got.status == http.StatusOK {
								answered[at].Add(1)
								break
							}
							if got.status != http.StatusInternalServerError &&
								(!keyed || got.status != http.StatusConflict) {
								t.Errorf("%d %s", got.status, got.body)
								return
							}
							if got.header.Get("X-Credits-Charged") != "" {
								t.Errorf("it is charged: %s", got.body)
							}
							if got.status == http.StatusConflict {
								claimed.Add(1)
							} else {
								failed.Add(1)
							}
							<-time.After(50 * time.Millisecond)
							if !keyed || ctx.Err() != nil {
								break // not charged
							}
							at = 1 - at
						}
					}
				})
			}
			defer callers.Wait()
			defer stop()
			more := func(what string, n int64) {
				t.Helper()
				before := [2]int64{answered[0].Load(), answered[1].Load()}
				polltest.Until(t, 2*waitTimeout, func() bool {
					return answered[0].Load() >= before[0]+n && answered[1].Load() >= before[1]+n
				}, what)
			}
			more("calls are not answered", 20)
			// The new primary has old data. Sentinels do not promote a replica disconnected for more than half a
			// minute.
			next.LoseTrack(t, primary)
			more("calls are not answered without a replica", 3)
			require.NoError(t, tc.away(primary))
			require.NoError(t, sentinels.All()[0].Kill(), "one of three Sentinels may be down, too")
			next.WaitRole(t, "master")
			more("calls are not answered again", 20)
			if tc.back != nil {
				require.NoError(t, tc.back(primary))
				more("calls end when the former primary is back", 20)
				primary.WaitRole(t, "slave")
				more("calls end when the former primary follows", 20)
			}
			stop()
			callers.Wait()
			want := answered[0].Load() + answered[1].Load()
			t.Logf("%d calls were answered, %d failed, %d found their key claimed", want, failed.Load(), claimed.Load())
			for _, url := range urls {
				var used int64
				polltest.Until(t, waitTimeout, func() bool {
					used, _ = credits(t, f, url)
					return used == want
				}, "%d credits are used, %d calls were answered", func() any { return used }, want)
			}
			var charged int64
			polltest.Until(t, waitTimeout, func() bool {
				calls := make(map[string]int64)
				for _, u := range f.published() {
					calls[u.RequestID] = u.Credits
				}
				charged = 0
				for _, n := range calls {
					charged += n
				}
				return charged == want
			}, "the ledger charges %d credits, %d calls were answered", func() any { return charged }, want)
		})
	}
}
