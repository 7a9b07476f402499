package queryapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/platform/engine/enginetest"
	"muster/platform/service"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

func TestMain(m *testing.M) {
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.RegisteredBodyDecoder("text/plain")) // the page at /docs
	os.Exit(enginetest.Main(m))
}

// patience bounds what should take no time.
const patience = 30 * time.Second

// fixture is a running service on the real engine and a real broker, with one
// organization and a key that may do everything.
type fixture struct {
	t        testing.TB
	conn     driver.Conn
	bus      bus.Config
	accounts *queryapi.Accounts
	service  *queryapi.Service
	registry *prometheus.Registry
	log      *lockedBuffer
	client   *http.Client

	organization event.Organization
	key          string
	inserts      int
}

// start runs a service over an empty store. change, when not nil, changes its
// configuration.
func start(t testing.TB, change func(*queryapi.Config, *queryapi.Deps)) *fixture {
	t.Helper()
	f := &fixture{t: t, registry: prometheus.NewRegistry(), log: &lockedBuffer{}}
	f.conn = openStore(t, enginetest.DSN(t))
	f.bus = bus.Config{Brokers: brokertest.Start(t).Addrs(), ClientID: "query-api-test"}
	for _, topic := range event.Topics() {
		switch topic.Name {
		case event.TopicAccount, event.TopicUsage, event.TopicDiscovery, event.TopicDiscoveryTask, event.TopicContext, event.TopicContextTask, event.TopicWebhookTask:
			require.NoError(t, bus.EnsureTopics(t.Context(), f.bus, []bus.Topic{{
				Name: topic.Name, Partitions: topic.Partitions, Replication: 1, Config: topic.Config(),
			}}))
		}
	}
	f.accounts = openAccounts(t, f.bus)
	var err error
	f.organization, err = f.accounts.CreateOrganization(t.Context(), "Acme", "development")
	require.NoError(t, err)
	f.key = f.newKey(queryapi.KeyOptions{Name: "all"})

	// A search may take longer here than in service: other tests keep the machine busy.
	cfg := queryapi.Config{Addr: "127.0.0.1:0", DataDir: t.TempDir(), SearchTimeout: 8 * time.Second}
	deps := queryapi.Deps{
		Secret:     testSecret(t),
		ClickHouse: f.conn, Bus: f.bus, Registerer: f.registry,
		Logger: slog.New(slog.NewJSONHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&cfg, &deps)
	}
	f.service, err = queryapi.New(t.Context(), cfg, deps)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	stopped := make(chan error, 1)
	go func() { stopped <- f.service.Run(ctx) }()
	f.client = &http.Client{Transport: newValidator(t, f.service.URL()), Timeout: patience}
	t.Cleanup(func() {
		f.client.CloseIdleConnections()
		stop()
		require.NoError(t, <-stopped)
	})
	require.Eventually(t, func() bool { return f.service.Ready(t.Context()) == nil }, patience, time.Millisecond)
	return f
}

func testSecret(t testing.TB) *service.RootSecret {
	t.Helper()
	secret, err := service.NewRootSecret([]byte("a root secret that only tests have"))
	require.NoError(t, err)
	return secret
}

// openStore connects to a database and makes the tables in it.
func openStore(t testing.TB, dsn string) driver.Conn {
	t.Helper()
	conn, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: dsn, MaxOpenConns: 16})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	files, err := readmodel.Migrations()
	require.NoError(t, err)
	migrations, err := clickhouse.LoadMigrations(files, readmodel.Layout{})
	require.NoError(t, err)
	_, err = clickhouse.Migrate(t.Context(), conn, migrations, clickhouse.MigrateConfig{})
	require.NoError(t, err)
	return conn
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

// insert puts records into the read models as the projector does.
func (f *fixture) insert(kind record.Kind, records ...string) {
	f.t.Helper()
	renderer := readmodel.NewRenderer(identity.Default())
	var batch readmodel.Batch
	for _, text := range records {
		r, err := record.Decode(kind, []byte(text))
		require.NoError(f.t, err)
		parts, rejected := r.Split()
		require.Empty(f.t, rejected)
		for _, part := range append([]*record.Record{r}, parts...) {
			f.inserts++
			require.NoError(f.t, renderer.Rows(&batch, part, readmodel.Position{Topic: "test", Offset: int64(f.inserts)}))
		}
	}
	require.NoError(f.t, readmodel.Insert(f.t.Context(), f.conn, fmt.Sprintf("test-%d", f.inserts), &batch))
}

// response is an answer that was read to its end.
type response struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

// detail is the text of an error.
func (r response) detail() string {
	r.t.Helper()
	var e map[string]string
	require.NoError(r.t, json.Unmarshal([]byte(r.body), &e), r.body)
	require.Len(r.t, e, 1)
	require.NotEmpty(r.t, e["detail"])
	return e["detail"]
}

// json is the body of a 200.
func (r response) json() map[string]any {
	r.t.Helper()
	require.Equal(r.t, http.StatusOK, r.status, r.body)
	var v map[string]any
	require.NoError(r.t, json.Unmarshal([]byte(r.body), &v), r.body)
	return v
}

// list is the body of a 200 that is a list.
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
	if method == http.MethodPost {
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

// validator is a transport through which every HTTP test passes: it compares
// each answer, and each request that is answered with 200, with openapi.yaml.
type validator struct {
	t      testing.TB
	router routers.Router
	base   http.RoundTripper
	host   string
}

func loadDescription(t testing.TB) *openapi3.T {
	t.Helper()
	document, err := openapi3.NewLoader().LoadFromFile("openapi.yaml")
	require.NoError(t, err)
	require.NoError(t, document.Validate(t.Context(), openapi3.IsOpenAPI31OrLater()))
	return document
}

func newValidator(t testing.TB, host string) *validator {
	t.Helper()
	router, err := gorillamux.NewRouter(loadDescription(t))
	require.NoError(t, err)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true
	return &validator{t: t, router: router, base: transport, host: host}
}

// CloseIdleConnections serves http.Client.
func (v *validator) CloseIdleConnections() { v.base.(*http.Transport).CloseIdleConnections() }

// RoundTrip implements http.RoundTripper. It may run in other goroutines than
// the test's, so that it reports with Errorf.
func (v *validator) RoundTrip(req *http.Request) (*http.Response, error) {
	var sent []byte
	if req.Body != nil {
		var err error
		if sent, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(sent))
	}
	resp, err := v.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if err := resp.Body.Close(); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if err := v.check(req, sent, resp, body); err != nil {
		v.t.Errorf("%s %s: %d: the description disagrees: %v", req.Method, req.URL.Path, resp.StatusCode, err)
	}
	return resp, nil
}

func (v *validator) check(req *http.Request, sent []byte, resp *http.Response, body []byte) error {
	if resp.Header.Get("X-Request-Id") == "" {
		return fmt.Errorf("no X-Request-Id")
	}
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusMethodNotAllowed: // not an operation's answers
		var e struct {
			Detail string `json:"detail"`
		}
		if err := json.Unmarshal(body, &e, json.RejectUnknownMembers(true)); err != nil || e.Detail == "" {
			return fmt.Errorf("not an error body: %s", body)
		}
		return nil
	}
	if strings.HasPrefix(req.URL.Path, "/docs/") {
		return nil // what /docs leads to
	}
	copied := req.Clone(context.Background())
	copied.Body = io.NopCloser(bytes.NewReader(sent))
	route, parameters, err := v.router.FindRoute(copied)
	if err != nil {
		return err
	}
	options := &openapi3filter.Options{
		IncludeResponseStatus: true, MultiError: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
	}
	input := &openapi3filter.RequestValidationInput{Request: copied, PathParams: parameters, Route: route, Options: options}
	if resp.StatusCode == http.StatusOK {
		if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
			return fmt.Errorf("request: %w", err)
		}
	}
	header := maps.Clone(resp.Header)
	if coding := resp.Header.Get("Content-Encoding"); coding != "" {
		return nil // tests that ask for compression compare the bytes themselves
	}
	return openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: resp.StatusCode, Header: header,
		Body: io.NopCloser(bytes.NewReader(body)), Options: options,
	})
}
