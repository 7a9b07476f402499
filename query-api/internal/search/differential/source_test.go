//go:build opensearch

package differential_test

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/platform/engine/enginetest"
	"muster/query-api/internal/search"
)

// Names of fields and patterns are drawn from the documents. The profile ID is always returned (rulings.md, Search).
func TestSourceFilter_EqualsOpenSearch(t *testing.T) {
	conn := open(t, enginetest.DSN(t))
	fill(t, conn, 60)
	docs := documents(t, conn)
	index(t, "sources", docs)
	muster := newEngine(t, conn, time.Now)
	r := rand.New(rand.NewPCG(seed, 3))
	names := make(map[string]bool)
	for _, d := range docs {
		var v any
		require.NoError(t, json.Unmarshal(d.JSON, &v))
		fieldPaths(v, "", names)
	}
	all := make([]string, 0, len(names))
	for n := range names {
		all = append(all, n)
	}
	slices.Sort(all)
	filtered := 0
	for range 400 {
		source := drawSource(r, all)
		text, err := json.Marshal(source, json.Deterministic(true))
		require.NoError(t, err)
		body, err := json.Marshal(map[string]any{"query": map[string]any{"match_all": map[string]any{}},
			"size": len(docs), "_source": source}, json.Deterministic(true))
		require.NoError(t, err)
		var reference struct {
			Hits struct {
				Hits []struct {
					ID     string         `json:"_id"`
					Source map[string]any `json:"_source"`
				} `json:"hits"`
			} `json:"hits"`
		}
		require.NoError(t, node.Do(t.Context(), http.MethodPost, "/sources/_search", jsontext.Value(body), &reference),
			"%s", text)
		want := make(map[string]map[string]any)
		for _, h := range reference.Hits.Hits {
			if h.Source == nil {
				h.Source = make(map[string]any)
			}
			filtered += len(h.Source)
			h.Source["profile_id"] = h.ID
			want[h.ID] = h.Source
		}
		prepared, err := muster.searcher.Prepare(search.Request{Query: jsontext.Value(`{"match_all":{}}`), Source: text,
			Size: len(docs), Organization: "test"})
		require.NoError(t, err, "%s", text)
		page, err := prepared.Run(t.Context())
		require.NoError(t, err)
		require.Len(t, page.Results, len(docs))
		for i, result := range page.Results {
			var got map[string]any
			require.NoError(t, json.Unmarshal(result, &got))
			delete(got, "_score") // no field of the person
			require.Equal(t, want[page.IDs[i]], got, "%s", text)
		}
	}
	require.Greater(t, filtered, 10_000, "fields were compared")
}

// fieldPaths collects the paths of all fields of a value.
func fieldPaths(v any, path string, names map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			name := strings.TrimPrefix(path+"."+k, ".")
			names[name] = true
			fieldPaths(e, name, names)
		}
	case []any:
		for _, e := range v {
			fieldPaths(e, path, names)
		}
	}
}

// drawSource returns a random value of _source.
func drawSource(r *rand.Rand, names []string) any {
	pattern := func() string {
		name := names[r.IntN(len(names))]
		switch r.IntN(8) {
		case 0: // the beginning
			return name[:r.IntN(len(name))] + "*"
		case 1: // the end
			return "*" + name[r.IntN(len(name)):]
		case 2: // with a gap
			i := r.IntN(len(name))
			return name[:i] + "*" + name[i+r.IntN(len(name)-i):]
		case 3:
			outer, _, _ := strings.Cut(name, ".")
			return outer + ".*"
		case 4:
			outer, _, _ := strings.Cut(name, ".")
			return outer
		case 5:
			return name + "x"
		}
		return name
	}
	list := func() []any {
		var out []any
		for range 1 + r.IntN(3) {
			out = append(out, pattern())
		}
		return out
	}
	switch r.IntN(6) {
	case 0:
		return pattern()
	case 1:
		return list()
	case 2:
		return map[string]any{"excludes": list()}
	case 3:
		return map[string]any{"includes": pattern(), "excludes": list()}
	}
	return map[string]any{"includes": list(), "excludes": list()}
}
