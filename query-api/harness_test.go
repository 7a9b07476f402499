package queryapi_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/platform/engine/enginetest"
	"muster/platform/polltest"
	"muster/platform/service"
	queryapi "muster/query-api"
	"muster/query-api/openapitest"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

func TestMain(m *testing.M) {
	if code, isChild := enginetest.RunIfChild(); isChild {
		os.Exit(code)
	}
	code := enginetest.Main(m)
	closeSearchNode()
	if code == 0 && whole() {
		code = untested()
	}
	os.Exit(code)
}

// description is the checker of all HTTP tests.
var description = sync.OnceValues(openapitest.New)

// whole reports whether all tests of the package ran.
func whole() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return true
}

// untested reports the parts of the OpenAPI document that no test has exercised.
func untested() int {
	checker, err := description()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	missing, err := checker.Missing()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	missing = slices.DeleteFunc(missing, func(name string) bool {
		return slices.ContainsFunc(unreachable(),
			func(u string) bool { return name == u || strings.HasPrefix(name, u+": header ") })
	})
	for _, name := range missing {
		fmt.Fprintln(os.Stderr, "openapi.yaml has parts that no test exercises:", name)
	}
	return min(1, len(missing))
}

// unreachable are the parts that no request here can cover: unexpected errors of operations without dependencies
// (TestServer_PanicIs500WithoutDetails of package v1 covers their body), with their headers, and responses during a
// Redis outage (TestReplicas_ShareCreditsRatesAndAnswers).
func unreachable() []string {
	return []string{
		"callMCP: 500", "callMCP: 503", "discoverPerson: 500", "identifyPerson: 500", "submitFeedback: 500",
		"getBulk: 500", "getBulkResults: 500", "submitBulk: 500", "getOpenAPI: 500",
		"getUsage: 500", "getUsage: 503", "getUsageEvent: 500",
		"getWebhook: 500", "getWebhook: 503", "setWebhook: 500", "deleteWebhook: 500",
		"rotateWebhookSecret: 500", "testWebhook: 500", "listWebhookDeliveries: 500", "getWebhookDelivery: 500",
		"resendWebhookDelivery: 500", "rotateKey: 500", "suggestValues: 500", "searchCompanies: 500",
		"explainCompanySearch: 500",
		// Calls without a body, which end at once.
		"testWebhook: 422", "resendWebhookDelivery: 409", "resendWebhookDelivery: 422",
		"rotateWebhookSecret: 409: header Retry-After", "testWebhook: 409: header Retry-After",
		"rotateKey: 409: header Retry-After",
		"example of an error: the balances of this service cannot be read at present, and nothing was charged: call " +
			"again in * *",
	}
}

// waitTimeout bounds waits in tests.
const waitTimeout = 30 * time.Second

// redisTimeoutFactor multiplies the Redis timeouts, so that a busy machine does not look like an outage.
const redisTimeoutFactor = 60

// waitForStatus repeats a call until it has a status, and returns that response.
func waitForStatus(t testing.TB, status int, call func() response) (got response) {
	t.Helper()
	polltest.Until(t, waitTimeout, func() bool {
		got = call()
		return got.status == status
	}, "it is answered %d and not %d: %s", func() any { return got.status }, status, func() any { return got.body })
	return got
}

// spends waits until the given number of credits is used.
func (f *fixture) spends(want int64) {
	f.t.Helper()
	var used int64
	polltest.Until(f.t, waitTimeout, func() bool {
		used = f.credits()
		return used == want
	}, "%d credits are used and not %d", func() any { return used }, want)
}

// fixture is a running service with a real ClickHouse engine and a real broker, with one organization and a key with
// all scopes.
type fixture struct {
	t        testing.TB
	conn     driver.Conn
	bus      bus.Config
	accounts *queryapi.Accounts
	service  *queryapi.Service
	stop     func() // stops the service
	registry *prometheus.Registry
	log      *lockedBuffer
	client   *http.Client

	organization event.Organization
	key          string
	inserts      int
	syncSearch   func(record.Kind) // writes the search index of a kind, with the tag opensearch
}

// start runs a service with an empty store. change, if not nil, changes its configuration.
func start(t testing.TB, change func(*queryapi.Config, *queryapi.Deps)) *fixture {
	t.Helper()
	return startOn(t, openStore(t, enginetest.Tables(t, migrate)), change)
}

// startOn is like start, with the tables of conn.
func startOn(t testing.TB, conn driver.Conn, change func(*queryapi.Config, *queryapi.Deps)) *fixture {
	t.Helper()
	f := &fixture{t: t, conn: conn, registry: prometheus.NewRegistry(), log: &lockedBuffer{}}
	f.bus = bus.Config{Brokers: brokertest.Start(t).Addrs(), ClientID: "query-api-test"}
	for _, topic := range event.Topics() {
		switch topic.Name {
		case event.TopicAccount, event.TopicUsage, event.TopicDiscovery, event.TopicDiscoveryTask, event.TopicContext,
			event.TopicContextTask, event.TopicFeedback, event.TopicWebhookTask, event.TopicBulkJobTask,
			event.TopicBulkChunkTask:
			require.NoError(t, bus.EnsureTopics(t.Context(), f.bus, []bus.Topic{{
				Name: topic.Name, Partitions: topic.Partitions, Replication: 1, Config: topic.Config(),
			}}))
		}
	}
	f.accounts = openAccounts(t, f.bus)
	var err error
	f.organization, err = f.accounts.CreateOrganization(t.Context(), "Acme", "development")
	require.NoError(t, err)
	f.key = f.newKey(queryapi.KeyOptions{Name: "all", Scopes: event.Scopes()})

	// Longer timeouts than in production: other tests keep the machine busy.
	cfg := queryapi.Config{Addr: "127.0.0.1:0", DataDir: t.TempDir(), SearchTimeout: 8 * time.Second}
	deps := queryapi.Deps{
		Secret:     testSecret(t),
		ClickHouse: f.conn, Bus: f.bus, Registerer: f.registry,
		Logger: slog.New(slog.NewJSONHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	f.useSearchCluster(&deps)
	if change != nil {
		change(&cfg, &deps)
	}
	f.service, err = queryapi.New(t.Context(), cfg, deps)
	require.NoError(t, err)
	f.stop = run(t, f.service)
	f.client = &http.Client{Transport: newValidator(t), Timeout: waitTimeout}
	t.Cleanup(f.client.CloseIdleConnections)
	return f
}

// run runs a service until stop or the end of the test, and waits until it is ready.
func run(t testing.TB, s *queryapi.Service) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	stopped := make(chan error, 1)
	go func() { stopped <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-stopped)
	})
	t.Cleanup(stop)
	ready(t, s)
	return stop
}

// ready waits until a service is ready.
func ready(t testing.TB, s *queryapi.Service) {
	t.Helper()
	var err error
	polltest.Until(t, waitTimeout, func() bool {
		err = s.Ready(t.Context())
		return err == nil
	}, "it is not ready: %v", func() any { return err })
}

func testSecret(t testing.TB) *service.RootSecret {
	t.Helper()
	secret, err := service.NewRootSecret([]byte("a root secret that only tests have"))
	require.NoError(t, err)
	return secret
}

// openStore connects to a database with all tables.
func openStore(t testing.TB, dsn string) driver.Conn {
	t.Helper()
	conn, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: dsn, MaxOpenConns: 16})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

func migrate(ctx context.Context, dsn string) error {
	files, err := readmodel.Migrations()
	if err != nil {
		return err
	}
	migrations, err := clickhouse.LoadMigrations(files, readmodel.Layout{})
	if err != nil {
		return err
	}
	conn, err := clickhouse.Open(ctx, clickhouse.Config{DSN: dsn})
	if err != nil {
		return err
	}
	_, err = clickhouse.Migrate(ctx, conn, migrations, clickhouse.MigrateConfig{})
	return errors.Join(err, conn.Close())
}

func openAccounts(t testing.TB, cfg bus.Config) *queryapi.Accounts {
	t.Helper()
	a, err := queryapi.OpenAccounts(t.Context(), queryapi.AccountsConfig{Bus: cfg})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return a
}

func (f *fixture) newKey(options queryapi.KeyOptions) string {
	f.t.Helper()
	_, secret, err := f.accounts.CreateKey(f.t.Context(), f.organization.ID, options)
	require.NoError(f.t, err)
	return secret.Reveal()
}

// insert writes records to the read models like the projector.
func (f *fixture) insert(kind record.Kind, records ...string) {
	f.t.Helper()
	renderer := readmodel.NewRenderer(identity.Default())
	var batch readmodel.Batch
	for _, text := range records {
		r, err := record.Decode(kind, []byte(text))
		require.NoError(f.t, err)
		parts, rejected := r.SplitEmbedded()
		require.Empty(f.t, rejected)
		for _, part := range append([]*record.Record{r}, parts...) {
			f.inserts++
			require.NoError(f.t, renderer.Rows(&batch, part,
				readmodel.Position{Topic: "test", Offset: int64(f.inserts)}))
		}
	}
	require.NoError(f.t, readmodel.Insert(f.t.Context(), f.conn, fmt.Sprintf("test-%d", f.inserts), &batch))
	f.syncSearch(kind)
	touched := make(map[int64]int64)
	batch.TouchedAccounts(touched)
	f.build(slices.Collect(maps.Keys(touched))...)
}

// build renders the documents of accounts like the projector.
func (f *fixture) build(accounts ...int64) {
	f.t.Helper()
	touches := make([]readmodel.Touch, len(accounts))
	for i, id := range accounts {
		touches[i] = readmodel.Touch{UserID: id, Offset: int64(f.inserts)}
	}
	require.NoError(f.t, readmodel.BuildAnswers(f.t.Context(), f.conn, readmodel.Builds{}, touches))
}

// response is a completely read response.
type response struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

// detail returns the detail of an error.
func (r response) detail() string {
	r.t.Helper()
	var e map[string]string
	require.NoError(r.t, json.Unmarshal([]byte(r.body), &e), r.body)
	require.Len(r.t, e, 1)
	require.NotEmpty(r.t, e["detail"])
	return e["detail"]
}

// json returns the body of a 200.
func (r response) json() map[string]any {
	r.t.Helper()
	require.Equal(r.t, http.StatusOK, r.status, r.body)
	var v map[string]any
	require.NoError(r.t, json.Unmarshal([]byte(r.body), &v), r.body)
	return v
}

// list returns the body of a 200 that is an array.
func (r response) list() []map[string]any {
	r.t.Helper()
	require.Equal(r.t, http.StatusOK, r.status, r.body)
	var v []map[string]any
	require.NoError(r.t, json.Unmarshal([]byte(r.body), &v), r.body)
	return v
}

// do sends a request with the fixture's key; header entries replace its headers,
// an empty value removes one.
func (f *fixture) do(method, path, body string, header map[string]string) response {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.service.URL()+path, strings.NewReader(body))
	require.NoError(f.t, err)
	req.Header.Set("Authorization", "Bearer "+f.key)
	if method == http.MethodPost || method == http.MethodPut {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range header {
		req.Header.Del(name)
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	return f.send(req)
}

func (f *fixture) send(req *http.Request) response {
	f.t.Helper()
	resp, err := f.client.Do(req)
	require.NoError(f.t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(f.t, err)
	require.NoError(f.t, resp.Body.Close())
	return response{t: f.t, status: resp.StatusCode, header: resp.Header, body: string(body)}
}

func (f *fixture) post(path, body string) response {
	f.t.Helper()
	return f.do(http.MethodPost, path, body, nil)
}

func (f *fixture) get(path string) response {
	f.t.Helper()
	return f.do(http.MethodGet, path, "", nil)
}

func (f *fixture) enrich(body string) map[string]any {
	f.t.Helper()
	return f.post("/v1/person/enrich", body).json()
}

func loadDescription(t testing.TB) *openapi3.T {
	t.Helper()
	checker, err := description()
	require.NoError(t, err)
	return checker.Document()
}

// newValidator returns a transport that compares exchanges with openapi.yaml. It may run in other goroutines than the
// test, so it reports with Errorf.
func newValidator(t testing.TB) http.RoundTripper {
	t.Helper()
	checker, err := description()
	require.NoError(t, err)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true
	return checker.Transport(transport, func(err error) { t.Errorf("%v", err) })
}
