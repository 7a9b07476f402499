package queryapi_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muster/platform/engine/enginetest"
	"muster/platform/polltest"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

func TestCompression(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson,
		networkPerson("p1", "octavia", "2026-01-01", `"summary":"`+strings.Repeat("Compilers. ", 500)+`"`))
	plain := f.get(networkPath + "?network=octavia")
	require.Empty(t, plain.header.Get("Content-Encoding"))
	require.Contains(t, plain.header.Values("Vary"), "Accept-Encoding")
	for coding, open := range map[string]func(io.Reader) (io.Reader, error){
		"gzip": func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
		"zstd": func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r) },
	} {
		got := f.do("GET", networkPath+"?network=octavia", "", map[string]string{"Accept-Encoding": coding})
		require.Equal(t, coding, got.header.Get("Content-Encoding"))
		require.Less(t, len(got.body), len(plain.body)/10)
		r, err := open(strings.NewReader(got.body))
		require.NoError(t, err)
		body, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, plain.body, string(body))
	}
}

func TestCompression_SmallResponses(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson,
		networkPerson("p1", "octavia", "2026-01-01", `"summary":"`+strings.Repeat("Compilers. ", 20)+`"`))
	zipped := map[string]string{"Accept-Encoding": "gzip"}
	got := f.do("GET", networkPath+"?network=octavia", "", zipped)
	require.Equal(t, "gzip", got.header.Get("Content-Encoding"))
	require.Less(t, len(got.body), len(f.get(networkPath+"?network=octavia").body))
	miss := f.do("GET", networkPath+"?network=missing", "", zipped)
	require.Empty(t, miss.header.Get("Content-Encoding"))
	require.Equal(t, "{}", miss.body)
}

func TestRequestIDs(t *testing.T) {
	f := start(t, nil)
	seen := make(map[string]bool)
	for range 20 {
		id := f.get(codehostPath + "?codehost=x").header.Get("X-Request-Id")
		require.NotEmpty(t, id)
		require.False(t, seen[id])
		seen[id] = true
	}
	// The request ID of a client is not used: the ID identifies a call in the ledger.
	got := f.do("GET", codehostPath+"?codehost=x", "", map[string]string{"X-Request-Id": "mine"})
	require.NotEqual(t, "mine", got.header.Get("X-Request-Id"))
}

func TestAccounts_ChangesReachRunningReplica(t *testing.T) {
	f := start(t, nil)
	other := openAccounts(t, f.bus)
	keyBecomes := func(key string, status int, detail string) {
		t.Helper()
		got := waitForStatus(t, status, func() response {
			return f.do("POST", enrichPath, `{"codehost":"x"}`, map[string]string{"Authorization": "Bearer " + key})
		})
		if detail != "" {
			require.Contains(t, got.detail(), detail)
		}
	}
	keyBecomes(f.key, 200, "")
	require.Equal(t, []event.Organization{f.organization}, other.Organizations())
	_, err := other.SetActive(t.Context(), f.organization.ID, false)
	require.NoError(t, err)
	keyBecomes(f.key, 403, "inactive")
	got := f.do("GET", networkPath, "", nil)
	require.Equal(t, 403, got.status, "on every endpoint, before the input is read")
	_, err = other.SetActive(t.Context(), f.organization.ID, true)
	require.NoError(t, err)
	keyBecomes(f.key, 200, "")

	k, secret, err := other.CreateKey(t.Context(), f.organization.ID,
		queryapi.KeyOptions{Name: "ci", Scopes: []string{"enrich", "enrich"}, ExpiresAt: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	require.Equal(t, []string{"enrich"}, k.Scopes)
	keyBecomes(secret.Reveal(), 200, "")
	got = f.do("GET", networkPath+"?network=x", "", map[string]string{"Authorization": "Bearer " + secret.Reveal()})
	require.Equal(t, 403, got.status)
	require.Contains(t, got.detail(), "scope webset")
	revoked, err := other.RevokeKey(t.Context(), k.ID)
	require.NoError(t, err)
	keyBecomes(secret.Reveal(), 401, "revoked")
	again, err := other.RevokeKey(t.Context(), k.ID)
	require.NoError(t, err)
	require.Equal(t, revoked, again)
	keyBecomes(f.key, 200, "")

	_, err = other.SetActive(t.Context(), "missing", true)
	require.ErrorIs(t, err, queryapi.ErrNoSuchAccount)
	_, _, err = other.CreateKey(t.Context(), "missing", queryapi.KeyOptions{})
	require.ErrorIs(t, err, queryapi.ErrNoSuchAccount)
	_, err = other.RevokeKey(t.Context(), "nobody00")
	require.ErrorIs(t, err, queryapi.ErrNoSuchAccount)
	_, _, err = other.CreateKey(t.Context(), f.organization.ID, queryapi.KeyOptions{Scopes: []string{"everything"}})
	require.ErrorContains(t, err, `unknown scope "everything"`)
	_, _, err = other.CreateKey(t.Context(), f.organization.ID,
		queryapi.KeyOptions{ExpiresAt: time.Now().Add(-time.Hour)})
	require.ErrorContains(t, err, "expiry time is in the past")
	_, err = other.CreateOrganization(t.Context(), " ", "")
	require.Error(t, err)

	// Nothing that is stored or logged reveals a key.
	require.Len(t, other.Keys(f.organization.ID), 2)
	require.NotContains(t, f.log.String(), secret.Reveal()[20:])
	require.NotContains(t, f.log.String(), f.key[20:])
}

func TestBatching_ConcurrentCallsShareQueries(t *testing.T) {
	f := start(t, nil)
	var people []string
	for i := range 64 {
		people = append(people,
			codehostPerson(i, "user-"+string(rune('a'+i%26))+strings.Repeat("x", i/26), "2026-01-01"))
	}
	f.insert(record.KindCodehostPerson, people...)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			f := *f
			for range 5 {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.service.URL()+enrichPath,
					strings.NewReader(`{"codehost":"user-`+string(rune('a'+i%26))+strings.Repeat("x", i/26)+`"}`))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer "+f.key)
				req.Header.Set("Content-Type", "application/json")
				resp, err := f.client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				if err != nil || !bytes.Contains(body,
					[]byte(`"user_id":`+people[i][len(`{"user_id":`):strings.IndexByte(people[i], ',')]+`,`)) {
					t.Errorf("%d: %v %s", i, err, body)
				}
				_ = resp.Body.Close()
			}
		})
	}
	wg.Wait()
	require.Less(t, f.queries(readmodel.AnswersTable), 320/2)
}

func TestStore_OutageIs500WithRetryAfter(t *testing.T) {
	engine, err := enginetest.Start(t.Context())
	require.NoError(t, err)
	dsn, err := engine.FreshDatabase(t.Context())
	require.NoError(t, err)
	require.NoError(t, migrate(t.Context(), dsn))
	f := start(t, func(_ *queryapi.Config, deps *queryapi.Deps) { deps.ClickHouse = openStore(t, dsn) })
	require.Equal(t, 200, f.post(enrichPath, `{"codehost":"x"}`).status)
	require.NoError(t, engine.Close())
	for _, got := range []response{
		f.post(enrichPath, `{"codehost":"x"}`), f.post(companyPath, `{"network_slug":"x"}`),
		f.get(networkPath + "?network=x"), f.post(codehostPath, `{"codehost":["x","1"]}`),
	} {
		require.Equal(t, 500, got.status)
		require.Equal(t, "2", got.header.Get("Retry-After"))
		require.Equal(t, "the data store cannot answer at present: call again in 2 seconds", got.detail())
	}
	require.NoError(t, f.service.Ready(t.Context()), "still responds")
	require.Contains(t, f.log.String(), "readstore: query failed")
}

func TestStore_MissingTableIsAnOutage(t *testing.T) {
	f := start(t, nil)
	require.NoError(t, f.conn.Exec(t.Context(), "DROP TABLE lookups SYNC"))
	require.Equal(t, 500, f.post(enrichPath, `{"codehost":"x"}`).status)
}

func TestRequest_TimesOut(t *testing.T) {
	f := start(t, func(cfg *queryapi.Config, _ *queryapi.Deps) { cfg.RequestTimeout = time.Nanosecond })
	got := f.post(enrichPath, `{"codehost":"x"}`)
	require.Equal(t, 500, got.status)
	require.Equal(t, "2", got.header.Get("Retry-After"))
}

func TestLog_HasNoPersonalData(t *testing.T) {
	f := start(t, nil)
	f.post(enrichPath, `{"email":"person@private.example"}`)
	f.get(networkPath + "?network=person-private")
	f.get("/person-private")
	log := f.log.String()
	require.Contains(t, log, `"route":"/v1/webset/network/person"`)
	require.Contains(t, log, `"route":"unmatched"`)
	require.Contains(t, log, f.organization.ID)
	require.NotContains(t, log, "private")
}

func TestMetrics(t *testing.T) {
	f := start(t, nil)
	f.post(enrichPath, `{"codehost":"x"}`)
	f.post(enrichPath, `{}`)
	families, err := f.registry.Gather()
	require.NoError(t, err)
	counts := make(map[string]float64)
	for _, family := range families {
		if family.GetName() == "muster_http_requests_total" {
			for _, m := range family.GetMetric() {
				var labels []string
				for _, l := range m.GetLabel() {
					labels = append(labels, l.GetValue())
				}
				counts[strings.Join(labels, " ")] = m.GetCounter().GetValue()
			}
		}
	}
	require.Equal(t, map[string]float64{"POST " + enrichPath + " 200": 1, "POST " + enrichPath + " 422": 1}, counts)
}

func TestStop_FinishesRequestsInFlight(t *testing.T) {
	f := start(t, nil)
	registry := prometheus.NewRegistry()
	service, err := queryapi.New(t.Context(),
		queryapi.Config{Addr: "127.0.0.1:0", DataDir: t.TempDir(), StopTimeout: waitTimeout},
		queryapi.Deps{Secret: testSecret(t), ClickHouse: f.conn, Bus: f.bus, Registerer: registry})
	require.NoError(t, err)
	require.ErrorContains(t, service.Ready(t.Context()), "not running")
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- service.Run(ctx) }()
	ready(t, service)

	// A request whose body is still being sent.
	conn, err := net.Dial("tcp", service.Addr())
	require.NoError(t, err)
	defer conn.Close()
	body := `{"codehost":"missing"}`
	_, err = io.WriteString(conn,
		"POST "+enrichPath+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: "+
			"application/json\r\nAuthorization: Bearer "+f.key+"\r\nContent-Length: "+strconv.Itoa(len(body))+
			"\r\n\r\n"+body[:5])
	require.NoError(t, err)
	polltest.Until(t, waitTimeout, func() bool { return inFlight(t, registry) }, "the request does not begin")
	stop()
	polltest.Until(t, waitTimeout, func() bool {
		c, err := net.Dial("tcp", service.Addr())
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	}, "it still takes connections")
	_, err = io.WriteString(conn, body[5:])
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(answer), "HTTP/1.1 200 OK")
	require.NoError(t, <-stopped)
}

func TestRequestLine_TooLongIsInvalidInput(t *testing.T) {
	f := start(t, nil)
	for bytes, header := range map[int]bool{70_000: false, 250_000: false, 69_999: true} {
		path, headers := networkPath+"?network="+strings.Repeat("x", bytes), map[string]string{}
		if header {
			path, headers["X-Long"] = networkPath+"?network=x", strings.Repeat("x", bytes)
		}
		r := f.do(http.MethodGet, path, "", headers)
		require.Equal(t, http.StatusBadRequest, r.status)
		require.Contains(t, r.detail(), "and may have 65536")
		require.NotEmpty(t, r.header.Get("X-Request-Id"))
	}
	r := f.do(http.MethodPost, enrichPath, "{}", map[string]string{"X-Long": strings.Repeat("x", 70_000)})
	require.Equal(t, http.StatusUnprocessableEntity, r.status)
	require.Equal(t, http.StatusOK, f.get(networkPath+"?network="+strings.Repeat("x", 100)).status)
}
