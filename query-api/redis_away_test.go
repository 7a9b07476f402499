//go:build redis

package queryapi_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/query-api/internal/redistest"
	"muster/schemas/record"
)

// While Redis is away, calls of one key neither hang nor queue: what the rate alone is
// asked for passes, what costs something fails, at once. The log tells of the outage
// once, and of its end.
func TestRedisAway(t *testing.T) {
	server := redistest.Start(t)
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) {
		client, err := queryapi.OpenRedis(server.URL())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		d.Redis = client
	})
	f.insert(record.KindNetworkPerson, networkPerson("p1", "octavia", "2026-01-01"))
	require.Equal(t, http.StatusOK, ask(t, f, f.service.URL(), networkPath, `{"network":"octavia"}`).status)

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
			t.Logf("free: median %s, longest %s; charged: median %s, longest %s", free[25], free[49], charged[25], charged[49])
			for _, took := range [][]time.Duration{free, charged} {
				require.Less(t, took[25], 100*time.Millisecond)
				require.Less(t, took[49], 2*time.Second)
			}
			require.NoError(t, tc.back())
			require.Eventually(t, func() bool {
				return ask(t, f, f.service.URL(), networkPath, `{"network":"octavia"}`).status == http.StatusOK &&
					strings.Contains(f.log.String()[logged:], "Redis answers again")
			}, patience, 100*time.Millisecond)
			// A busy machine may have had an outage begin before, and another one after.
			told, _, _ := strings.Cut(f.log.String()[logged:], "Redis answers again")
			lines := slices.DeleteFunc(slices.Collect(strings.Lines(told)), func(line string) bool {
				return strings.Contains(line, `"level":"DEBUG"`) || !strings.Contains(strings.ToLower(line), "redis")
			})
			require.LessOrEqual(t, len(lines), 1, lines)
		})
	}
}
