//go:build opensearch

package queryapi_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"muster/platform/opensearch"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// observed is a proxy of OpenSearch that records the bodies of searches.
type observed struct {
	mu       sync.Mutex
	searches []string
	before   func(search string) // is called before a search is forwarded, unless nil
}

// take returns the searches since the last call.
func (o *observed) take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.searches
	o.searches = nil
	return out
}

// isTies reports whether a search looks for people with the score of the last hit of a page.
func isTies(search string) bool { return strings.Contains(search, `"sort":[{"row.hash"`) }

// observe lets a service search through a proxy.
func observe(t *testing.T, deps *queryapi.Deps) *observed {
	t.Helper()
	o := &observed{}
	cfg := deps.OpenSearch.Config()
	to, err := url.Parse(cfg.Nodes[0])
	require.NoError(t, err)
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/_search") {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			o.mu.Lock()
			o.searches = append(o.searches, string(body))
			o.mu.Unlock()
			if o.before != nil {
				o.before(string(body))
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	client, err := opensearch.Open(opensearch.Config{Nodes: []string{proxy.URL}, Prefix: cfg.Prefix})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	deps.OpenSearch = client
	return o
}

// walkScores returns the IDs and the scores of all results, page by page.
func (f *fixture) walkScores(query string, size int) (ids []string, scores []float64) {
	f.t.Helper()
	cursor := ""
	for {
		page := f.search(fmt.Sprintf(`{"query":%s,"size":%d,"track_scores":true%s}`, query, size, cursor))
		for _, r := range page["results"].([]any) {
			ids = append(ids, r.(map[string]any)["profile_id"].(string))
			scores = append(scores, r.(map[string]any)["_score"].(float64))
		}
		if page["next_cursor"] == nil {
			return ids, scores
		}
		cursor = fmt.Sprintf(`,"cursor":%q`, page["next_cursor"])
	}
}

func TestSearch_OpenSearchOrdersEqualScoresByHash(t *testing.T) {
	var node *observed
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) { node = observe(t, d) })
	f.withLimits(func(l *event.Limits) { l.RequestsPerMinute = 10_000 })
	var people []string
	for i := range 1000 {
		headline := "engineer"
		switch {
		case i%251 == 0: // 4 of the greatest score
			headline = "engineer engineer"
		case i%125 == 0: // 7 of the second one
			headline = "engineer engineer data"
		case i%2 == 0:
			headline = "engineer of data"
		}
		people = append(people, fmt.Sprintf(
			`{"profile_id":"p%03d","last_updated":"2026","username":"p%03d","headline":%q}`, i, i, headline))
	}
	f.insert(record.KindNetworkPerson, people...)
	for _, query := range []string{
		`{"match_all":{}}`, `{"bool":{"filter":{"match":{"profile.headline":"data"}}}}`,
		`{"match":{"profile.headline":"engineer"}}`, `{"match":{"profile.headline":"data engineer"}}`,
		`{"match_phrase":{"profile.headline":"engineer engineer"}}`,
		`{"function_score":{"query":{"match":{"profile.headline":"engineer"}},"min_score":0.0001}}`,
	} {
		all, scores := f.walkScores(query, 100)
		require.EqualValues(t, len(all), f.search(`{"size":0,"query":` + query + `}`)["total"], query)
		order := make([]int, len(all))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int {
			return cmp.Or(cmp.Compare(scores[b], scores[a]),
				cmp.Compare(readmodel.ProfileHash(all[a]), readmodel.ProfileHash(all[b])))
		})
		require.True(t, slices.IsSorted(order), query)
		require.Len(t, all, len(slices.Compact(slices.Sorted(slices.Values(all)))), query)
		for _, size := range []int{1, 4, 11, 50} {
			node.take()
			body := fmt.Sprintf(`{"query":%s,"size":%d}`, query, size)
			page := f.search(body)
			require.Equal(t, all[:min(size, len(all))], ids(page), body)
			require.EqualValues(t, len(all), page["total"], body)
			searches := node.take()
			if len(all) > size+40 && scores[size-1] == scores[size+40] {
				require.Greater(t, len(searches), 2, body)
				require.True(t, isTies(searches[len(searches)-1]), body)
			} else {
				require.Len(t, searches, 2, "the hits after the page tell its order: %s", body)
			}
			if page["next_cursor"] != nil {
				next := f.search(fmt.Sprintf(`{"query":%s,"size":%d,"cursor":%q}`, query, size, page["next_cursor"]))
				require.Equal(t, all[size:min(2*size, len(all))], ids(next), body)
			}
		}
	}
	// A score that few have is looked for in more hashes. Pages with names of clauses have no hits to spare.
	node.take()
	page := f.search(`{"query":{"match":{"profile.headline":{"query":"engineer","_name":"a"}}},"size":2}`)
	require.Equal(t, ids(f.search(`{"query":{"match":{"profile.headline":"engineer"}},"size":2}`)), ids(page))
	require.Equal(t, 2, strings.Count(fmt.Sprint(page["results"]), "matched_queries:[a]"))
	ties := slices.DeleteFunc(node.take(), func(search string) bool { return !isTies(search) })
	require.Len(t, ties, 2)
	require.Contains(t, ties[0], `"range":{"row.hash"`)
	require.NotContains(t, ties[1], `"range":{"row.hash"`)
}

func TestSearch_OpenSearchIndexMayChangeWhileAPageIsRanked(t *testing.T) {
	person := func(id, headline string, year int) string {
		return fmt.Sprintf(`{"profile_id":%q,"last_updated":"%d","username":%q,"headline":%q}`, id, year, id, headline)
	}
	people := []string{person("best", "data data data", 2026)}
	var leaving []string
	for i := range 60 {
		id := fmt.Sprintf("p%02d", i)
		people = append(people, person(id, "data", 2026))
		if i < 58 {
			leaving = append(leaving, person(id, "nothing", 2027))
		}
	}
	for name, change := range map[string][]string{
		"a person gets a greater score": {person("p07", "data data", 2027)},
		"all scores become lower":       {person("x", "data and many more words than the others", 2027)},
		"most people leave":             leaving,
	} {
		t.Run(name, func(t *testing.T) {
			var node *observed
			f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) { node = observe(t, d) })
			f.insert(record.KindNetworkPerson, people...)
			var changed bool
			node.before = func(search string) {
				if isTies(search) && !changed {
					changed = true
					f.insert(record.KindNetworkPerson, change...)
				}
			}
			const query = `{"query":{"match":{"profile.headline":"data"}},"size":3}`
			got := f.search(query)
			require.True(t, changed)
			searches := node.take()
			require.False(t, isTies(searches[len(searches)-1]), "all matches are sorted")
			require.Equal(t, ids(f.search(query)), ids(got))
		})
	}
}

// documentReads counts the statements that read documents.
type documentReads struct {
	driver.Conn
	n      atomic.Int64
	denied atomic.Bool // the user may not read system.parts
}

func (d *documentReads) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	switch {
	case strings.Contains(query, "system.parts"):
		if d.denied.Load() {
			return nil, &ch.Exception{Code: 497, Message: "muster: Not enough privileges"}
		}
	case strings.Contains(query, "network_people"), strings.Contains(query, "seen_versions"):
		d.n.Add(1)
	}
	return d.Conn.Query(ctx, query, args...)
}

func TestSearch_OpenSearchHitsHaveDocumentsOfTheCallsTables(t *testing.T) {
	conn := &documentReads{}
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) {
		conn.Conn = d.ClickHouse
		d.ClickHouse = conn
	})
	f.insert(record.KindNetworkPerson, searchPeople()...)
	const query = `{"query":{"match_all":{}}}`
	first := f.search(query)
	require.Positive(t, conn.n.Load())
	conn.n.Store(0)
	require.Equal(t, first["results"], f.search(query)["results"])
	require.Zero(t, conn.n.Load(), "documents come from memory while the tables do not change")

	f.syncSearch = func(record.Kind) {} // the index is late
	f.insert(record.KindNetworkPerson,
		`{"profile_id":"p1","last_updated":"2030","username":"ada","headline":"new"}`,
		`{"profile_id":"p2","last_updated":"2030","username":"bob","deleted":true}`)
	got := f.search(query)
	require.NotContains(t, ids(got), "p2", "withdrawn")
	require.Contains(t, fmt.Sprint(got["results"]), "headline:new")
	require.Positive(t, conn.n.Load())

	conn.denied.Store(true)
	for range 3 {
		conn.n.Store(0)
		require.Equal(t, ids(got), ids(f.search(query)))
		require.Positive(t, conn.n.Load(), "the state of the tables is unknown")
	}
	require.Equal(t, 1, strings.Count(f.log.String(), "search: documents are not cached"))
	require.NotContains(t, f.log.String(), "search: statement failed")
}
