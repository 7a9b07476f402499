package queryapi_test

import (
	"context"
	"maps"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/platform/polltest"
	queryapi "muster/query-api"
	"muster/query-api/internal/idempotency"
	"muster/schemas/event"
	"muster/schemas/suppress"
)

// onlyTask waits for exactly one task besides the known ones, and returns its ID.
func (w *contextWorker) onlyTask(after ...string) (id string) {
	w.f.t.Helper()
	require.Eventually(w.f.t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.tasks) > len(after)
	}, waitTimeout, time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Len(w.f.t, w.tasks, len(after)+1)
	for id = range w.tasks {
		known := false
		for _, a := range after {
			known = known || a == id
		}
		if !known {
			return id
		}
	}
	return ""
}

// finish publishes the result of a task.
func (w *contextWorker) finish(id string, c *event.Context) {
	w.f.t.Helper()
	c.Call = w.task(id).Call
	require.NoError(w.f.t, w.publish(w.f.t.Context(), c))
}

// abandonCall makes a call, and breaks its connection once the task is published.
func (f *fixture) abandonCall(w *contextWorker, body, key string) (id string) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	left := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.service.URL()+"/v1/context",
			strings.NewReader(body))
		if err != nil {
			left <- err
			return
		}
		req.Header.Set("Authorization", "Bearer "+f.key)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		left <- err
	}()
	id = w.onlyTask()
	cancel()
	require.ErrorIs(f.t, <-left, context.Canceled)
	return id
}

// callWithKey makes a call with an Idempotency-Key, and retries while another call with the key runs.
func (f *fixture) callWithKey(body, key string) (r response) {
	f.t.Helper()
	polltest.Until(f.t, waitTimeout, func() bool {
		r = f.do(http.MethodPost, "/v1/context", body, idempotent(key))
		return r.status != http.StatusConflict
	}, "another call with the key is running")
	return r
}

func startSilent(t *testing.T, change func(*queryapi.Config, *queryapi.Deps)) (*fixture, *contextWorker) {
	t.Helper()
	f := start(t, func(c *queryapi.Config, d *queryapi.Deps) {
		c.WebhookAllow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		if change != nil {
			change(c, d)
		}
	})
	return f, startContextWorker(f, func(event.ContextTask) *event.Context { return nil })
}

func TestContext_RepeatAfterBrokenConnectionContinuesTask(t *testing.T) {
	f, w := startSilent(t, nil)
	const body = `{"person":"x"}`
	id := f.abandonCall(w, body, "k")
	made := complete(aProfile)
	made.Call = w.task(id).Call
	time.AfterFunc(100*time.Millisecond, func() { // usually the second call is waiting by then
		if err := w.publish(context.WithoutCancel(t.Context()), made); err != nil {
			t.Error(err)
		}
	})
	r := f.callWithKey(body, "k")
	require.Equal(t, http.StatusOK, r.status, r.body)
	require.JSONEq(t, aProfile, r.body)
	require.Equal(t, "true", r.header.Get("Idempotent-Replayed"))
	require.Equal(t, "0", r.header.Get("X-Credits-Charged"))
	f.spends(1)
	third := f.callWithKey(body, "k")
	require.Equal(t, r.body, third.body)
	require.Equal(t, id, w.onlyTask())
	require.EqualValues(t, 1, f.credits())
	require.Equal(t, 422, f.callWithKey(`{"person":"y"}`, "k").status)
}

func TestContext_RepeatWithWebhookIsDeliveredOnce(t *testing.T) {
	f, w := startSilent(t, nil)
	const body = `{"person":"x","webhook_url":"https://hooks.example/a"}`
	id := f.abandonCall(w, body, "k")
	r := f.callWithKey(body, "k")
	require.Equal(t, "true", r.header.Get("Idempotent-Replayed"))
	var accepted struct {
		RequestID string `json:"request_id"`
	}
	require.Equal(t, http.StatusAccepted, r.status, r.body)
	require.NoError(t, json.Unmarshal([]byte(r.body), &accepted))
	require.Equal(t, id, accepted.RequestID)
	w.finish(id, complete(aProfile))
	require.Eventually(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.deliveries[id]) > 0
	}, waitTimeout, 5*time.Millisecond)
	require.Equal(t, r.body, f.callWithKey(body, "k").body)
	f.spends(1)
	require.Equal(t, id, w.onlyTask())
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Len(t, w.deliveries, 1)
}

func TestContext_RepeatAfterTimeoutWaitsForSameTask(t *testing.T) {
	f, w := startSilent(t, nil)
	const body = `{"person":"x","response_timeout_sec":0.05}`
	first := f.callWithKey(body, "k")
	require.Equal(t, http.StatusGatewayTimeout, first.status)
	id := w.onlyTask()
	for range 2 {
		r := f.callWithKey(body, "k")
		require.Equal(t, http.StatusGatewayTimeout, r.status)
		require.Equal(t, first.body, r.body, "it names the same request")
	}
	w.finish(id, complete(aProfile))
	waitForStatus(t, http.StatusOK, func() response { return f.callWithKey(body, "k") })
	require.Equal(t, "true", f.callWithKey(body, "k").header.Get("Idempotent-Replayed"))
	f.spends(1)
	require.Equal(t, id, w.onlyTask())
}

func TestContext_RepeatAfterFailureStartsNewTask(t *testing.T) {
	f, w := startSilent(t, nil)
	const body = `{"person":"x","response_timeout_sec":0.05}`
	require.Equal(t, http.StatusGatewayTimeout, f.callWithKey(body, "k").status)
	id := w.onlyTask()
	w.finish(id, &event.Context{Status: event.ContextFailed,
		Failure: &event.ContextFailure{Status: 503, Detail: "the data store could not answer in time"}})
	waitForStatus(t, http.StatusServiceUnavailable, func() response { return f.get("/v1/context/" + id) })
	require.Equal(t, http.StatusGatewayTimeout, f.callWithKey(body, "k").status)
	next := w.onlyTask(id)
	w.finish(next, complete(aProfile))
	waitForStatus(t, http.StatusOK, func() response { return f.callWithKey(body, "k") })
	w.onlyTask(id)
}

func TestContext_RepeatAfterErasureStartsNewTask(t *testing.T) {
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	f, w := startSilent(t, func(_ *queryapi.Config, d *queryapi.Deps) { d.Suppressed = set })
	const body = `{"person":"x","response_timeout_sec":0.05}`
	require.Equal(t, http.StatusGatewayTimeout, f.callWithKey(body, "k").status)
	id := w.onlyTask()
	made := complete(aProfile)
	made.Identities = []string{"network-person p1"}
	w.finish(id, made)
	waitForStatus(t, http.StatusOK, func() response { return f.get("/v1/context/" + id) })
	erase(t, set, suppress.ProfileID, "p1")
	require.Equal(t, http.StatusGatewayTimeout, f.callWithKey(body, "k").status)
	w.onlyTask(id)
}

// The key is bound to its task on disk. A process killed before the publication was confirmed
// publishes the task again under the same ID.
func TestContext_RepeatAfterRestartContinuesTask(t *testing.T) {
	var cfg queryapi.Config
	var deps queryapi.Deps
	f, w := startSilent(t, func(c *queryapi.Config, d *queryapi.Deps) { cfg, deps = *c, *d })
	charged := followCharges(f)
	cfg.DataDir, deps.Registerer = t.TempDir(), nil
	served := func(do func(f *fixture)) {
		t.Helper()
		other := *f
		var err error
		other.service, err = queryapi.New(t.Context(), cfg, deps)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		done := make(chan error, 1)
		go func() { done <- other.service.Run(ctx) }()
		ready(t, other.service)
		do(&other)
		stop()
		require.NoError(t, <-done)
	}
	const body = `{"person":"x","response_timeout_sec":0.05}`
	served(func(f *fixture) { require.Equal(t, http.StatusGatewayTimeout, f.callWithKey(body, "k").status) })
	id := w.onlyTask()
	served(func(f *fixture) {
		w.finish(id, complete(aProfile))
		waitForStatus(t, http.StatusOK, func() response { return f.callWithKey(body, "k") })
	})
	require.Equal(t, id, w.onlyTask())

	disk, err := idempotency.OpenDisk(idempotency.DiskConfig{Dir: filepath.Join(cfg.DataDir, "answers")})
	require.NoError(t, err)
	sealing, err := testSecret(t).Key("idempotent-answers", idempotency.KeyBytes)
	require.NoError(t, err)
	answers, err := idempotency.NewAnswers(disk, sealing)
	require.NoError(t, err)
	_, _, claim, err := answers.Begin(t.Context(), idempotency.Call{
		Organization: f.organization.ID, Method: http.MethodPost, Path: "/v1/context", Key: "killed", Part: "work",
		Body: []byte(body), Owner: "work", Lease: time.Minute,
	})
	require.NoError(t, err)
	const killed = "01980c5e-6b1f-7c3a-9d55-2f6f5c1d7e10"
	require.NoError(t, claim.Complete(t.Context(), idempotency.Answer{Body: []byte(`{"id":"` + killed + `"}`)}))
	require.NoError(t, disk.Close())
	served(func(f *fixture) {
		require.Equal(t, http.StatusGatewayTimeout, f.callWithKey(body, "killed").status)
		require.Equal(t, killed, w.onlyTask(id))
		require.Equal(t, http.StatusGatewayTimeout, f.callWithKey(body, "killed").status)
		w.finish(killed, complete(aProfile))
		waitForStatus(t, http.StatusOK, func() response { return f.callWithKey(body, "killed") })
	})
	w.onlyTask(id)
	require.Eventually(t, func() bool { return len(charged()) == 2 }, 100*time.Second, 5*time.Millisecond,
		"charged by any process, possibly after the session of the ended one")
	require.Equal(t, map[string]bool{id: true, killed: true}, charged())
}

// followCharges returns a function that returns the requests charged so far, by any process. Two processes may write an
// event for one request, which the ledger counts once.
func followCharges(f *fixture) func() map[string]bool {
	var mu sync.Mutex
	charged := make(map[string]bool)
	follower := bus.Follow(context.WithoutCancel(f.t.Context()), f.bus, bus.FollowConfig{
		Topics: []string{event.TopicUsage},
		Handle: func(_ context.Context, m kafka.Message) error {
			var u event.Usage
			if err := json.Unmarshal(m.Value, &u); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if u.Credits > 0 {
				charged[u.RequestID] = true
			}
			return nil
		},
	})
	f.t.Cleanup(func() { require.NoError(f.t, follower.Close()) })
	return func() map[string]bool {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(charged)
	}
}
