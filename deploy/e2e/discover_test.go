package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/deploy/e2e/internal/oracle"
)

// outside is an external server that counts calls, and holds each until it is released or its caller has gone.
type outside struct {
	*httptest.Server
	calls   atomic.Int64
	release chan struct{}
}

func newOutside(t *testing.T, body string) *outside {
	t.Helper()
	o := &outside{release: make(chan struct{})}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		o.calls.Add(1)
		select {
		case <-o.release:
		case <-r.Context().Done():
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(o.Close)
	return o
}

// ingestUnlinkedPeople ingests people with an account on two platforms that have the same name and username, but no
// link.
func ingestUnlinkedPeople(t *testing.T, p *platform, n int) (usernames []string) {
	t.Helper()
	dir := t.TempDir()
	var network, codehost strings.Builder
	given := strings.Fields(
		"Orinda Tavish Melwin Brisca Odalie Fenwick Jorvan Liska Perrin Wenda Corvin Maelis Torben Ysolde Hadrin " +
			"Quilla Sorrel Bastian Elowen Farrow Gwendal Ilse Jessamy Kelda")
	family := strings.Fields(
		"Abarane Brekkevold Castellane Drummore Eskeland Farquhart Gallowey Hethering Ingersby Jorveken Kestrelle " +
			"Lindqvarn Mortlaken Nethersole Ormondroyd Pellington Quarrelby Rothwaite Silverthorn Tanqueraye " +
			"Underhayes Velderman Wetherall Yarborough")
	require.LessOrEqual(t, n, len(given))
	for i := range n {
		name := given[i] + " " + family[i]
		username := strings.ToLower(given[i] + "-" + family[i])
		usernames = append(usernames, username)
		fmt.Fprintf(&network, `{"profile_id":"p%d","username":%q,"full_name":%q,"last_updated":"2026-01-01T00:00:00Z"}`+
			"\n", i, username, name)
		fmt.Fprintf(&codehost,
			`{"user_id":%d,"codehost_username":%q,"full_name":%q,"last_updated":"2026-01-01T00:00:00Z"}`+"\n", i+1,
			strings.ReplaceAll(username, "-", ""), name)
	}
	for kind, text := range map[string]string{oracle.NetworkPerson: network.String(),
		oracle.CodehostPerson: codehost.String()} {
		path := filepath.Join(dir, kind+".ndjson")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		p.muster(t, "ingest", kind, path)
	}
	p.muster(t, "status", "--wait", "--timeout", "2m")
	return usernames
}

func discover(username string) map[string]any {
	return map[string]any{"network": username, "max_age_days": 0}
}

// Another discovery-worker takes over the in-flight tasks of a killed one, and none is lost.
func TestDiscoveryWorkerKilled(t *testing.T) {
	t.Parallel()
	p := start(t, newDataDir(t), "--no-sample")
	people := ingestUnlinkedPeople(t, p, 24)
	web := newOutside(t, `{"results":[]}`)

	worker := exec.Command(binary, "--data-dir", t.TempDir(), "run", "discovery-worker", "--admin-addr", "127.0.0.1:0")
	worker.Env = append(p.serviceEnv(t), "SEARXNG_URL="+web.URL, "DISCOVERY_PROVIDER_TIMEOUT=1m")
	var log output
	worker.Stdout, worker.Stderr, worker.SysProcAttr = &log, &log, dieWithParent()
	require.NoError(t, worker.Start())
	killed := sync.OnceFunc(func() { _ = worker.Process.Kill(); _ = worker.Wait() })
	t.Cleanup(killed)

	// Both workers share the partitions once this one has joined. It blocks in its web search.
	api := p.api()
	var asking sync.WaitGroup
	defer asking.Wait()
	var mu sync.Mutex
	var answers []answer
	var failed error
	asked := 0
	eventually(t, 2*time.Minute, func() (bool, string) {
		mu.Lock()
		defer mu.Unlock()
		if asked-len(answers) < 4 && failed == nil {
			who := people[asked%len(people)]
			asked++
			asking.Go(func() {
				a, err := api.post(context.WithoutCancel(t.Context()), "/v1/person/discover", discover(who))
				mu.Lock()
				defer mu.Unlock()
				answers, failed = append(answers, a), errors.Join(failed, err)
			})
		}
		return web.calls.Load() >= 2,
			fmt.Sprintf("%d requests, but no task for the second worker: %s", asked, lastLines(log.String(), 10))
	})
	held := web.calls.Load()
	killed()
	asking.Wait()
	require.NoError(t, failed)
	whole := 0
	for _, a := range answers {
		require.Equal(t, http.StatusOK, a.status, "%s", a.body)
		if a.header.Get("X-Degraded") == "" {
			require.Contains(t, string(a.body), `"platform":"codehost"`)
			whole++
		}
	}
	// Results that were too late for their caller are stored for the next one.
	want := itoa(min(asked, len(people)))
	eventually(t, 2*time.Minute, func() (bool, string) {
		kept := strings.TrimSpace(p.sql(t, "SELECT uniqExact(username_key) FROM discoveries WHERE found = 1")[0])
		return kept == want, fmt.Sprintf("results of %s people stored, want %s", kept, want)
	})
	t.Logf("killed with %d of %d discoveries in flight; %d responses complete, the other results stored", held,
		asked, whole)
	p.stop(t)
}

// Concurrent requests on two replicas of query-api share one task. If the caller disconnects, the language model's
// opinion is still stored.
func TestDiscoveryOnce(t *testing.T) {
	model := newOutside(t,
		`{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant",`+
			`"content":"{\"scores\":[{\"candidate\":0,\"same_person\":1}]}"}}]}`)
	t.Setenv("MUSTER_LLM_URL", model.URL+"/v1")
	t.Setenv("MUSTER_LLM_NAME", "test")
	p := start(t, newDataDir(t), "--no-sample")
	people := ingestUnlinkedPeople(t, p, 2)
	second := newReplica(t, p)
	second.run(t, p.APIKey)
	metric := func(name string) int {
		r, err := newClient().Get(p.AdminURL + "/metrics")
		require.NoError(t, err)
		defer func() { require.NoError(t, r.Body.Close()) }()
		text, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, name+" "); ok {
				return atoi(t, strings.TrimSpace(rest))
			}
		}
		return 0
	}

	first, other := p.api(), &api{base: second.base, key: p.APIKey, client: newClient()}
	gone, leave := context.WithCancel(t.Context())
	var left sync.WaitGroup
	left.Go(func() { _, _ = first.post(gone, "/v1/person/discover", discover(people[0])) })
	eventually(t, time.Minute, func() (bool, string) { return model.calls.Load() == 1, "no call of the model" })
	leave() // during the call of the model
	left.Wait()
	// A request before the server notices that would wait for the same task.
	eventually(t, time.Minute, func() (bool, string) {
		n := metric("muster_http_requests_in_flight")
		return n == 0, fmt.Sprintf("%d requests in flight", n)
	})
	const callers = 12
	bodies := make(chan string, callers)
	var asking sync.WaitGroup
	for i := range callers {
		asking.Go(func() {
			a, err := []*api{first, other}[i%2].post(context.WithoutCancel(t.Context()), "/v1/person/discover",
				discover(people[0]))
			if err == nil {
				bodies <- string(a.body)
			}
		})
	}
	// One task of the caller who disconnected, and one of each replica.
	eventually(t, time.Minute, func() (bool, string) {
		n := metric("muster_discovery_tasks_in_flight")
		return n == 3, fmt.Sprintf("the worker has %d tasks in flight", n)
	})
	close(model.release)
	asking.Wait()
	close(bodies)
	require.Len(t, bodies, callers)
	for b := range bodies {
		require.Contains(t, b, `"orindaabarane"`)
	}
	require.EqualValues(t, 1, model.calls.Load())
	require.Equal(t, 1, metric("muster_discovery_executions_total"))

	// A new task: the opinion on the same two profiles is stored.
	require.Contains(t, string(first.mustPost(t, "/v1/person/discover", discover(people[0])).body), `"orindaabarane"`)
	require.EqualValues(t, 1, model.calls.Load())
	require.Equal(t, 2, metric("muster_discovery_executions_total"))
	p.stop(t)
}
