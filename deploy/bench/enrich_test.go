package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/deploy/bench/postgres"
)

// enriching returns a server that answers like muster. It knows all people, except those whose names begin with "org-",
// and fails for names that begin with "broken-".
func enriching(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Codehost string `json:"codehost"`
		}
		switch err := json.UnmarshalRead(r.Body, &request); {
		case err != nil || strings.HasPrefix(request.Codehost, "broken-"):
			http.Error(w, "broken", http.StatusInternalServerError)
		case strings.HasPrefix(request.Codehost, "org-"):
			fmt.Fprint(w, `{"websets_matched":[],"person":{}}`)
		default:
			fmt.Fprintf(w, `{"person":{"codehost":{"codehost_username":%q}}}`, request.Codehost)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// newTestBench returns a bench without a platform, whose muster is a server.
func newTestBench(t *testing.T, muster *httptest.Server) *bench {
	t.Helper()
	b := &bench{data: t.TempDir()}
	b.seconds = 1
	b.in.BaseURL = muster.URL
	return b
}

func TestMeasure_CountsErrorsAndMissesApart(t *testing.T) {
	t.Parallel()
	server := enriching(t)
	b := newTestBench(t, server)
	var mu sync.Mutex
	var used usage
	s := system{name: "server", base: server.URL, used: func() (usage, error) {
		mu.Lock()
		defer mu.Unlock()
		used.engine += time.Second
		used.platform += 2 * time.Second
		return used, nil
	}}
	for name, check := range map[string]func(m measurement){
		"someone": func(m measurement) { require.NoError(t, m.unanswered()) },
		"org-a": func(m measurement) {
			require.Zero(t, m.errors)
			require.GreaterOrEqual(t, m.misses, len(m.calls))
		},
	} {
		m, err := b.measure(t.Context(), question{keys: []string{name}, request: enrichRequest}, s, 2)
		require.NoError(t, err)
		require.NotEmpty(t, m.calls)
		require.Equal(t, time.Second, m.engine)
		require.Equal(t, 3*time.Second/time.Duration(len(m.calls)), m.cpuPerCall())
		check(m)
	}
	m, err := b.measure(t.Context(), question{keys: []string{"someone", "broken-a"}, request: enrichRequest}, s, 2)
	require.NoError(t, err)
	require.Positive(t, m.errors)
	require.Zero(t, m.misses)
	require.ErrorContains(t, m.failure, "500")
}

func TestAsk_FailsOnErrorsOrIfMostAreMisses(t *testing.T) {
	t.Parallel()
	server := enriching(t)
	b := newTestBench(t, server)
	b.process = &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}
	engine := exec.CommandContext(t.Context(), "cat")
	_, err := engine.StdinPipe() // which ends with the test
	require.NoError(t, err)
	require.NoError(t, engine.Start())
	for key, want := range map[string]string{"broken-a": "calls failed, the first: status 500", "org-a": "this measures misses"} {
		_, err := b.ask(t.Context(), question{keys: []string{key}, request: accountRequest}, server.URL, 1)
		require.ErrorContains(t, err, want)
	}
	m, err := b.ask(t.Context(), question{keys: []string{"someone"}, request: accountRequest}, server.URL, 1)
	require.NoError(t, err)
	require.Equal(t, m.asked, len(m.calls))
}

func TestCompareSystems_PrintsMissedBarsAndFailsOnMisses(t *testing.T) {
	t.Parallel()
	server := enriching(t)
	b := newTestBench(t, server)
	var mu sync.Mutex
	var used usage
	spend := func() (usage, error) {
		mu.Lock()
		defer mu.Unlock()
		used.platform += time.Second
		return used, nil
	}
	systems := [2]system{
		{name: "muster", base: server.URL, used: spend, processes: [2]string{"engine", "program"}},
		{name: "PostgreSQL", base: server.URL, used: spend, processes: [2]string{"postgres", "API"}},
	}
	var out bytes.Buffer
	q := question{about: "a question", keys: []string{"someone", "org-a"}, request: enrichRequest}
	err := b.compareSystems(t.Context(), &out, q, systems, []bars{{callers: 1, rate: 1e-6, cpu: time.Nanosecond}})
	require.Contains(t, out.String(), "(bar: at least 1e-06): met")
	require.Contains(t, out.String(), "(bar: at most 1e-06 ms): missed")
	require.Equal(t, 2, strings.Count(out.String(), " 0 errors, "), out.String())
	require.NotContains(t, out.String(), " 0 misses")
	require.ErrorIs(t, err, errUnanswered)
	require.ErrorContains(t, err, "muster, callers 1")
	require.ErrorContains(t, err, "PostgreSQL, callers 1")
}

func TestBars_WithoutCallsThereIsNoRatio(t *testing.T) {
	t.Parallel()
	some := measurement{calls: []time.Duration{time.Millisecond}, elapsed: time.Second}
	require.Contains(t, bars{rate: 0.2}.judge([2]measurement{some, some}), "ratio: 1.000")
	require.Contains(t, bars{rate: 0.2}.judge([2]measurement{{elapsed: time.Second}, some}), "no ratio")
}

func TestNamesAll_RequiresEachNameInOrder(t *testing.T) {
	t.Parallel()
	list := []byte(`[{"username": "ann"}, {"username": "bob"}, {"username": "bob"}]`)
	require.True(t, namesAll(list, []string{"ann", "bob", "bob"}))
	require.False(t, namesAll(list, []string{"bob", "ann"}))
	require.False(t, namesAll(list, []string{"ann", "bo"}))
	require.False(t, namesAll([]byte(`{}`), []string{"ann"}))
}

func TestKeepAnswers_ReusesFileUntilAnswersChange(t *testing.T) {
	t.Parallel()
	server := enriching(t)
	b := newTestBench(t, server)
	names := []string{"Ann", "ann", "org-a"}
	for i := range 30 {
		names = append(names, fmt.Sprint("person-", i))
	}
	answered := func(q question) []string {
		found, err := b.keepAnswers(t.Context(), io.Discard, postgres.CodehostAnswers, q, names)
		require.NoError(t, err)
		return found
	}
	q := question{request: enrichRequest}
	first := answered(q)
	require.Len(t, first, 31, "duplicate names and organizations have no answer")
	require.Equal(t, first, answered(q))
	kept, err := filepath.Glob(filepath.Join(b.data, "*"))
	require.NoError(t, err)
	require.Equal(t, []string{b.answersPath(postgres.CodehostAnswers)}, kept)

	r, err := openAnswers(kept[0])
	require.NoError(t, err)
	name, answer, err := r.next()
	require.NoError(t, err)
	require.JSONEq(t, fmt.Sprintf(`{"person":{"codehost":{"codehost_username":%q}}}`, name), string(answer))
	require.NoError(t, r.close())

	// Another muster that does not know the first person in the file.
	q.request = func(ctx context.Context, base string, keys []string) (*http.Request, error) {
		if keys[0] == first[0] {
			keys = []string{"org-a"}
		}
		return enrichRequest(ctx, base, keys)
	}
	require.NotContains(t, answered(q), first[0])
}

func TestKeepAnswers_FailsIfMostNamesHaveNoAnswer(t *testing.T) {
	t.Parallel()
	b := newTestBench(t, enriching(t))
	_, err := b.keepAnswers(t.Context(), io.Discard, postgres.CodehostAnswers, question{request: enrichRequest}, []string{"org-a", "org-b", "ann"})
	require.ErrorContains(t, err, "too few names")
	_, err = b.keepAnswers(t.Context(), io.Discard, postgres.NetworkAnswers, question{request: enrichRequest}, []string{"ann", "broken-a"})
	require.ErrorContains(t, err, "500")
	left, err := filepath.Glob(filepath.Join(b.data, string(postgres.NetworkAnswers)+"*"))
	require.NoError(t, err)
	require.Empty(t, left, "incomplete file")
}
