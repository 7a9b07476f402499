package queryapi_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muster/platform/engine/enginetest"
	"muster/platform/polltest"
	queryapi "muster/query-api"
	"muster/query-api/internal/bulk"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/sampledata"
)

// described is an operation of openapi.yaml with its examples as requests; the
// first has every required parameter.
type described struct {
	*openapi3.Operation
	method   string
	scoped   bool
	requests []request
}

type request struct{ path, body, kind string }

// operations returns the operations, without HTML pages and the protocol of agents, whose calls are those of others.
func operations(t *testing.T) []described {
	t.Helper()
	var out []described
	for path, item := range loadDescription(t).Paths.Map() {
		if path == "/docs" || path == "/mcp" {
			continue
		}
		for method, op := range item.Operations() {
			d := described{Operation: op, method: method, scoped: op.Security == nil}
			d.requests = requestsOf(t, path, op)
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b described) int { return strings.Compare(a.OperationID, b.OperationID) })
	return out
}

func requestsOf(t *testing.T, path string, op *openapi3.Operation) []request {
	t.Helper()
	if op.OperationID == "submitBulk" {
		var out []request
		for _, kind := range []string{ndjsonType, csvType} {
			content := op.RequestBody.Value.Content.Get(kind)
			for _, name := range slices.Sorted(maps.Keys(content.Examples)) {
				text := content.Examples[name].Value.Value.(string)
				out = append(out, request{path + "?operation=person_enrich", text, kind})
			}
		}
		return out
	}
	for _, p := range op.Parameters {
		if p.Value.In == openapi3.ParameterInPath {
			path = strings.ReplaceAll(path, "{"+p.Value.Name+"}", fmt.Sprint(p.Value.Example))
		}
	}
	if op.RequestBody != nil {
		content := op.RequestBody.Value.Content.Get("application/json")
		var out []request
		for _, name := range slices.Sorted(maps.Keys(content.Examples)) {
			body, err := json.Marshal(content.Examples[name].Value.Value, json.Deterministic(true))
			require.NoError(t, err)
			out = append(out, request{path, string(body), "application/json"})
		}
		require.NotEmpty(t, out, "%s has example bodies", op.OperationID)
		return out
	}
	base, optional := url.Values{}, []url.Values{}
	out := []request{}
	for _, p := range op.Parameters {
		values := []string{}
		for _, name := range slices.Sorted(maps.Keys(p.Value.Examples)) {
			values = append(values, fmt.Sprint(p.Value.Examples[name].Value.Value))
		}
		switch v := p.Value.Example.(type) {
		case nil:
		case []any:
			words := make([]string, len(v))
			for i, word := range v {
				words[i] = fmt.Sprint(word)
			}
			values = append(values, strings.Join(words, ","))
		default:
			values = append(values, fmt.Sprint(v))
		}
		switch {
		case p.Value.In == openapi3.ParameterInPath:
		case p.Value.Required:
			base.Set(p.Value.Name, values[0])
			for _, v := range values[1:] {
				optional = append(optional, url.Values{p.Value.Name: {v}})
			}
		default:
			for _, v := range values {
				optional = append(optional, url.Values{p.Value.Name: {v}})
			}
		}
	}
	for _, more := range append([]url.Values{{}}, optional...) {
		query := maps.Clone(base)
		maps.Copy(query, more)
		one := request{path: path}
		if len(query) > 0 {
			one.path += "?" + query.Encode()
		}
		out = append(out, one)
	}
	return out
}

// header returns the headers of the request, with more.
func (r request) header(more map[string]string) map[string]string {
	if r.kind == "" {
		return more
	}
	out := map[string]string{"Content-Type": r.kind}
	maps.Copy(out, more)
	return out
}

// gate blocks queries of the store while it is shut.
type gate struct {
	driver.Conn
	mu     sync.Mutex
	opened chan struct{} // nil: open
	broken bool          // queries are replaced by invalid SQL
}

func (g *gate) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	g.mu.Lock()
	opened := g.opened
	if g.broken {
		query = "not " + query
	}
	g.mu.Unlock()
	if opened != nil {
		select {
		case <-opened:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return g.Conn.Query(ctx, query, args...)
}

func (g *gate) PrepareBatch(
	ctx context.Context, query string, options ...driver.PrepareBatchOption,
) (driver.Batch, error) {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	if opened != nil {
		select {
		case <-opened:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return g.Conn.PrepareBatch(ctx, query, options...)
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.opened)
	g.opened = nil
}

// examplePeople inserts the people in the examples of the OpenAPI document.
func examplePeople(f *fixture) {
	f.t.Helper()
	for _, kind := range []record.Kind{record.KindCodehostPerson, record.KindNetworkPerson, record.KindNetworkCompany} {
		text, err := sampledata.Example(string(kind))
		require.NoError(f.t, err)
		f.insert(kind, strings.Split(strings.TrimSpace(string(text)), "\n")...)
	}
}

// TestMain checks that all were covered.
func TestOpenAPI_EveryDocumentedResponseOccurs(t *testing.T) {
	store := &gate{}
	f := start(t, func(cfg *queryapi.Config, deps *queryapi.Deps) {
		store.Conn = deps.ClickHouse
		deps.ClickHouse = store
		cfg.DiscoveryBudget = 3 * time.Second
	})
	examplePeople(f)
	keptContext(t, f)
	keptUsage(t, f)
	keptJob(t, f, exampleJob).run(t)
	keptSettings(t, f)
	startWorker(f, func(task event.DiscoveryTask) *event.Discovery {
		if strings.EqualFold(task.Input.Username, "slow") {
			return nil
		}
		return found(task)
	})
	startIdentifyWorker(f, func(task event.DiscoveryTask) *event.Identification {
		if task.Query.Name == "Slow Person" {
			return nil
		}
		return identified()
	})
	startContextWorker(f, func(task event.ContextTask) *event.Context {
		switch string(task.Person) {
		case `"failed"`:
			return &event.Context{Status: event.ContextFailed,
				Failure: &event.ContextFailure{Status: 500, Detail: "profile creation failed"}}
		case `"slow"`:
			return nil
		}
		c := complete(aProfile)
		c.Degraded = []string{event.StageLanguageModel}
		return c
	})
	all := operations(t)
	narrow := map[bool]string{
		true:  f.newKey(queryapi.KeyOptions{Name: "usage", Scopes: []string{event.ScopeUsage}}),
		false: f.newKey(queryapi.KeyOptions{Name: "enrich", Scopes: []string{event.ScopeEnrich}}),
	}
	for usage, key := range narrow { // the service has read the change
		path := map[bool]string{true: enrichPath, false: "/v1/context"}[usage]
		waitForStatus(t, http.StatusForbidden, func() response {
			return f.do(http.MethodPost, path, `{}`, map[string]string{"Authorization": "Bearer " + key})
		})
	}
	slow := slowKey(t, f)

	for _, op := range all {
		t.Run(op.OperationID, func(t *testing.T) {
			f := *f
			f.t = t
			for _, r := range op.requests {
				got := f.do(op.method, r.path, r.body, r.header(nil))
				require.Less(t, got.status, 300, "%s %s: %s", r.path, r.body, got.body)
				require.NotContains(t, []string{"{}", `{"websets_matched":[],"person":{}}`,
					`{"matched":false,"company":null}`}, got.body, "the people of examples exist")
			}
			first := op.requests[0]
			status := func(want int, header map[string]string, path, body string) {
				t.Helper()
				got := f.do(op.method, path, body, first.header(header))
				require.Equal(t, want, got.status, "%s: %s", op.OperationID, got.body)
			}
			invalid := 400
			if op.Responses.Value("400") == nil {
				invalid = 422
			}
			status(invalid, nil, first.path+map[bool]string{true: "&",
				false: "?"}[strings.Contains(first.path, "?")]+"adons=x", first.body)
			most := 1 << 20
			if op.OperationID == "submitBulk" {
				most = event.MaxBulkBytes
			}
			status(413, nil, first.path, strings.Repeat(" ", most+1))
			if op.RequestBody != nil {
				status(415, map[string]string{"Content-Type": "text/plain"}, first.path, first.body)
			}
			if !op.scoped {
				return
			}
			status(401, map[string]string{"Authorization": ""}, first.path, first.body)
			forbidden := narrow[!strings.HasPrefix(op.OperationID, "getUsage")]
			waitForStatus(t, 403, func() response {
				return f.do(op.method, first.path, first.body,
					first.header(map[string]string{"Authorization": "Bearer " + forbidden}))
			})
			waitForStatus(t, 429, func() response { // one request a minute
				return f.do(op.method, first.path, first.body,
					first.header(map[string]string{"Authorization": "Bearer " + slow}))
			})
			// Tests of the settings have their own repeated calls.
			if op.method == http.MethodPost && !slices.Contains(op.Tags, "settings") {
				idempotently(t, &f, op, store)
			}
		})
	}
	t.Run("the current state", func(t *testing.T) { otherwise(t, f, store) })
}

// keptContext makes the context call of the documented example.
func keptContext(t *testing.T, f *fixture) {
	t.Helper()
	var rows readmodel.ContextBatch
	c := complete(aProfile)
	c.Degraded = []string{event.StageLanguageModel}
	c.At = time.Now()
	c.Call = event.ContextCall{
		RequestID: "01980c5e-6b1f-7c3a-9d55-2f6f5c1d7e10", OrganizationID: f.organization.ID, KeyID: "k",
		RequestedAt: c.At, RespondBy: c.At,
	}
	require.NoError(t, rows.Add(c, readmodel.Position{Topic: event.TopicContext}))
	require.NoError(t, readmodel.InsertContexts(t.Context(), f.conn, "kept", &rows))
}

// keptSettings stores the delivery and the key of the documented examples.
func keptSettings(t *testing.T, f *fixture) {
	t.Helper()
	f.attempted("01980c5e-6b1f-7c3a-9d55-2f6f5c1d7e10", f.organization.ID, event.WebhookPending, time.Now().UTC())
	key, err := event.ParseAPIKey("mk_live_3fK9x0Qz_exampleexampleexampleexample00002QmMnj")
	require.NoError(t, err)
	_, _, err = f.accounts.CreateKey(t.Context(), f.organization.ID, queryapi.KeyOptions{Given: &key})
	require.NoError(t, err)
}

// keptUsage inserts the event of the documented example.
func keptUsage(t *testing.T, f *fixture) {
	t.Helper()
	const id = "01980c5e-6b1f-7c3a-9d55-2f6f5c1d7e10"
	at := time.Unix(uuid.MustParse(id).Time().UnixTime())
	var rows readmodel.UsageBatch
	rows.Add(&event.Usage{
		RequestID: id, OrganizationID: f.organization.ID, KeyID: "k", At: at, Period: event.PeriodOf(at),
		Method: "POST", Endpoint: enrichPath, Status: 200, Outcome: event.OutcomeCharged, Requests: 1, Credits: 1,
	}, readmodel.Position{Topic: event.TopicUsage})
	require.NoError(t, readmodel.InsertUsage(t.Context(), f.conn, "kept", &rows))
}

// slowKey returns a key of an organization with one request per minute.
func slowKey(t *testing.T, f *fixture) string {
	t.Helper()
	limits := event.DefaultLimits()
	limits.RequestsPerMinute = 1
	slow, err := f.accounts.CreateOrganizationOn(t.Context(), "Slow", queryapi.Plan{Name: "slow", Limits: limits})
	require.NoError(t, err)
	_, secret, err := f.accounts.CreateKey(t.Context(), slow.ID, queryapi.KeyOptions{Name: "slow",
		Scopes: event.Scopes()})
	require.NoError(t, err)
	return secret.Reveal()
}

// idempotently sends a call twice with one key, another body with the same key, and one while the first is running.
func idempotently(t *testing.T, f *fixture, op described, store *gate) {
	t.Helper()
	for i, call := range op.requests {
		key := call.header(idempotent(fmt.Sprint(op.OperationID, i)))
		first := f.do(op.method, call.path, call.body, key)
		again := f.do(op.method, call.path, call.body, key)
		require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
		require.Equal(t, first.body, again.body)
	}
	call := op.requests[0]
	key := call.header(idempotent(op.OperationID + "0"))
	other, held := map[string]string{
		"enrichPerson": `{"codehost":"juno"}`, "enrichCompany": `{"company_id":"c_71"}`,
		"createContext": `{"person":"slow","response_timeout_sec":3}`, "discoverPerson": `{"codehost":"slow"}`,
		"identifyPerson":  `{"name":"Slow Person"}`,
		"searchPeople":    `{"query":{"match_all":{}}}`,
		"explainSearch":   `{"query":{"match":{"profile.headline":"compiler"}}}`,
		"searchCompanies": `{"query":{"match_all":{}}}`, "explainCompanySearch": `{"query":{"match_all":{}}}`,
		"submitFeedback":    `{"request_id":"x","verdict":"right"}`,
		"submitBulk":        "{\"codehost\":\"juno\"}\n",
		"postNetworkPerson": `{"network":"juno"}`, "postCodehostPerson": `{"codehost":"juno"}`,
	}[op.OperationID], slices.Contains([]string{"createContext", "discoverPerson", "identifyPerson"}, op.OperationID)
	got := f.do(op.method, call.path, other, key)
	require.Equal(t, 422, got.status, got.body)

	if op.OperationID == "submitFeedback" { // nothing holds it for long
		conflictSoon(t, f, call, other)
		return
	}
	// The first of two calls blocks in the store, or waits for a silent worker.
	at := call.header(idempotent("at-once-" + op.OperationID))
	answers := make(chan response, 2)
	var both sync.WaitGroup
	defer both.Wait()
	if !held {
		store.shut()
		defer store.open()
	}
	for range 2 {
		both.Go(func() { answers <- f.do(op.method, call.path, other, at) })
	}
	second := <-answers
	require.Equal(t, 409, second.status, "the second call ends immediately: %s", second.body)
}

// conflictSoon sends equal calls at once, with one key, until one is answered while another is running.
func conflictSoon(t *testing.T, f *fixture, call request, body string) {
	t.Helper()
	polltest.Until(t, waitTimeout, func() bool {
		var both sync.WaitGroup
		var conflicts atomic.Int64
		key := call.header(idempotent(fmt.Sprint("at-once-", time.Now().UnixNano())))
		for range 8 {
			both.Go(func() {
				if f.do(http.MethodPost, call.path, body, key).status == http.StatusConflict {
					conflicts.Add(1)
				}
			})
		}
		both.Wait()
		return conflicts.Load() > 0
	}, "no call is answered 409")
}

// otherwise covers the rest: single parameters and internal failures.
func otherwise(t *testing.T, f *fixture, store *gate) {
	query := `{"query":{"match":{"profile.headline":"engineer"}},"size":1,"sort":[{"profile.connections":"desc"}],` +
		`"_source":false,"max_credits":1,"dry_run":false`
	page := f.post("/v1/person/search", query+"}").json()
	require.NotNil(t, page["next_cursor"])
	cursor := fmt.Sprintf(`,"cursor":%q}`, page["next_cursor"])
	require.Equal(t, 200, f.post("/v1/person/search", query+cursor).status)
	require.Equal(t, 200, f.post("/v1/person/search/explain", query+cursor).status)
	require.Equal(t, 200, f.post("/v1/person/discover", `{"network":"octavia-lin"}`).status)
	require.Equal(t, 200, f.post("/v1/person/identify", `{"name":"Octavia Lin","company":"Quenlix","school":"Oslo",`+
		`"location":"Oslo","title":"Engineer","phone":"+47 555 01 234","email":"octavia@example.com","min_confidence":0,`+
		`"max_credits":1,"dry_run":true}`).status)
	require.Equal(t, 200, f.post(networkPath, `{"network":"octavia-lin","dry_run":true}`).status)
	require.Equal(t, 200, f.get(codehostPath+"?codehost=octavia&dry_run=true&max_credits=1").status)
	waiting := keptJob(t, f, "waiting")
	require.Equal(t, 202, f.get("/v1/bulk/waiting/results").status)
	waiting.run(t)
	rows := "{\"codehost\":\"octavia\"}\n"
	f.accepted(f.submit("operation=person_enrich&max_credits=1&webhook_url="+url.QueryEscape(
		"https://hooks.example.org/muster")+"&fields=network.profile.full_name,network.network_username", ndjsonType,
		rows, nil))
	require.Equal(t, 422, f.post(enrichPath, `{"codehst":"octavia"}`).status)
	require.Equal(t, 400, f.get(networkPath+"?network=octavia-lin&adons=codehost").status)

	failed := f.post("/v1/context", `{"person":"failed"}`)
	require.Equal(t, 500, failed.status, failed.body)
	require.Equal(t, 500, f.get("/v1/context/"+failed.header.Get("X-Request-Id")).status)

	store.mu.Lock()
	store.broken = true
	store.mu.Unlock()
	for _, path := range []string{"/v1/person/search", "/v1/person/search/explain"} {
		got := f.post(path, `{"query":{"match":{"profile.headline":"engineer"}}}`)
		require.Equal(t, 500, got.status, got.body)
		require.Contains(t, got.detail(), "unexpected")
	}
}

func TestAPI_StoreOutageGivesRetryAfter(t *testing.T) {
	engine, err := enginetest.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = engine.Close() }) // already closed unless the test failed
	dsn, err := engine.FreshDatabase(t.Context())
	require.NoError(t, err)
	require.NoError(t, migrate(t.Context(), dsn))
	f := start(t, func(_ *queryapi.Config, deps *queryapi.Deps) { deps.ClickHouse = openStore(t, dsn) })
	require.NoError(t, engine.Close())
	for _, op := range operations(t) {
		switch op.OperationID {
		// These do not need the store.
		case "getOpenAPI", "getUsage", "createContext", "discoverPerson", "identifyPerson", "submitFeedback",
			"getWebhook", "setWebhook", "deleteWebhook", "rotateKey", "rotateWebhookSecret", "testWebhook":
			continue
		}
		got := f.do(op.method, op.requests[0].path, op.requests[0].body, op.requests[0].header(nil))
		require.Contains(t, []int{500, 503}, got.status, op.OperationID)
		require.Equal(t, "2", got.header.Get("Retry-After"), op.OperationID)
	}
}

func TestDiscover_StopsAtRequestTimeout(t *testing.T) {
	f := start(t, func(cfg *queryapi.Config, _ *queryapi.Deps) {
		cfg.RequestTimeout, cfg.DiscoveryBudget = time.Nanosecond, time.Nanosecond
	})
	for path, body := range map[string]string{
		"/v1/person/discover": `{"codehost":"octavia"}`, identifyPath: `{"name":"Octavia Lin"}`,
		feedbackPath: `{"request_id":"x","verdict":"right"}`,
	} {
		got := f.post(path, body)
		require.Equal(t, 503, got.status, got.body)
		require.Equal(t, "2", got.header.Get("Retry-After"))
	}
}

// exampleJob is the job of the documented examples.
const exampleJob = "01980c5e-6b1f-7c3a-9d55-2f6f5c1d7e20"

// storedJob is a job whose rows are stored, and which is not accepted yet.
type storedJob struct {
	f    *fixture
	jobs *bulk.Jobs
	job  *event.BulkJob
}

// keptJob stores a job of one row.
func keptJob(t *testing.T, f *fixture, id string) storedJob {
	t.Helper()
	key, err := testSecret(t).Key(bulk.KeyName, bulk.KeyBytes)
	require.NoError(t, err)
	jobs, err := bulk.New(bulk.Config{Bus: f.bus, Conn: f.conn, Key: key, Logger: slog.New(slog.DiscardHandler),
		Registerer: prometheus.NewRegistry(), Now: time.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, jobs.Close()) })
	job := &event.BulkJob{JobID: id, OrganizationID: f.organization.ID, KeyID: "k", Operation: event.BulkPersonEnrich,
		At: time.Now(), Rows: 1, Price: 1, Counted: true}
	require.NoError(t, jobs.Store(t.Context(), job, strings.NewReader(`{"codehost":"octavia"}`), bulk.NDJSON))
	return storedJob{f, jobs, job}
}

// run accepts the job and waits until it is done.
func (s storedJob) run(t *testing.T) {
	t.Helper()
	require.NoError(t, s.jobs.Accept(t.Context(), s.job))
	s.f.finished(s.job.JobID, event.BulkDone)
}
