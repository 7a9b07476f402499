package differential_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"muster/query-api/internal/search"
)

// Also, the in-memory index returns the same pages as SQL.
func TestSearch_MinimumScoreDoesNotChangePages(t *testing.T) {
	people, queries := 4000, 50
	if testing.Short() {
		people, queries = 1500, 20
	}
	conn := store(t, people)
	require.NoError(t, conn.Exec(t.Context(), "OPTIMIZE TABLE search_people FINAL"))
	spans := tracetest.NewSpanRecorder()
	cfg := search.Config{
		Timeout: waitTimeout, SeparateCountMinHits: 1, MinScoreMinHits: 1, SampleRate: 4, IndexBytes: -1,
	}
	withMinScore := newTracedEngine(t, conn, time.Now, cfg,
		sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer(""))
	cfg.MinScoreMinHits = math.MaxInt64
	withoutMinScore := newEngineWith(t, conn, time.Now, cfg)
	indexed := newEngine(t, conn, time.Now)
	var words []string
	require.NoError(t,
		conn.QueryRow(t.Context(), "SELECT groupUniqArray(400)(arrayJoin(arrayConcat(profile_headline_tokens, "+
			"arrayFlatten(experience_title_tokens), "+
			"arrayFlatten(experience_location_tokens), arrayFlatten(education_school_name_tokens), "+
			"profile_full_name_tokens))) FROM search_people").Scan(&words))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range queries {
		query := wide(r, words, 1)
		size := 1 + r.IntN(9)
		body, err := json.Marshal(map[string]any{"query": query}, json.Deterministic(true))
		require.NoError(t, err)
		want, err := withoutMinScore.walk(t.Context(), body, size, 3)
		require.NoError(t, err, "%s", body)
		got, err := withMinScore.walk(t.Context(), body, size, 3)
		require.NoError(t, err, "%s", body)
		require.Equal(t, want, got, "query %d, pages of %d: %s", i, size, body)
		got, err = indexed.walk(t.Context(), body, size, 3)
		require.NoError(t, err, "%s", body)
		require.Equal(t, want, got, "by the index: query %d, pages of %d: %s", i, size, body)
	}
	steps := map[string]int{}
	for _, s := range spans.Ended() {
		steps[s.Name()]++
	}
	t.Log(steps)
	require.GreaterOrEqual(t, steps["search sample"], queries/4)
	require.Less(t, steps["search rank"], steps["search"]+steps["search sample"]/10, "few queries were ranked again")
}

// wide returns a random query over many fields.
func wide(r *rand.Rand, words []string, depth int) map[string]any {
	text := func() string {
		list := make([]string, 1+r.IntN(5))
		for i := range list {
			list[i] = words[r.IntN(len(words))]
		}
		return strings.Join(list, " ")
	}
	fields := []string{"*", "profile.*^2", "experience.*", "profile.headline^3", "experience.title^0.5", "education.*",
		"experience.company_name^1e6"}
	r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	switch n := r.IntN(10); {
	case n < 4 || depth == 0:
		m := map[string]any{"query": text(), "type": []string{"best_fields", "cross_fields", "most_fields"}[r.IntN(3)]}
		if r.IntN(2) == 0 {
			m["fields"], m["lenient"] = fields[:1+r.IntN(3)], true
		}
		if r.IntN(4) == 0 {
			m["tie_breaker"] = 0.3
		}
		if r.IntN(4) == 0 {
			m["operator"] = "and"
		}
		if r.IntN(4) == 0 {
			m["minimum_should_match"] = "60%"
		}
		return map[string]any{"multi_match": m}
	case n < 6:
		return map[string]any{"query_string": map[string]any{"query": strings.ReplaceAll(text(), " ",
			[]string{" ", " OR ", " AND "}[r.IntN(3)])}}
	case n < 7:
		return map[string]any{"simple_query_string": map[string]any{"query": text()}}
	case n < 8:
		return map[string]any{"dis_max": map[string]any{"queries": []any{wide(r, words, depth-1),
			wide(r, words, depth-1)}, "boost": []float64{1.5, 1e-44, 1e30}[r.IntN(3)]}}
	default:
		b := map[string]any{"should": []any{wide(r, words, depth-1), wide(r, words, depth-1)},
			"minimum_should_match": r.IntN(3)}
		if r.IntN(2) == 0 {
			b["must"] = wide(r, words, depth-1)
		}
		if r.IntN(4) == 0 {
			b["must_not"] = map[string]any{"match": map[string]any{"profile.headline": text()}}
		}
		if r.IntN(4) == 0 {
			b["should"] = append(b["should"].([]any),
				map[string]any{"exists": map[string]any{"field": "education.degree"}},
				map[string]any{"constant_score": map[string]any{"boost": 4,
					"filter": map[string]any{"match": map[string]any{"profile.summary": text()}}}})
		}
		return map[string]any{"bool": b}
	}
}
