//go:build redis

package queryapi_test

import (
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muster/platform/polltest"
	queryapi "muster/query-api"
	"muster/query-api/internal/redistest"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// 64 clients of three replicas spend the last 100 credits exactly, also while the server is killed
// and comes back empty.
func TestReplicas_ShareCreditsRatesAndAnswers(t *testing.T) {
	server := redistest.Start(t)
	var deps queryapi.Deps
	f := start(t, func(c *queryapi.Config, d *queryapi.Deps) {
		c.SetRedisTimeoutFactor(redisTimeoutFactor)
		d.Redis = server.Client(t)
		deps = *d
	})
	f.insert(record.KindNetworkPerson, networkPerson("p1", "octavia", "2026-01-01"))
	f.withLimits(func(l *event.Limits) { l.Credits = 100 })
	urls := []string{f.service.URL()}
	for range 2 {
		deps.Registerer, deps.Redis = nil, server.Client(t)
		urls = append(urls, replica(t, deps))
	}
	for _, url := range urls {
		var limit int64
		polltest.Until(t, waitTimeout, func() bool {
			_, limit = credits(t, f, url)
			return limit == 100
		}, "the plan does not hold at every replica: %d", func() any { return limit })
	}

	const callers, calls = 64, 4
	var spent, refused atomic.Int64
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for j := range calls {
				switch got := ask(t, f, urls[(i+j)%len(urls)], networkPath, `{"network":"octavia"}`); got.status {
				case http.StatusOK:
					n, err := strconv.Atoi(got.header.Get("X-Credits-Charged"))
					if err != nil {
						t.Error(err)
					}
					spent.Add(int64(n))
				case http.StatusTooManyRequests:
					refused.Add(1)
				default:
					t.Errorf("%d %s", got.status, got.body)
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 100, spent.Load())
	require.EqualValues(t, callers*calls-100, refused.Load())
	for _, url := range urls {
		used, _ := credits(t, f, url)
		require.EqualValues(t, 100, used)
	}

	// Without Redis nothing is charged, because the remaining credits are unknown.
	f.withLimits(func(l *event.Limits) { l.Credits = 120 })
	require.NoError(t, server.Kill())
	for _, url := range urls {
		got := ask(t, f, url, networkPath, `{"network":"octavia"}`)
		require.Equal(t, http.StatusInternalServerError, got.status, got.body)
		require.NotEmpty(t, got.header.Get("Retry-After"))
		require.Empty(t, got.header.Get("X-Credits-Charged"))
		require.Equal(t, "the balances of this service cannot be read at present, and nothing was charged: call "+
			"again in 2 seconds", got.detail())
		got = askUsage(t, f, url)
		require.Equal(t, http.StatusServiceUnavailable, got.status, got.body)
		require.NotEmpty(t, got.header.Get("Retry-After"))
		got = ask(t, f, url, enrichPath, `{}`)
		require.Equal(t, http.StatusUnprocessableEntity, got.status, "rates are open: the request itself is looked at")
	}

	// An empty server is loaded with the sums of the ledger before any charge.
	require.NoError(t, server.Restart(t.Context()))
	for _, url := range urls {
		waitForStatus(t, http.StatusOK, func() response { return ask(t, f, url, networkPath, `{"network":"missing"}`) })
		used, _ := credits(t, f, url)
		require.EqualValues(t, 100, used, "spent credits stay spent")
	}
	for range 20 {
		require.Equal(t, 1, charged(t, ask(t, f, urls[1], networkPath, `{"network":"octavia"}`)))
	}
	require.Equal(t, http.StatusTooManyRequests, ask(t, f, urls[2], networkPath, `{"network":"octavia"}`).status)
}

func TestReplicas_DropStoredAnswersOfErasedPerson(t *testing.T) {
	server := redistest.Start(t)
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	var deps queryapi.Deps
	f := start(t, func(c *queryapi.Config, d *queryapi.Deps) {
		c.SetRedisTimeoutFactor(redisTimeoutFactor)
		d.Redis, d.Suppressed = server.Client(t), set
		deps = *d
	})
	deps.Registerer, deps.Redis = nil, server.Client(t)
	answersOfTheErased(t, f, set, f.service.URL(), replica(t, deps))
}

func TestReplicas_OtherReplicaDeliversContextOfStoppedOne(t *testing.T) {
	server := redistest.Start(t)
	contextWhenTheServiceStops(t, func(d *queryapi.Deps) { d.Redis = server.Client(t) })
}

func TestContext_IsChargedAfterRedisOutage(t *testing.T) {
	const contextPath = "/v1/context"
	server := redistest.Start(t)
	f := start(t, func(c *queryapi.Config, d *queryapi.Deps) {
		c.WebhookAllow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		client, err := queryapi.OpenRedis(redisAt(server.URL()))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		d.Redis = client
	})
	w := startContextWorker(f, func(event.ContextTask) *event.Context { return nil })
	var ids []string
	for _, webhook := range []string{"", `,"webhook_url":"http://127.0.0.1:1/hook"`} {
		waitForStatus(t, http.StatusOK, func() response { return askUsage(t, f, f.service.URL()) })
		got := make(chan response, 1)
		go func() {
			got <- ask(t, f, f.service.URL(), contextPath, `{"person":"x","response_timeout_sec":120`+webhook+`}`)
		}()
		id := w.onlyTask(ids...)
		ids = append(ids, id)
		require.NoError(t, server.Pause())
		resume := sync.OnceValue(server.Resume)
		t.Cleanup(func() { require.NoError(t, resume()) })
		w.finish(id, complete(aProfile))
		r := <-got
		require.NoError(t, resume())
		if webhook == "" {
			require.Equal(t, http.StatusGatewayTimeout, r.status, r.body)
			require.Contains(t, r.detail(), id)
			require.NotContains(t, r.detail(), "nothing was charged")
			require.JSONEq(t, aProfile,
				waitForStatus(t, http.StatusOK, func() response { return f.get(contextPath + "/" + id) }).body)
		} else {
			require.Equal(t, id, requestID(r))
			var body string
			polltest.Until(t, waitTimeout, func() bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				if len(w.deliveries[id]) > 0 {
					body = string(w.deliveries[id][0].Body)
				}
				return body != ""
			}, "it is not delivered")
			require.JSONEq(t, aProfile, body)
		}
		polltest.Until(t, waitTimeout, func() bool {
			r := askUsage(t, f, f.service.URL())
			return r.status == http.StatusOK && f.credits() == int64(len(ids))
		}, "it is not charged")
	}
}

// replica runs another service over the same store and topics until the test ends.
func replica(t *testing.T, deps queryapi.Deps) (url string) {
	t.Helper()
	cfg := queryapi.Config{Addr: "127.0.0.1:0", DataDir: t.TempDir()}
	cfg.SetRedisTimeoutFactor(redisTimeoutFactor)
	s, err := queryapi.New(t.Context(), cfg, deps)
	require.NoError(t, err)
	run(t, s)
	return s.URL()
}

// ask posts to one replica. It may run in any goroutine.
func ask(t *testing.T, f *fixture, url, path, body string) response {
	return askWith(t, f, url, path, body, make(http.Header))
}

// askWith is ask with further headers.
func askWith(t *testing.T, f *fixture, url, path, body string, header http.Header) response {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return response{t: t}
	}
	req.Header = header
	req.Header.Set("Authorization", "Bearer "+f.key)
	req.Header.Set("Content-Type", "application/json")
	return answerOf(t, req)
}

func askUsage(t *testing.T, f *fixture, url string) response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/usage", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+f.key)
	return answerOf(t, req)
}

func answerOf(t *testing.T, req *http.Request) response {
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return response{t: t}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return response{t: t, status: resp.StatusCode, header: resp.Header, body: string(body)}
}

// credits returns the used credits and the limit reported by a replica.
func credits(t *testing.T, f *fixture, url string) (used, limit int64) {
	t.Helper()
	got := askUsage(t, f, url)
	require.Equal(t, http.StatusOK, got.status, got.body)
	var u struct {
		Credits struct{ Used, Limit int64 } `json:"credits"`
	}
	require.NoError(t, json.Unmarshal([]byte(got.body), &u, json.MatchCaseInsensitiveNames(true)))
	return u.Credits.Used, u.Credits.Limit
}

// Three replicas share a job; one of them ends in the middle.
func TestReplicas_ShareBulkJobs(t *testing.T) {
	server := redistest.Start(t)
	var deps queryapi.Deps
	f := start(t, func(c *queryapi.Config, d *queryapi.Deps) {
		c.SetRedisTimeoutFactor(redisTimeoutFactor)
		d.Redis = server.Client(t)
		deps = *d
	})
	const rows, people = 3000, 30
	bulkPeople(f, people)
	f.withLimits(func(l *event.Limits) { l.Credits, l.MonthlyRequests = rows, rows })
	var others []*queryapi.Service
	var stops []func()
	for range 2 {
		deps.Registerer, deps.Redis = prometheus.NewRegistry(), server.Client(t)
		cfg := queryapi.Config{Addr: "127.0.0.1:0", DataDir: t.TempDir()}
		cfg.SetRedisTimeoutFactor(redisTimeoutFactor)
		s, err := queryapi.New(t.Context(), cfg, deps)
		require.NoError(t, err)
		stops = append(stops, run(t, s))
		others = append(others, s)
	}
	id := f.accepted(f.submit("operation=person_enrich", ndjsonType, rowsOf(rows, people), nil))
	refused := f.submit("operation=person_enrich", ndjsonType, rowsOf(1, people), nil)
	require.Equal(t, http.StatusTooManyRequests, refused.status, "all credits are reserved: %s", refused.body)
	polltest.Until(t, waitTimeout, func() bool {
		return f.get("/v1/bulk/" + id).json()["done"].(float64) > rows/4
	}, "the job makes no progress")
	stops[0]()
	f.finished(id, event.BulkDone)
	f.requireAllRows(id, rows, people)
	f.spends(rows)
	for _, url := range []string{f.service.URL(), others[1].URL()} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/bulk/"+id, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+f.key)
		require.EqualValues(t, rows, answerOf(t, req).json()["credits"])
	}
}
