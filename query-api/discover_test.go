package queryapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// worker is a fake discovery-worker.
type worker struct {
	mu    sync.Mutex
	tasks []event.DiscoveryTask
}

func (w *worker) asked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.tasks)
}

// startWorker publishes the result of answer for each task with an account; nil publishes nothing.
func startWorker(f *fixture, answer func(event.DiscoveryTask) *event.Discovery) *worker {
	f.t.Helper()
	return startTaskWorker(f, event.TypeDiscovery, func(task event.DiscoveryTask, at time.Time) any {
		if task.Query != nil {
			return nil
		}
		d := answer(task)
		if d == nil {
			return nil
		}
		d.RequestID, d.Input, d.At = task.RequestID, task.Input, at
		return d
	})
}

// startTaskWorker publishes the result of answer for each task, as an event of a type; nil publishes nothing.
func startTaskWorker(f *fixture, eventType string, answer func(event.DiscoveryTask, time.Time) any) *worker {
	f.t.Helper()
	w := &worker{}
	writer := bus.NewWriter(f.bus)
	follower := bus.Follow(context.WithoutCancel(f.t.Context()), f.bus, bus.FollowConfig{
		Topics: []string{event.TopicDiscoveryTask},
		Handle: func(ctx context.Context, m kafka.Message) error {
			var task event.DiscoveryTask
			if err := json.Unmarshal(m.Value, &task); err != nil {
				return err
			}
			w.mu.Lock()
			w.tasks = append(w.tasks, task)
			w.mu.Unlock()
			at := time.Now().UTC()
			result := answer(task, at)
			if result == nil {
				return nil
			}
			value, err := json.Marshal(result)
			if err != nil {
				return err
			}
			out := kafka.Message{Topic: event.TopicDiscovery, Key: m.Key, Value: value,
				Headers: bus.SetEvent(nil, bus.Event{
					ID: task.RequestID, Type: eventType, Source: "/test", Subject: task.RequestID, Time: at,
				})}
			return bus.WriteAll(ctx, writer, []kafka.Message{out})
		},
	})
	f.t.Cleanup(func() {
		require.NoError(f.t, follower.Close())
		require.NoError(f.t, writer.Close())
	})
	return w
}

func found(task event.DiscoveryTask) *event.Discovery {
	text := "Name: Juno Abara"
	return &event.Discovery{Socials: []event.Social{
		{Account: task.Input, Confidence: 1},
		{
			Account: event.Account{Platform: "network", Username: "juno abara"}, Identity: "p1", Confidence: 0.97,
			Raw:     0.99,
			Context: &text, Evidence: []event.Evidence{{Kind: "link", Finding: "mutual", Weight: 12.5}},
		},
	}}
}

func TestDiscover(t *testing.T) {
	f := start(t, nil)
	w := startWorker(f, func(task event.DiscoveryTask) *event.Discovery {
		switch strings.ToLower(task.Input.Username) {
		case "missing":
			return &event.Discovery{Socials: []event.Social{{Account: task.Input, Confidence: 1}},
				Degraded: []string{"web_search", "language_model"}}
		default:
			return found(task)
		}
	})
	r := f.post("/v1/person/discover", `{"codehost":"https://codehost.example/Juno"}`)
	require.Equal(t, http.StatusOK, r.status, r.body)
	require.JSONEq(t, `{"socials":[
		{"platform":"codehost","username":"Juno","link":"https://codehost.example/Juno","confidence":1,"context":null},
		{"platform":"network","username":"juno abara","link":"https://network.example/in/juno%20abara",`+
		`"confidence":0.97,"context":"Name: Juno Abara",
		 "evidence":[{"kind":"link","finding":"mutual","weight":12.5}]}]}`, r.body)
	require.Equal(t, "1", r.header.Get("X-Credits-Charged"))
	require.Empty(t, r.header.Get("X-Degraded"))

	// Profiles below min_confidence are neither returned nor charged.
	r = f.post("/v1/person/discover", `{"codehost":"Juno","min_confidence":0.97}`)
	require.Len(t, r.json()["socials"], 2)
	r = f.post("/v1/person/discover", `{"codehost":"Juno","min_confidence":0.98}`)
	require.Equal(t, http.StatusOK, r.status, r.body)
	require.Len(t, r.json()["socials"], 1)
	require.Equal(t, "0", r.header.Get("X-Credits-Charged"))
	require.Equal(t, "below_confidence", r.header.Get("X-Miss-Reason"))

	r = f.post("/v1/person/discover", `{"url":"microblog.example/missing","max_age_days":0}`)
	require.Equal(t, http.StatusOK, r.status, r.body)
	require.Equal(t, "web_search,language_model", r.header.Get("X-Degraded"))
	require.Equal(t, "0", r.header.Get("X-Credits-Charged"), "nothing beyond the input")

	// A dry run searches nothing, and rejects the same input as a call.
	r = f.post("/v1/person/discover", `{"codehost":"juno","dry_run":true}`)
	require.Equal(t, map[string]any{"dry_run": true, "max_credits": 1.,
		"credits_remaining": r.json()["credits_remaining"]}, r.json())
	require.Equal(t, "0", r.header.Get("X-Credits-Charged"))
	require.Equal(t, http.StatusBadRequest, f.post("/v1/person/discover", `{"dry_run":true}`).status)

	t.Run("kept", func(t *testing.T) {
		var rows readmodel.DiscoveryBatch
		d := found(event.DiscoveryTask{Input: event.Account{Platform: "microblog", Username: "Juno"}})
		d.RequestID, d.Input, d.At = "old", event.Account{Platform: "microblog", Username: "Juno"},
			time.Now().Add(-48*time.Hour)
		require.NoError(t, rows.Add(d, readmodel.Position{Topic: event.TopicDiscovery}))
		require.NoError(t, readmodel.InsertDiscoveries(t.Context(), f.conn, "kept", &rows))
		before := w.asked()
		r := f.post("/v1/person/discover", `{"microblog":"juno","max_age_days":3}`)
		require.Equal(t, http.StatusOK, r.status, r.body)
		require.Contains(t, r.body, "0.97")
		require.NotEmpty(t, r.header.Get("Age"))
		require.Equal(t, "1", r.header.Get("X-Credits-Charged"))
		require.Equal(t, before, w.asked(), "no task")
		once := f.do(http.MethodPost, "/v1/person/discover", `{"microblog":"juno","max_age_days":3}`,
			idempotent("kept"))
		again := f.do(http.MethodPost, "/v1/person/discover", `{"microblog":"juno","max_age_days":3}`,
			idempotent("kept"))
		require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
		require.NotEmpty(t, once.header.Get("Age"))
		require.Equal(t, once.header.Get("Age"), again.header.Get("Age"))
		r = f.post("/v1/person/discover", `{"microblog":"juno","max_age_days":1}`)
		require.Equal(t, http.StatusOK, r.status, r.body)
		require.Empty(t, r.header.Get("Age"))
		require.Equal(t, before+1, w.asked())
	})
	t.Run("invalid", func(t *testing.T) {
		for body, detail := range map[string]string{
			`{}`:                                  "0 identifiers are given",
			`{"codehost":"a","network":"b"}`:      "2 identifiers are given",
			`{"codehost":"https://evil.example"}`: "codehost is a URL of a foreign host",
			`{"url":"https://evil.example/x"}`: "url is a URL of a foreign host: give a profile's URL, " +
				"such as https://codehost.example/jane or ",
			`{"network":"network.example/company/acme"}`: "network is a company's URL",
			`{"codehost":" "}`:                           "codehost is empty",
			`{"codehost":"a","max_age_days":366}`:        "max_age_days is 366",
			`{"codehost":"a","max_age_days":-1}`:         "max_age_days is -1",
			`{"codehost":"a","min_confidence":0.44}`:     "min_confidence is 0.44: it must be between 0.45",
			`{"codehost":"a","min_confidence":1.5}`:      "min_confidence is 1.5",
			`{"codehost":"a","min_confidence":"high"}`:   "min_confidence must be a number",
			`{"microblogs":"a"}`:                         "microblog",
			`{"codehost":7}`:                             "codehost must be a string",
		} {
			r := f.post("/v1/person/discover", body)
			require.Equal(t, http.StatusBadRequest, r.status, body)
			require.Contains(t, r.detail(), detail, body)
		}
	})
}

func TestDiscover_ConcurrentCallsShareATask(t *testing.T) {
	f := start(t, nil)
	release := make(chan struct{})
	w := startWorker(f, func(task event.DiscoveryTask) *event.Discovery {
		<-release
		return found(task)
	})
	var wg sync.WaitGroup
	const callers = 8
	bodies := make(chan string, callers)
	for i := range callers {
		wg.Go(func() {
			name := "juno"
			if i%2 == 1 {
				name = "JUNO"
			}
			bodies <- f.post("/v1/person/discover", fmt.Sprintf(`{"codehost":%q}`, name)).body
		})
	}
	require.Eventually(t, func() bool { return w.asked() > 0 }, waitTimeout, time.Millisecond)
	close(release)
	wg.Wait()
	close(bodies)
	for b := range bodies {
		require.Contains(t, b, "0.97")
	}
	require.Less(t, w.asked(), callers)
}

func TestDiscover_WithoutWorkerReturnsInput(t *testing.T) {
	f := start(t, func(cfg *queryapi.Config, _ *queryapi.Deps) { cfg.DiscoveryBudget = 200 * time.Millisecond })
	r := f.post("/v1/person/discover", `{"codehost":"juno"}`)
	require.Equal(t, http.StatusOK, r.status, r.body)
	require.Equal(t, "input,known_links,web_search", r.header.Get("X-Degraded"))
	require.Equal(t, "0", r.header.Get("X-Credits-Charged"))
	require.Len(t, r.json()["socials"], 1)
}

// A username has moved to another account, or a record was deleted.
func TestDiscover_StoredResultIsDroppedIfAccountChanged(t *testing.T) {
	f := start(t, nil)
	w := startWorker(f, found)
	kept := func() bool {
		t.Helper()
		before := w.asked()
		r := f.post("/v1/person/discover", `{"network":"kept-in"}`)
		require.Equal(t, http.StatusOK, r.status, r.body)
		require.Equal(t, w.asked() == before, r.header.Get("Age") != "")
		return w.asked() == before
	}
	f.keep(profile("network", "kept-in", "p1", 0), profile("codehost", "Kept-Linked", "1", 0.99),
		profile("microblog", "kept_follows", "m1", 0.98))
	accounts := []struct {
		kind         record.Kind
		id, username string
	}{
		{record.KindNetworkPerson, `{"profile_id":"p%d"`, `,"username":"kept-in"`},
		{record.KindCodehostPerson, `{"user_id":%d`, `,"codehost_username":"kept-linked"`},
		{record.KindMicroblogPerson, `{"user_id":"m%d"`, `,"username":"kept_follows"`},
	}
	for _, a := range accounts {
		f.insert(a.kind, fmt.Sprintf(a.id, 1)+a.username+`,"last_updated":"2026-01-01T00:00:00Z"}`)
	}
	require.True(t, kept())
	for _, a := range accounts {
		// Another account has the username, until it changes.
		f.insert(a.kind, fmt.Sprintf(a.id, 2)+a.username+`,"last_updated":"2026-02-01T00:00:00Z"}`)
		require.False(t, kept(), a.kind)
		f.insert(a.kind, fmt.Sprintf(a.id, 2)+strings.Replace(a.username, "kept", "other",
			1)+`,"last_updated":"2026-03-01T00:00:00Z"}`)
		require.True(t, kept(), a.kind)
		// The record is deleted, until it is restored.
		f.insert(a.kind, fmt.Sprintf(a.id, 1)+`,"deleted":true,"last_updated":"2026-02-01T00:00:00Z"}`)
		require.False(t, kept(), a.kind)
		f.insert(a.kind, fmt.Sprintf(a.id, 1)+a.username+`,"last_updated":"2026-03-01T00:00:00Z"}`)
		require.True(t, kept(), a.kind)
	}
	f.keep(profile("network", "kept-in", "p1", 0), profile("codehost", "live-only", "99", 0.99))
	require.True(t, kept(), "a code-host account without a record")
}

func TestDiscover_EmptyResultSaysWhy(t *testing.T) {
	f := start(t, nil)
	startWorker(f, func(task event.DiscoveryTask) *event.Discovery {
		d := &event.Discovery{Socials: []event.Social{{Account: task.Input, Confidence: 1}}}
		switch task.Input.Username {
		case "below":
			d.BelowConfidence = true
		case "degraded":
			d.Degraded, d.BelowConfidence = []string{event.StageWebSearch}, true
		case "found":
			d = found(task)
			d.BelowConfidence = true // on the third platform
		}
		return d
	})
	for username, reason := range map[string]string{
		"nothing": "not_found", "below": "below_confidence", "degraded": "", "found": "",
	} {
		got := f.post("/v1/person/discover", `{"codehost":"`+username+`","max_age_days":0}`)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Equal(t, reason, got.header.Get("X-Miss-Reason"), username)
		require.Equal(t, map[bool]string{true: "1", false: "0"}[username == "found"], got.header.Get("X-Credits-Charged"))
	}
}
