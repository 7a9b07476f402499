package discovery_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	discovery "muster/discovery-worker"
	"muster/discovery-worker/internal/model"
	"muster/discovery-worker/internal/model/modeltest"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// A task is redelivered after a restart if an earlier one was unfinished.
func TestService_SkipsTasksWithOutcome(t *testing.T) {
	f := newFixture(t)
	insertPeople(f)
	c := followContexts(t, f)
	began := time.Now().UTC()
	call := func(id string, age time.Duration) event.ContextCall {
		return event.ContextCall{
			RequestID: id, OrganizationID: "org", KeyID: "key", Price: 1, RequestedAt: began.Add(-age),
			RespondBy: began.Add(-age + 30*time.Second), WebhookURL: "https://hooks.example/a",
		}
	}
	states := []event.Context{
		{Call: call("answered", time.Minute), Status: event.ContextComplete, Profile: jsontext.Value(`{}`)},
		{Call: call("failed", time.Minute), Status: event.ContextFailed,
			Failure: &event.ContextFailure{Status: 503, Detail: "x"}},
		{Call: call("accepted", time.Minute), Status: event.ContextProcessing},
	}
	var rows readmodel.ContextBatch
	for i, s := range states {
		s.At = began.Add(-time.Minute)
		require.NoError(t, rows.Add(&s, readmodel.Position{Topic: event.TopicContext, Offset: int64(i)}))
	}
	require.NoError(t, readmodel.InsertContexts(t.Context(), f.conn, "states", &rows))
	var found readmodel.DiscoveryBatch
	juno := event.Account{Platform: "codehost", Username: "JunoA"}
	require.NoError(t, found.Add(&event.Discovery{
		RequestID: "first", Input: juno, Socials: []event.Social{{Account: juno, Confidence: 1}},
		At: began.Add(-30 * time.Second),
	}, readmodel.Position{}))
	require.NoError(t, readmodel.InsertDiscoveries(t.Context(), f.conn, "found", &found))

	for _, s := range states {
		c.submit(s.Call.RequestID, event.ContextTask{Person: jsontext.Value(`{"email":"juno@abara.example"}`),
			Call: s.Call})
	}
	c.submit("old", event.ContextTask{Person: jsontext.Value(`{"email":"juno@abara.example"}`),
		Call: call("old", 25*time.Hour)})
	f.submitAt("first", "codehost", "junoa", began.Add(-time.Minute), began.Add(-40*time.Second))
	f.submitAt("second", "codehost", "junoa", began.Add(-20*time.Second), began.Add(-10*time.Second))
	f.startWorker()

	require.True(t, c.awaitOutcome("accepted").Delivered, "a task without outcome runs and is delivered")
	require.Len(t, f.awaitResult("second").Socials, 2, "a task newer than the last discovery runs")
	require.Eventually(t, func() bool {
		contexts, discoveries := f.counters("muster_context_tasks_total"), f.counters("muster_discovery_tasks_total")
		return contexts["duplicate"] == 2 && contexts["expired"] == 1 && discoveries["duplicate"] == 1
	}, 10*time.Second, 5*time.Millisecond)
	for _, id := range []string{"answered", "failed", "old"} {
		require.Empty(t, c.deliveriesOf(id), id)
		c.mu.Lock()
		require.Empty(t, c.outcomes[id], id)
		c.mu.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Empty(t, f.results["first"])
}

// counters returns the values of a counter of the last worker, by outcome.
func (f *fixture) counters(name string) map[string]float64 {
	families, err := f.metrics.Gather()
	require.NoError(f.t, err)
	out := make(map[string]float64)
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				out[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return out
}

// The other handler is idle during the drain.
func TestRun_FinishesTasksInFlight(t *testing.T) {
	f := newFixture(t)
	c := followContexts(t, f)
	begun, answer := make(chan struct{}), make(chan struct{})
	server := modeltest.New(func(int, modeltest.Call) modeltest.Reply {
		close(begun)
		<-answer
		return modeltest.Reply{Content: `{"mood":{"value":"bad","confidence":1,"source":"input","quote":"bad temper"}}`}
	})
	t.Cleanup(server.Close)
	stop := f.startWorkerWith(discovery.Config{
		Timing:    bus.GroupTiming{Drain: 30 * time.Second},
		Providers: discovery.Providers{Model: model.Config{URL: server.URL(), Name: "scripted"}},
	})
	c.submit("stopped", event.ContextTask{Person: jsontext.Value(`"bad temper"`),
		Schema: jsontext.Value(`{"mood":{"type":"string"}}`)})
	<-begun
	time.AfterFunc(500*time.Millisecond, func() { close(answer) })
	stop()
	require.JSONEq(t, `"bad"`, string(c.profile("stopped").Custom["mood"]))
}

// Calls to providers outlive their task, but not the worker.
func TestRun_StopsBackgroundCalls(t *testing.T) {
	f := newFixture(t)
	insertPeople(f)
	begun, ended := make(chan struct{}, 100), make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-r.Context().Done()
		ended <- struct{}{}
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	stop := f.startWorkerWith(discovery.Config{
		Timing:    bus.GroupTiming{Drain: 100 * time.Millisecond},
		Providers: discovery.Providers{SearXNG: discovery.Endpoint{URL: server.URL}, Timeout: time.Hour},
	})
	f.submit("asked", "network", "maria-sousa", soon())
	<-begun
	stop()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		require.Fail(t, "query after the worker stopped")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Empty(t, f.results["asked"])
}
