package queryapi_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"muster/platform/polltest"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/record"
)

// slow is a store whose statements block while held, and ignore cancellation.
type slow struct {
	driver.Conn
	wait    atomic.Pointer[chan struct{}]
	waiting atomic.Int64
}

func (s *slow) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	if wait := s.wait.Load(); wait != nil {
		s.waiting.Add(1)
		defer s.waiting.Add(-1)
		<-*wait
	}
	return s.Conn.Query(ctx, query, args...)
}

// hold blocks statements until the returned function is called.
func (s *slow) hold(t *testing.T) (release func()) {
	wait := make(chan struct{})
	s.wait.Store(&wait)
	var released atomic.Bool
	release = func() {
		if s.wait.Store(nil); released.CompareAndSwap(false, true) {
			close(wait)
		}
	}
	t.Cleanup(release)
	return release
}

// Neither is the 503 of a query that exceeds its deadline.
func TestSearch_OverloadErrorIsNotStored(t *testing.T) {
	conn := &slow{}
	f := start(t, func(c *queryapi.Config, d *queryapi.Deps) {
		c.SearchQueries, c.SearchTimeout, c.SearchDeadline = 1, 500*time.Millisecond, time.Second
		conn.Conn = d.ClickHouse
		d.ClickHouse = conn
	})
	f.insert(record.KindNetworkPerson, searchPeople()...)
	const query = `{"query":{"term":{"profile.headline.keyword":"Data"}},"size":0}`
	another := strings.Replace(query, `"size":0`, `"size":1`, 1)
	const search, explain = "/v1/person/search", "/v1/person/search/explain"
	key := idempotent("k")
	for _, path := range []string{search, explain} {
		release := conn.hold(t)
		first := make(chan response, 1)
		go func() { first <- f.do(http.MethodPost, path, another, idempotent("first")) }()
		polltest.Until(t, waitTimeout, func() bool { return conn.waiting.Load() > 0 }, "query started")
		for _, path := range []string{search, explain} {
			r := f.do(http.MethodPost, path, query, key)
			require.Equal(t, http.StatusServiceUnavailable, r.status, r.body)
			require.Equal(t, "2", r.header.Get("Retry-After"))
			require.Contains(t, r.detail(), "1s", "waits for the first query, or for data that both need")
		}
		require.EqualValues(t, 1, conn.waiting.Load(), "the calls share a statement")
		release()
		r := <-first
		require.Equal(t, http.StatusServiceUnavailable, r.status, r.body)
		require.Equal(t, "2", r.header.Get("Retry-After"))
		require.Contains(t, r.detail(), "1s")
	}
	require.NotContains(t, f.log.String(), `"level":"ERROR"`)
	for _, path := range []string{search, explain} {
		for name, body := range map[string]string{"k": query, "first": another} {
			var r response
			polltest.Until(t, waitTimeout, func() bool {
				r = f.do(http.MethodPost, path, body, idempotent(name))
				require.Empty(t, r.header.Get("Idempotent-Replayed"))
				return r.status == http.StatusOK && r.json()["refused"] == nil
			}, "it is answered: %s", func() any { return r.body })
		}
	}
}

func TestCredits_HeldByOtherCallsAreRetryable(t *testing.T) {
	conn := &slow{}
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) {
		conn.Conn = d.ClickHouse
		d.ClickHouse = conn
	})
	f.withLimits(func(l *event.Limits) { l.Credits = 3 })
	release := conn.hold(t)
	first := make(chan response, 1)
	go func() { first <- f.post(networkPath, `{"network":["a","b","c"]}`) }()
	polltest.Until(t, waitTimeout, func() bool { return conn.waiting.Load() > 0 }, "query started")
	r := f.post(networkPath, `{"network":["a","b"]}`)
	require.Equal(t, http.StatusTooManyRequests, r.status, r.body)
	require.Equal(t, "5", r.header.Get("Retry-After"))
	require.Contains(t, r.detail(),
		"insufficient credits: 0 credits are held, and this call needs up to 2: running calls have reserved 3")
	release()
	require.Equal(t, http.StatusOK, (<-first).status)
	waitForStatus(t, http.StatusOK, func() response { return f.post(networkPath, `{"network":["a","b"]}`) })
	r = f.post(networkPath, `{"network":["a","b","c","d"]}`)
	require.Contains(t, r.detail(), "new credits come on")
}

// denied is a store whose user may not read the list of parts.
type denied struct{ driver.Conn }

func (d denied) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	if strings.Contains(query, "system.parts") {
		return nil, &ch.Exception{Code: 497, Name: "DB::Exception", Message: "muster: Not enough privileges"}
	}
	return d.Conn.Query(ctx, query, args...)
}

func TestSearch_MissingGrantIsNamed(t *testing.T) {
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) { d.ClickHouse = denied{d.ClickHouse} })
	r := f.post("/v1/person/search", `{"query":{"match_all":{}}}`)
	require.Equal(t, http.StatusServiceUnavailable, r.status, r.body)
	require.Equal(t, "2", r.header.Get("Retry-After"))
	require.Contains(t, r.detail(), "GRANT SELECT ON system.parts")
}
