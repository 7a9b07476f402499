package differential_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"muster/query-api/internal/search"
	"muster/query-api/internal/search/searchtest"
)

// The parts change by newer versions, with the content of others or deleted, by older ones that arrive late, by merges,
// deleted rows, version bumps and exchanged tables. Pages equal those of an index that has read nothing before.
func TestSearch_IndexFollowsPartsAsTheyChange(t *testing.T) {
	people, rounds, queries := 1200, 30, 12
	if testing.Short() {
		people, rounds, queries = 300, 18, 3
	}
	conn := store(t, people)
	docs := documents(t, conn)
	spans := tracetest.NewSpanRecorder()
	now := time.Now().UTC().Truncate(time.Millisecond)
	clock := func() time.Time { return now }
	indexed := newTracedEngine(
		t,
		conn,
		clock,
		search.Config{Timeout: waitTimeout, StatsAge: -1},
		sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer(""),
	)
	g, err := searchtest.NewGenerator(docs, searchtest.Options{Seed: 5, Allowed: allowed(false)})
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(3, 4))
	do := func(sql string) {
		t.Helper()
		require.NoError(t, conn.Exec(t.Context(), sql), "%s", sql)
	}
	// Some people get the content of others in a newer version.
	changed := func(version string) string {
		return fmt.Sprintf(
			"INSERT INTO search_people SELECT * EXCEPT (h, i, v) REPLACE (h AS profile_hash, i AS profile_id, %s AS version) FROM "+
				"(SELECT *, rowNumberInAllBlocks() AS n FROM search_people WHERE profile_hash %% 7 = %d) AS b INNER JOIN "+
				"(SELECT profile_hash AS h, profile_id AS i, max(version) AS v, rowNumberInAllBlocks() AS n FROM search_people WHERE profile_hash %% 11 = %d GROUP BY h, i) AS a USING n",
			version,
			r.IntN(7),
			r.IntN(11),
		)
	}
	seen := "INSERT INTO seen_versions (kind, key_hash, key, version, content_hash, deleted, last_updated, topic, partition, offset) " +
		"SELECT 'network-person', profile_hash, profile_id, version + %d, content_hash, false, '', '', 0, 0 FROM search_people WHERE profile_hash %% 13 = %d"
	events := []func(){
		func() { do(strings.ReplaceAll(changed("v + 1000000"), "* EXCEPT (h, i, v)", "* EXCEPT (h, i, v, n)")) },
		func() { do(strings.ReplaceAll(changed("v - 1000000"), "* EXCEPT (h, i, v)", "* EXCEPT (h, i, v, n)")) },
		func() {
			do(
				fmt.Sprintf(
					"INSERT INTO search_people SELECT * REPLACE (version + 500000 AS version, true AS deleted) FROM search_people WHERE profile_hash %% 17 = %d",
					r.IntN(17),
				),
			)
		},
		func() {
			do("SYSTEM START MERGES search_people") // deletions wait for them
			do(fmt.Sprintf("DELETE FROM search_people WHERE profile_hash %% 41 = %d", r.IntN(41)))
		},
		func() { do(fmt.Sprintf(seen, 1_000_000*(1+r.IntN(1000)), r.IntN(13))) },
		func() { do("OPTIMIZE TABLE search_people FINAL") },
		func() { do("SYSTEM STOP MERGES search_people") },
		func() { do("SYSTEM START MERGES search_people") },
		func() {
			do("SYSTEM START MERGES search_people")
			do("CREATE OR REPLACE TABLE other AS search_people")
			do("INSERT INTO other SELECT * FROM search_people")
			do("EXCHANGE TABLES search_people AND other")
			do("DROP TABLE other")
		},
	}
	compared := 0
	for round := range rounds {
		if round%len(events) == 0 {
			r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		}
		events[round%len(events)]()
		now = now.Add(time.Minute)
		asked := newEngine(t, conn, clock)
		var people []string
		require.NoError(
			t,
			conn.QueryRow(t.Context(), `SELECT groupArray(profile_id) FROM (SELECT profile_id, if(seen_version > version, intDiv(seen_version, 1000) - 62135596800000, updated_at) AS updated
			FROM search_people FINAL LEFT ANY JOIN (SELECT key_hash, content_hash AS content, max(version) AS seen_version FROM seen_versions WHERE kind = 'network-person' GROUP BY ALL) AS s
			ON profile_hash = key_hash AND content_hash = content WHERE NOT deleted ORDER BY updated DESC, profile_hash LIMIT 50)`).
				Scan(&people),
		)
		found, err := indexed.walk(
			t.Context(), []byte(`{"query":{"match_all":{}},"sort":[{"updated_at":"desc"}]}`), 50, 1,
		)
		require.NoError(t, err)
		require.Equal(t, people, found[1:], "round %d", round)
		// Facets of everyone are counted in another way than those of a query that happens to match everyone.
		counted := func(query string) string {
			p, err := indexed.Search(t.Context(), []byte(`{"query":`+query+`,"aggs":{
				"country":{"terms":{"field":"profile.location.country.keyword","size":100}},
				"title":{"terms":{"field":"experience.title.keyword","size":100}},
				"language":{"terms":{"field":"languages.language.keyword","size":100}}}}`))
			require.NoError(t, err)
			return string(p.Aggregations)
		}
		one := counted(`{"range":{"updated_at":{"gte":"1000-01-01"}}}`)
		require.Contains(t, one, `"doc_count":`)
		require.JSONEq(t, one, counted(`{"match_all":{}}`), "round %d", round)
		bodies := []string{
			`{"query":{"match_all":{}},"sort":[{"updated_at":"desc"}]}`,
			`{"query":{"bool":{"must":{"match":{"experience.title":"engineer manager"}},"must_not":{"range":{"updated_at":{"gte":"2026-01-01"}}}}}}`,
		}
		for range queries {
			body, err := json.Marshal(g.Next().Body, json.Deterministic(true))
			require.NoError(t, err)
			bodies = append(bodies, string(body))
		}
		for _, body := range bodies {
			size := 1 + r.IntN(20)
			want, refused := asked.walk(t.Context(), []byte(body), size, 3)
			got, err := indexed.walk(t.Context(), []byte(body), size, 3)
			if refused != nil {
				continue
			}
			require.NoError(t, err, "%s", body)
			require.Equal(t, want, got, "round %d, pages of %d: %s", round, size, body)
			compared++
		}
	}
	steps := map[string]int{}
	for _, s := range spans.Ended() {
		steps[s.Name()]++
	}
	t.Log(compared, steps)
	require.Greater(t, compared, rounds*queries*3/4)
	require.Positive(t, steps["search versions"], "mutations are distinguished")
	require.Positive(t, steps["search freshened"], "newer versions were read")
}
