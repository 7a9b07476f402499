package websearch_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/discovery-worker/internal/people"
	"muster/discovery-worker/internal/provider"
	"muster/discovery-worker/internal/websearch"
	"muster/platform/breaker"
	"muster/schemas/event"
	"muster/schemas/identity"
)

// speaker is a local server that implements one service's documented protocol.
type speaker struct {
	name string
	// check returns the error that the service would respond with to a request, or "".
	check func(r *http.Request, body map[string]any) string
	// answer is a response with one profile, one company page and one article.
	answer string
}

const key = "secret-key"

func speakers() []speaker {
	return []speaker{
		{websearch.SearXNG, func(r *http.Request, _ map[string]any) string {
			q := r.URL.Query()
			switch {
			case r.Method != http.MethodGet || r.URL.Path != "/search":
				return "path"
			case q.Get("format") != "json":
				return "format"
			case !strings.Contains(q.Get("q"), `"Juno Abara"`) || !strings.Contains(q.Get("q"), "site:github.com"):
				return "q"
			}
			return ""
		}, `{"query":"x","number_of_results":0,"results":[
			{"url":"https://github.com/junoa","title":"junoa (Juno Abara) · Codehost","content":"Compilers in Oslo",
			"engine":"brave","parsed_url":["https","github.com","/junoa","","",""],"engines":["brave"],
			"positions":[1],"score":1.0,"category":"general"},
			{"url":"https://github.com/orgs/quenlix","title":"Quenlix","content":"","engine":"brave"},
			{"url":"https://news.example/juno","title":"Juno","content":"","engine":"brave"}],
			"answers":[],"corrections":[],"infoboxes":[],"suggestions":[],"unresponsive_engines":[["google",
			"timeout"]]}`},
		{websearch.Brave, func(r *http.Request, _ map[string]any) string {
			q := r.URL.Query()
			switch {
			case r.Method != http.MethodGet || r.URL.Path != "/res/v1/web/search":
				return "path"
			case r.Header.Get("X-Subscription-Token") != key:
				return "token"
			case q.Get("count") == "" || !strings.Contains(q.Get("q"), "site:github.com"):
				return "q"
			}
			return ""
		}, `{"type":"search","query":{"original":"x","more_results_available":false},"mixed":{"type":"mixed",
			"main":[{"type":"web","index":0,"all":false}]},
			"web":{"type":"search","results":[
			{"title":"junoa (Juno Abara) · Codehost","url":"https://github.com/junoa","is_source_local":false,
			"description":"Compilers in Oslo","language":"en","family_friendly":true,"profile":{"name":"GitHub"},
			"meta_url":{"scheme":"https"}},
			{"title":"Quenlix","url":"https://github.com/orgs/quenlix","description":""},
			{"title":"Juno","url":"https://news.example/juno","description":""}],"family_friendly":true}}`},
		{websearch.Tavily, func(r *http.Request, body map[string]any) string {
			domains, _ := body["include_domains"].([]any)
			switch {
			case r.Method != http.MethodPost || r.URL.Path != "/search":
				return "path"
			case r.Header.Get("Authorization") != "Bearer "+key:
				return "token"
			case body["search_depth"] != "basic" || body["max_results"] == nil ||
				!slices.Equal(domains, []any{"github.com"}):
				return "body"
			}
			return ""
		}, `{"query":"x","follow_up_questions":null,"answer":null,"images":[],"results":[
			{"title":"junoa (Juno Abara) · Codehost","url":"https://github.com/junoa","content":"Compilers in Oslo",
			"score":0.81,"raw_content":null},
			{"title":"Quenlix","url":"https://github.com/orgs/quenlix","content":"","score":0.5,"raw_content":null},
			{"title":"Juno","url":"https://news.example/juno","content":"","score":0.4,"raw_content":null}],
			"response_time":1.2,"request_id":"r"}`},
		{websearch.Exa, func(r *http.Request, body map[string]any) string {
			domains, _ := body["includeDomains"].([]any)
			switch {
			case r.Method != http.MethodPost || r.URL.Path != "/search":
				return "path"
			case r.Header.Get("X-Api-Key") != key:
				return "token"
			case body["type"] != "auto" || body["numResults"] == nil || !slices.Equal(domains, []any{"github.com"}):
				return "body"
			}
			return ""
		}, `{"requestId":"r","resolvedSearchType":"neural","results":[
			{"id":"https://github.com/junoa","title":"junoa (Juno Abara) · Codehost","url":"https://github.com/junoa",
			"publishedDate":"2026-01-01T00:00:00.000Z","author":"junoa","text":"Compilers in Oslo"},
			{"id":"https://github.com/orgs/quenlix","title":null,"url":"https://github.com/orgs/quenlix","text":""},
			{"id":"https://news.example/juno","title":"Juno","url":"https://news.example/juno","text":""}],
			"costDollars":{"total":0.005}}`},
	}
}

// serve starts a speaker's server. reply may answer in its place.
func serve(t *testing.T, s speaker,
	reply func(n int64, w http.ResponseWriter) bool) (websearch.Service, *atomic.Int64) {
	t.Helper()
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := calls.Add(1)
		if reply != nil && reply(n, w) {
			return
		}
		var body map[string]any
		if r.Method == http.MethodPost {
			if err := json.UnmarshalRead(r.Body, &body); err != nil {
				http.Error(w, "body", http.StatusBadRequest)
				return
			}
		}
		if wrong := s.check(r, body); wrong != "" {
			http.Error(w, wrong, http.StatusUnprocessableEntity)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, s.answer)
	}))
	t.Cleanup(server.Close)
	service, err := websearch.NewService(s.name, websearch.Endpoint{URL: server.URL + "/", Key: key},
		provider.NewClient())
	require.NoError(t, err)
	return service, &calls
}

func guard(t *testing.T, s websearch.Service,
	cfg provider.Config) *provider.Guarded[websearch.Query, []websearch.Result] {
	t.Helper()
	m, err := provider.NewMetrics(nil)
	require.NoError(t, err)
	g, err := provider.Guard(s, cfg, func(q websearch.Query) string { return q.Host + q.Text }, m,
		slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return g
}

func juno() *people.Profile {
	return &people.Profile{
		Platform: identity.Network, Username: "juno-abara", Key: "juno-abara", Person: true,
		Names: []string{"Juno \"JJ\" Abara", "Juno Abara"}, Headline: "Compiler engineer OR -poet",
		Employers: []string{"Quenlix"}, Places: []string{"Oslo"},
	}
}

func TestService_SendsAndParsesItsProtocol(t *testing.T) {
	p := juno()
	p.Names = p.Names[1:]
	for _, s := range speakers() {
		t.Run(s.name, func(t *testing.T) {
			service, _ := serve(t, s, nil)
			pages, err := websearch.New([]websearch.Service{guard(t, service, provider.Config{})},
				identity.Default()).Find(t.Context(), p, []string{identity.Codehost})
			require.NoError(t, err)
			require.Equal(t, []websearch.Page{{
				Account: event.Account{Platform: identity.Codehost, Username: "junoa"},
				Title:   "junoa (Juno Abara) · Codehost", Snippet: "Compilers in Oslo",
			}}, pages, "only profiles of people")
			found := pages[0].Profile()
			require.Equal(t, []string{"Juno Abara"}, found.Names)
			require.Equal(t, "Compilers in Oslo", found.Bio)
		})
	}
}

func TestService_ReportsErrors(t *testing.T) {
	query := websearch.Query{Text: `"Juno Abara"`, Host: "github.com"}
	for _, s := range speakers() {
		for name, c := range map[string]struct {
			reply  func(n int64, w http.ResponseWriter) bool
			err    string
			paused bool
		}{
			"500": {func(_ int64, w http.ResponseWriter) bool {
				w.WriteHeader(http.StatusInternalServerError)
				return true
			}, "500", false},
			"403": {func(_ int64, w http.ResponseWriter) bool {
				w.WriteHeader(http.StatusForbidden)
				return true
			}, "403", false},
			"429 with Retry-After": {func(_ int64, w http.ResponseWriter) bool {
				w.Header().Set("Retry-After", "60")
				w.WriteHeader(http.StatusTooManyRequests)
				return true
			}, "429", true},
			"429 with windows": {func(_ int64, w http.ResponseWriter) bool {
				w.Header().Set("X-RateLimit-Remaining", "0, 14000")
				w.Header().Set("X-RateLimit-Reset", "2, 1419704")
				w.WriteHeader(http.StatusTooManyRequests)
				return true
			}, "429", true},
			"malformed": {func(_ int64, w http.ResponseWriter) bool {
				_, _ = io.WriteString(w, `{"results":[{`)
				return true
			}, "malformed", false},
			"a page": {func(_ int64, w http.ResponseWriter) bool {
				_, _ = io.WriteString(w, `<html>Juno Abara</html>`)
				return true
			}, "malformed", false},
			"different schema": {func(_ int64, w http.ResponseWriter) bool {
				_, _ = io.WriteString(w, `{"results":"none","web":[]}`)
				return true
			}, "malformed", false},
			"redirect": {func(_ int64, w http.ResponseWriter) bool {
				w.Header().Set("Location", "http://elsewhere.example/")
				w.WriteHeader(http.StatusFound)
				return true
			}, "302", false},
			"endless": {func(_ int64, w http.ResponseWriter) bool {
				chunk := []byte(strings.Repeat(" ", 64<<10))
				for range 64 {
					if _, err := w.Write(chunk); err != nil {
						return true
					}
				}
				return true
			}, "more than", false},
		} {
			t.Run(s.name+"/"+name, func(t *testing.T) {
				service, calls := serve(t, s, c.reply)
				g := guard(t, service, provider.Config{Failures: 2, OpenFor: time.Hour})
				_, err := g.Ask(t.Context(), query)
				require.ErrorContains(t, err, c.err)
				require.NotContains(t, err.Error(), "Juno", "errors are logged")
				require.NotContains(t, err.Error(), key)
				_, err = g.Ask(t.Context(), query)
				if c.paused {
					require.ErrorIs(t, err, provider.ErrPaused)
					require.EqualValues(t, 1, calls.Load())
					return
				}
				require.Error(t, err)
				_, err = g.Ask(t.Context(), query)
				require.ErrorIs(t, err, breaker.ErrOpen)
				require.EqualValues(t, 2, calls.Load())
			})
		}
		t.Run(s.name+"/slow stream", func(t *testing.T) {
			left := make(chan struct{})
			service, _ := serve(t, s, func(_ int64, w http.ResponseWriter) bool {
				ticks := time.NewTicker(5 * time.Millisecond)
				defer ticks.Stop()
				for {
					select {
					case <-ticks.C:
					case <-left:
						return true
					}
					if _, err := io.WriteString(w, " "); err != nil {
						return true
					}
					w.(http.Flusher).Flush() // of the server
				}
			})
			// The stream lasts until the call has ended.
			_, err := guard(t, service, provider.Config{Timeout: 100 * time.Millisecond}).Ask(t.Context(), query)
			close(left)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
}

// timed records the duration of each call.
type timed struct {
	websearch.Service
	mu   sync.Mutex
	took []time.Duration
}

func (s *timed) Ask(ctx context.Context, q websearch.Query) ([]websearch.Result, error) {
	began := time.Now()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.took = append(s.took, time.Since(began))
	}()
	return s.Service.Ask(ctx, q)
}

// A dead service, which fails or hangs, costs neither the results nor the time of others. Runs with
// and without it alternate and have the same medians. At most 5% of the runs, the margin for a busy
// machine, come near its timeout.
func TestSearcher_DeadServiceDelaysNoOther(t *testing.T) {
	const rounds, searches, timeout = 7, 40, 3 * time.Second
	for name, dead := range map[string]func(http.ResponseWriter, *http.Request){
		"fails":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"silent": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				dead(w, r)
			}))
			t.Cleanup(server.Close)
			broken, err := websearch.NewService(websearch.SearXNG, websearch.Endpoint{URL: server.URL},
				provider.NewClient())
			require.NoError(t, err)
			var alive []websearch.Service
			var clocks []*timed
			for _, s := range speakers()[1:] {
				service, _ := serve(t, s, nil)
				clock := &timed{Service: guard(t, service, provider.Config{})}
				alive, clocks = append(alive, clock), append(clocks, clock)
			}
			withBroken := append([]websearch.Service{guard(t, broken,
				provider.Config{Timeout: timeout, Failures: 1, OpenFor: time.Hour})}, alive...)
			n := 0
			run := func(services []websearch.Service, failing bool) (calls, totals []time.Duration) {
				for _, c := range clocks {
					c.took = nil
				}
				for range searches {
					p := juno()
					p.Names = p.Names[1:]
					p.Employers = []string{fmt.Sprint("Firm ", n)} // a new query, so that nothing is cached
					n++
					began := time.Now()
					pages, err := websearch.New(services, identity.Default()).Find(t.Context(), p,
						[]string{identity.Codehost})
					totals = append(totals, time.Since(began))
					require.Len(t, pages, 1)
					if failing {
						require.ErrorContains(t, err, "searxng")
					} else {
						require.NoError(t, err)
					}
				}
				for _, c := range clocks {
					calls = append(calls, c.took...)
				}
				return calls, totals
			}
			run(withBroken, true) // opens the breaker
			before := requests.Load()
			require.NotZero(t, before)
			var calls, totals [2][]time.Duration
			for range rounds {
				for i, services := range [][]websearch.Service{alive, withBroken} {
					c, w := run(services, i == 1)
					calls[i], totals[i] = append(calls[i], c...), append(totals[i], w...)
				}
			}
			require.Equal(t, before, requests.Load(), "the breaker must be open")
			for kind, m := range map[string][2][]time.Duration{"calls of the others": calls, "whole searches": totals} {
				slices.Sort(m[0])
				slices.Sort(m[1])
				healthy, degraded := m[0][len(m[0])/2], m[1][len(m[1])/2]
				high := m[1][len(m[1])*95/100]
				t.Logf("%s: median %v alone, %v with a failed provider (p95 %v, p99 %v)", kind, healthy, degraded, high,
					m[1][len(m[1])*99/100])
				require.LessOrEqual(t, degraded, max(healthy*3/2, healthy+20*time.Millisecond), kind)
				require.Less(t, high, timeout/2, kind)
			}
		})
	}
}

func TestQueries_NeedFullName(t *testing.T) {
	require.Equal(t, []websearch.Query{
		{Text: `"Juno JJ Abara" Quenlix Oslo`, Host: "h"},
		{Text: `"Juno JJ Abara" Compiler engineer poet`, Host: "h"},
	}, websearch.Queries(juno(), "h"), "search operators are removed")
	require.Empty(t, websearch.Queries(&people.Profile{Names: []string{"Juno"}}, "h"))
	require.NotEmpty(t, websearch.Queries(&people.Profile{Names: []string{"王伟"}}, "h"))
}

func TestNewService_ValidatesEndpoint(t *testing.T) {
	for _, c := range []struct {
		name string
		at   websearch.Endpoint
		want string
	}{
		{"brave", websearch.Endpoint{}, "key"},
		{"searxng", websearch.Endpoint{}, "URL"},
		{"searxng", websearch.Endpoint{URL: "file:///x"}, "URL"},
		{"bing", websearch.Endpoint{URL: "http://x.example", Key: "k"}, "unknown web search"},
	} {
		_, err := websearch.NewService(c.name, c.at, http.DefaultClient)
		require.ErrorContains(t, err, c.want)
	}
	_, err := websearch.NewService("exa", websearch.Endpoint{Key: "k"}, http.DefaultClient)
	require.NoError(t, err)
}
