package queryapi_test

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// contextWorker is a fake discovery-worker.
type contextWorker struct {
	f          *fixture
	writer     *bus.Writer
	mu         sync.Mutex
	tasks      map[string]event.ContextTask
	deliveries map[string][]event.WebhookTask
}

// startContextWorker publishes the result of answer for each task; nil publishes nothing.
func startContextWorker(f *fixture, answer func(event.ContextTask) *event.Context) *contextWorker {
	f.t.Helper()
	w := &contextWorker{f: f, writer: bus.NewWriter(f.bus), tasks: make(map[string]event.ContextTask),
		deliveries: make(map[string][]event.WebhookTask)}
	follower := bus.Follow(context.WithoutCancel(f.t.Context()), f.bus, bus.FollowConfig{
		Topics: []string{event.TopicContextTask, event.TopicWebhookTask},
		Handle: func(ctx context.Context, m kafka.Message) error {
			if m.Topic == event.TopicWebhookTask {
				var d event.WebhookTask
				if err := json.Unmarshal(m.Value, &d); err != nil {
					return err
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				w.deliveries[d.DeliveryID] = append(w.deliveries[d.DeliveryID], d)
				return nil
			}
			var task event.ContextTask
			if err := json.Unmarshal(m.Value, &task); err != nil {
				return err
			}
			if err := task.Validate(); err != nil {
				return err
			}
			w.mu.Lock()
			w.tasks[task.Call.RequestID] = task
			w.mu.Unlock()
			if c := answer(task); c != nil {
				c.Call = task.Call
				return w.publish(ctx, c)
			}
			return nil
		},
	})
	f.t.Cleanup(func() {
		require.NoError(f.t, follower.Close())
		require.NoError(f.t, w.writer.Close())
	})
	return w
}

func (w *contextWorker) publish(ctx context.Context, c *event.Context) error {
	c.At = time.Now().UTC()
	value, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return bus.WriteAll(ctx, w.writer,
		[]kafka.Message{{Topic: event.TopicContext, Key: []byte(c.Call.RequestID), Value: value}})
}

func (w *contextWorker) task(id string) (task event.ContextTask) {
	w.f.t.Helper()
	require.Eventually(w.f.t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		var ok bool
		task, ok = w.tasks[id]
		return ok
	}, waitTimeout, time.Millisecond)
	return task
}

// delivery returns the first delivery of a call.
func (w *contextWorker) delivery(id string) (task event.WebhookTask) {
	w.f.t.Helper()
	require.Eventually(w.f.t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.deliveries[id]) == 0 {
			return false
		}
		task = w.deliveries[id][0]
		return true
	}, waitTimeout, 5*time.Millisecond)
	return task
}

func complete(profile string) *event.Context {
	return &event.Context{Status: event.ContextComplete, Profile: jsontext.Value(profile)}
}

const aProfile = `{"full_name":"Juno Abara","custom":{},"confidence":{"full_name":0.97}}`

func (f *fixture) credits() (sum int64) {
	f.t.Helper()
	usage := f.get("/v1/usage").json()
	return int64(usage["credits"].(map[string]any)["used"].(float64))
}

func requestID(r response) string {
	r.t.Helper()
	var body struct {
		RequestID string `json:"request_id"`
		Status    string `json:"status"`
	}
	require.Equal(r.t, http.StatusAccepted, r.status, r.body)
	require.NoError(r.t, json.Unmarshal([]byte(r.body), &body))
	require.Equal(r.t, "processing", body.Status)
	require.Equal(r.t, r.header.Get("X-Request-Id"), body.RequestID)
	return body.RequestID
}

func TestContext(t *testing.T) {
	f := start(t, func(c *queryapi.Config, _ *queryapi.Deps) {
		c.WebhookAllow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	w := startContextWorker(f, func(task event.ContextTask) *event.Context {
		switch string(task.Person) {
		case `"empty"`:
			return &event.Context{Status: event.ContextComplete,
				Profile: jsontext.Value(`{"custom":{},"confidence":{}}`), Empty: true}
		case `"degraded"`:
			c := complete(aProfile)
			c.Degraded = []string{event.StageLanguageModel}
			return c
		case `"failed"`:
			return &event.Context{Status: event.ContextFailed,
				Failure: &event.ContextFailure{Status: 503, Detail: "the data store could not answer in time"}}
		case `"later"`:
			return nil
		case `"delivered"`:
			c := complete(aProfile)
			c.Delivered = true
			return c
		}
		return complete(aProfile)
	})
	r := f.post("/v1/context",
		`{"person":{"name":"Juno Abara"},"schema":{"age":{"type":"integer","description":"Age"}},"confidence":0.5,`+
			`"response_timeout_sec":20}`)
	require.Equal(t, http.StatusOK, r.status, r.body)
	require.JSONEq(t, aProfile, r.body)
	require.Equal(t, "1", r.header.Get("X-Credits-Charged"))
	require.EqualValues(t, 1, f.credits(), "charged when it is answered")
	id := r.header.Get("X-Request-Id")
	task := w.task(id)
	require.InDelta(t, 0.5, task.Confidence, 0)
	require.JSONEq(t, `{"name":"Juno Abara"}`, string(task.Person))
	require.JSONEq(t, `{"age":{"type":"integer","description":"Age"}}`, string(task.Schema))
	require.Equal(t, 20*time.Second, task.Call.RespondBy.Sub(task.Call.RequestedAt))

	t.Run("fetched again", func(t *testing.T) {
		r := f.get("/v1/context/" + id)
		require.Equal(t, http.StatusOK, r.status, r.body)
		require.JSONEq(t, aProfile, r.body)
		require.EqualValues(t, 1, f.credits(), "fetching is free")
	})
	t.Run("empty and degraded profiles are free", func(t *testing.T) {
		r := f.post("/v1/context", `{"person":"empty"}`)
		require.Equal(t, "0", r.header.Get("X-Credits-Charged"), r.body)
		r = f.post("/v1/context", `{"person":"degraded"}`)
		require.Equal(t, http.StatusOK, r.status)
		require.Equal(t, "0", r.header.Get("X-Credits-Charged"))
		require.Equal(t, "language_model", r.header.Get("X-Degraded"))
		require.EqualValues(t, 1, f.credits())
	})
	t.Run("failure", func(t *testing.T) {
		r := f.post("/v1/context", `{"person":"failed"}`)
		require.Equal(t, http.StatusServiceUnavailable, r.status, r.body)
		require.Equal(t, "the data store could not answer in time", r.detail())
		again := f.get("/v1/context/" + r.header.Get("X-Request-Id"))
		require.Equal(t, http.StatusServiceUnavailable, again.status, again.body)
		require.Contains(t, again.detail(),
			"(request_id "+r.header.Get("X-Request-Id")+"): the data store could not answer in time")
		require.Equal(t, "2", r.header.Get("Retry-After"))
		require.Empty(t, again.header.Get("Retry-After"), "the failure is final")
		require.EqualValues(t, 1, f.credits())
	})
	t.Run("late without a webhook", func(t *testing.T) {
		r := f.post("/v1/context", `{"person":"later","response_timeout_sec":0}`)
		require.Equal(t, http.StatusGatewayTimeout, r.status, r.body)
		id := r.header.Get("X-Request-Id")
		require.Contains(t, r.detail(), id)
		waiting := f.get("/v1/context/" + id)
		require.Equal(t, http.StatusAccepted, waiting.status, waiting.body)
		late := complete(aProfile)
		late.Call = w.task(id).Call
		require.NoError(t, w.publish(t.Context(), late))
		waitForStatus(t, http.StatusOK, func() response { return f.get("/v1/context/" + id) })
		f.spends(2) // charged although the client has left
		require.NoError(t, w.publish(t.Context(), late))
		w.mu.Lock()
		require.Empty(t, w.deliveries)
		w.mu.Unlock()
	})
	t.Run("early return", func(t *testing.T) {
		id := requestID(f.post("/v1/context",
			`{"person":"later","response_timeout_sec":0,"webhook_url":"https://hooks.example/a"}`))
		require.Equal(t, "https://hooks.example/a", w.task(id).Call.WebhookURL)
		require.Equal(t, http.StatusAccepted, f.get("/v1/context/"+id).status)
		// The worker was in time by its clock, so this service delivers.
		done := complete(aProfile)
		done.Call = w.task(id).Call
		require.NoError(t, w.publish(t.Context(), done))
		require.Equal(t, aProfile, string(w.delivery(id).Body))
		require.Empty(t, w.delivery(id).Degraded)
		f.spends(3)
	})
	t.Run("early return, without a stage", func(t *testing.T) {
		id := requestID(f.post("/v1/context",
			`{"person":"later","response_timeout_sec":0,"webhook_url":"https://hooks.example/a"}`))
		done := complete(aProfile)
		done.Call, done.Degraded = w.task(id).Call, []string{event.StageLanguageModel}
		require.NoError(t, w.publish(t.Context(), done))
		require.Equal(t, done.Degraded, w.delivery(id).Degraded)
		require.Equal(t, "language_model", f.get("/v1/context/"+id).header.Get("X-Degraded"), "same as the delivery")
	})
	t.Run("delivered by the worker's clock", func(t *testing.T) {
		before := f.credits()
		id := requestID(f.post("/v1/context", `{"person":"delivered","webhook_url":"https://hooks.example/a"}`))
		require.Equal(t, http.StatusOK, f.get("/v1/context/"+id).status)
		f.spends(before + 1)
		w.mu.Lock()
		defer w.mu.Unlock()
		require.Empty(t, w.deliveries[id], "delivered by the worker")
	})
	t.Run("another organization's", func(t *testing.T) {
		other, err := f.accounts.CreateOrganization(t.Context(), "Other", "development")
		require.NoError(t, err)
		_, secret, err := f.accounts.CreateKey(t.Context(), other.ID, queryapi.KeyOptions{Name: "other"})
		require.NoError(t, err)
		waitForStatus(t, http.StatusNotFound, func() response {
			return f.do(http.MethodGet, "/v1/context/"+id, "",
				map[string]string{"Authorization": "Bearer " + secret.Reveal()})
		})
		require.Contains(t, f.get("/v1/context/nothing").detail(), `"nothing"`)
	})
	t.Run("kept", func(t *testing.T) {
		var rows readmodel.ContextBatch
		for id, at := range map[string]time.Time{"young": time.Now().Add(-23 * time.Hour),
			"old": time.Now().Add(-25 * time.Hour)} {
			c := complete(aProfile)
			c.Call = event.ContextCall{RequestID: id, OrganizationID: f.organization.ID, KeyID: "k", RequestedAt: at,
				RespondBy: at}
			c.At = at
			require.NoError(t, rows.Add(c, readmodel.Position{Topic: event.TopicContext}))
			// The result of a repeated execution is ignored.
			c.Status, c.Profile, c.Failure, c.At = event.ContextFailed, nil,
				&event.ContextFailure{Status: 503, Detail: "x"}, time.Now()
			require.NoError(t, rows.Add(c, readmodel.Position{Topic: event.TopicContext, Offset: 1}))
		}
		require.NoError(t, readmodel.InsertContexts(t.Context(), f.conn, "kept", &rows))
		require.Equal(t, http.StatusOK, f.get("/v1/context/young").status)
		require.Equal(t, http.StatusNotFound, f.get("/v1/context/old").status)
	})
	t.Run("idempotent", func(t *testing.T) {
		before := f.credits()
		body, key := `{"person":"once"}`, map[string]string{"Idempotency-Key": "k1"}
		first := f.do(http.MethodPost, "/v1/context", body, key)
		second := f.do(http.MethodPost, "/v1/context", body, key)
		require.Equal(t, first.body, second.body)
		require.Equal(t, "true", second.header.Get("Idempotent-Replayed"))
		require.Equal(t, before+1, f.credits())
		for range 2 {
			r := f.do(http.MethodPost, "/v1/context", `{"person":"degraded"}`,
				map[string]string{"Idempotency-Key": "k2"})
			require.Equal(t, "language_model", r.header.Get("X-Degraded"), "the repeated response is incomplete, too")
		}
	})
	t.Run("methods", func(t *testing.T) {
		r := f.do(http.MethodDelete, "/v1/context/"+id, "", nil)
		require.Equal(t, http.StatusMethodNotAllowed, r.status)
		require.Equal(t, "GET", r.header.Get("Allow"))
	})
	t.Run("refused", func(t *testing.T) { refusedContexts(t, f) })
}

// refusedContexts are bodies that never become a task.
func refusedContexts(t *testing.T, f *fixture) {
	t.Helper()
	for body, want := range map[string]string{
		`{}`:               "person is missing: send text or an object about a person",
		`{"person":null}`:  "person is missing",
		`{"person":["x"]}`: "person must be a string or an object, not a list",
		`{"person":7}`:     "person must be a string or an object, not a number",
		`{"person":` + strings.Repeat(`{"a":`, event.MaxPersonDepth+1) + `"x"` +
			strings.Repeat(`}`, event.MaxPersonDepth+2): "person is nested more than 32 levels deep",
		`{"person":{"a":[` + strings.Repeat("0,", event.MaxPersonValues-2) +
			`0]}}`: "person has more than 200000 values",
		`{"person":"x","confidence":1.5}`:    "confidence is 1.5: it must be between 0 and 1",
		`{"person":"x","confidence":"high"}`: "confidence must be a number, not a string",
		`{"person":"x","response_timeout_sec":121}`: "response_timeout_sec is 121: it must be between 0 " +
			"and 120",
		`{"person":"x","response_timeout_sec":-1}`:             "response_timeout_sec is -1",
		`{"person":"x","webhook_url":"ftp://a.example"}`:       "webhook_url must begin with https://",
		`{"person":"x","webhook_url":"http://a.b@c.example/"}`: "webhook_url must not carry a user name or password",
		`{"person":"x","webhook_url":"https://10.0.0.1/"}`:     "webhook_url has an address that is not public",
		`{"person":"x","webhook_url":"https://100.64.0.1/"}`:   "webhook_url has an address that is not public",

		`{"person":"x","webhook_url":"https://168.63.129.16/"}`: "webhook_url has an address that is not " +
			"public",
		`{"person":"x","webhook_url":"https://[::ffff:168.63.129.16]/"}`: "webhook_url has an address that is not " +
			"public",
		`{"person":"x","webhook_url":"https://[fd00:ec2::254]/"}`: "webhook_url has an address that is not " +
			"public",
		`{"person":"x","webhook_url":"https://100.100.100.200:8443/"}`: "webhook_url has an address that is not " +
			"public",
		`{"person":"x","webhook_url":"https://[fd00::1]/"}`: "webhook_url has an address that is not " +
			"public",
		`{"person":"x","webhook_url":"https://2130706433/"}`: "webhook_url has a number as host",
		`{"person":"x","webhook_url":"https://127.0.0x1./"}`: "webhook_url has a number as host",
		`{"person":"x","confidence":1e999}`:                  "confidence is too large a number",
		`{"person":"x","webhook_url":"http://1.2.3.4/"}`:     "webhook_url must begin with https://",
		`{"person":"x","schema":[]}`:                         "schema must be an object, not a list",
		`{"person":"x","schema":{"a":{"type":"text"}}}`: `schema.a.type is "text": it must be one of string, ` +
			`number, integer, boolean, array, object`,
		`{"person":"x","schema":{"a":{"typ":"string"}}}`: `schema.a has the unknown member "typ": did you mean "type"?`,
		`{"person":"x","shema":{}}`:                      `unknown field "shema": did you mean "schema"?`,
	} {
		r := f.post("/v1/context", body)
		require.Equal(t, http.StatusBadRequest, r.status, body)
		require.Contains(t, r.detail(), want, body)
	}
	r := f.post("/v1/context", `{"person":"`+strings.Repeat("x", 1<<20)+`"}`)
	require.Equal(t, http.StatusRequestEntityTooLarge, r.status)
	r = f.post("/v1/context", `{"person":"`+strings.Repeat("x", 900<<10)+`"}`)
	require.Equal(t, http.StatusOK, r.status, r.body)
	r = f.post("/v1/context",
		`{"person":`+strings.Repeat(`{"a":`, event.MaxPersonDepth)+`"x"`+strings.Repeat(`}`, event.MaxPersonDepth+1))
	require.Equal(t, http.StatusOK, r.status, r.body)
	key := f.newKey(queryapi.KeyOptions{Name: "narrow", Scopes: []string{event.ScopeEnrich}})
	waitForStatus(t, http.StatusForbidden, func() response {
		return f.do(http.MethodPost, "/v1/context", `{"person":"x"}`,
			map[string]string{"Authorization": "Bearer " + key})
	})
}

// A process may read a result again that another one has charged, as after a crash.
func TestContext_ResultSeenTwiceIsChargedOnce(t *testing.T) {
	f := start(t, nil)
	w := startContextWorker(f, func(event.ContextTask) *event.Context { return complete(aProfile) })
	const calls = 12
	var outcomes []*event.Context
	for range calls {
		r := f.post("/v1/context", `{"person":"x"}`)
		require.Equal(t, http.StatusOK, r.status, r.body)
		c := complete(aProfile)
		c.Call = w.task(r.header.Get("X-Request-Id")).Call
		outcomes = append(outcomes, c)
	}
	require.EqualValues(t, calls, f.credits())
	other := *f
	cfg := queryapi.Config{Addr: "127.0.0.1:0", DataDir: t.TempDir()}
	var err error
	other.service, err = queryapi.New(t.Context(), cfg,
		queryapi.Deps{Secret: testSecret(t), ClickHouse: f.conn, Bus: f.bus})
	require.NoError(t, err)
	run(t, other.service)
	other.client = &http.Client{Transport: newValidator(t), Timeout: waitTimeout}
	t.Cleanup(other.client.CloseIdleConnections)
	require.EqualValues(t, calls, other.credits())
	for _, c := range outcomes {
		require.NoError(t, w.publish(t.Context(), c))
	}
	// These are charged after everything before them in each partition was read.
	for range calls {
		require.Equal(t, http.StatusOK, f.post("/v1/context", `{"person":"y"}`).status)
	}
	f.spends(2 * calls)
	for i := 0; i < 40; i++ {
		require.LessOrEqual(t, other.credits(), int64(2*calls))
	}
	require.EqualValues(t, 2*calls, f.credits())
}
