//go:build opensearch

package differential_test

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"

	"muster/platform/opensearch"
	"muster/query-api/internal/search"
	"muster/query-api/internal/search/clause"
	"muster/query-api/internal/search/searchtest"
	"muster/query-api/opensearchtest"
	"muster/schemas/readmodel"
	"muster/schemas/searchindex"
)

// regressions are queries with wrong results in the past, one a line.
//
//go:embed questions.jsonl
var regressions string

// The queries are past regressions, then random ones.
func TestSearch_EqualsOpenSearch(t *testing.T) {
	conn := open(t, fillBoth(t))
	equalsOpenSearch(t, newEngine(t, conn, time.Now), conn, peopleWorld(t, conn))
}

func TestSearch_OfCompaniesEqualsOpenSearch(t *testing.T) {
	conn := open(t, fillBoth(t))
	muster := newEngineOf(t, search.Config{Timeout: waitTimeout}, search.Deps{
		Collection: readmodel.CompaniesCollection(), Conn: conn, Tracer: noop.NewTracerProvider().Tracer(""), Now: time.Now,
	})
	equalsOpenSearch(t, muster, conn, companiesWorld(t, conn))
}

func TestSearch_OpenSearchExecutorOfCompaniesEqualsOpenSearch(t *testing.T) {
	conn := open(t, fillBoth(t))
	index, err := opensearchtest.OpenCollection(t.Context(), readmodel.CompaniesCollection(), node.URL(),
		"differential-",
		make([]byte, searchindex.KeySize), conn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, index.Close(context.WithoutCancel(t.Context()))) })
	require.NoError(t, index.Sync(t.Context()))
	equalsOpenSearch(t, newRemoteEngine(t, conn, index.Client(), readmodel.CompaniesCollection()), conn,
		companiesWorld(t, conn))
}

// world is what is searched, in the read models and in an index of OpenSearch.
type world struct {
	index, table string
	docs         []searchtest.Document
	schema       searchtest.Schema
	regressions  string
	selective    float64 // least share of selective queries, in percent; companies have fewer texts
}

func peopleWorld(t *testing.T, conn driver.Conn) world {
	t.Helper()
	return world{"people", "search_people", documents(t, conn), searchtest.People(), regressions, 60}
}

func companiesWorld(t *testing.T, conn driver.Conn) world {
	t.Helper()
	return world{"companies", "search_companies", companyDocuments(t, conn), searchtest.Companies(), companyRegressions,
		50}
}

// companyRegressions are queries about lists of values and other shapes that people lack.
const companyRegressions = `{"query":{"match_phrase":{"profile.specialties":"data data"}}}
{"query":{"match_phrase":{"profile.specialties":"two three"}}}
{"query":{"match_phrase":{"profile.specialties":{"query":"one one","slop":200}}}}
{"query":{"match":{"profile.specialties":"same"}}}
{"query":{"term":{"profile.specialties.keyword":"same"}}}
{"query":{"exists":{"field":"profile.specialties.keyword"}}}
{"query":{"match_all":{}},"sort":[{"profile.specialties.keyword":{"order":"desc","mode":"max"}}]}
{"query":{"match_all":{}},"sort":[{"profile.specialties.keyword":{"order":"asc","missing":"_first"}},{"profile.name.keyword":"asc"}]}
{"query":{"match_all":{}},"sort":[{"profile.employees":{"order":"desc","missing":7}}]}
{"query":{"function_score":{"query":{"match":{"profile.specialties":"data"}},"field_value_factor":{"field":"profile.employees","missing":1,"modifier":"log1p"}}}}
{"query":{"range":{"profile.founded":{"lt":0}}}}
{"query":{"multi_match":{"query":"data","type":"cross_fields","fields":["profile.name","profile.specialties"]}}}
{"query":{"combined_fields":{"query":"matrixsphere-now","fields":["network_slug^1.5"]}}}
{"query":{"query_string":{"query":"profile.specialtie\\*:\"データ\"","quote_field_suffix":".keyword","tie_breaker":1}}}
{"query":{"simple_query_string":{"query":"\"データ\"","fields":["profile.specialtie*^2"],"quote_field_suffix":".keyword"}}}
{"query":{"function_score":{"functions":[{"filter":{"match_all":{"_name":"two"}},"weight":2},{"filter":{"bool":{"_name":"one"}},"weight":3}]}}}
{"query":{"bool":{"must":[{"prefix":{"company_id":{"_name":"two","value":"co_"}}}],"should":[{"bool":{"_name":"two","filter":[{"match_none":{}}]}}]}}}
{"query":{"query_string":{"query":"profile.specialties:(data AND engineering) OR headquarters.country:日本"}}}`

// The executor in OpenSearch searches an index of its own, filled from the read models.
func TestSearch_OpenSearchExecutorEqualsOpenSearch(t *testing.T) {
	conn := open(t, fillBoth(t))
	people, err := opensearchtest.OpenCollection(t.Context(), readmodel.PeopleCollection(), node.URL(), "differential-",
		make([]byte, searchindex.KeySize), conn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, people.Close(context.WithoutCancel(t.Context()))) })
	require.NoError(t, people.Sync(t.Context()))
	equalsOpenSearch(t, newRemoteEngine(t, conn, people.Client(), readmodel.PeopleCollection()), conn,
		peopleWorld(t, conn))
}

// isUnsupported reports whether a query is rejected because OpenSearch 2 cannot execute it (rulings.md, Search).
func isUnsupported(err error) bool {
	var e *search.TooExpensiveError
	return errors.As(err, &e) && strings.Contains(e.Reason, "not supported")
}

// hasSameScores reports whether scores themselves are compared, not only the order: not those of ranges of booleans and
// of fuzzy words, whose differences are known (benchmarks.md, Search correctness). A ~ after a quotation mark is a
// slop.
func hasSameScores(body string) bool {
	for _, part := range []string{"is_current", "fuzz", "~"} {
		if strings.Contains(strings.ReplaceAll(body, `"~`, ""), part) {
			return false
		}
	}
	return true
}

// equalsOpenSearch compares an engine over the documents of fillBoth with OpenSearch.
func equalsOpenSearch(t *testing.T, muster *engine, conn driver.Conn, w world) {
	t.Helper()
	docs := w.docs
	g, err := searchtest.NewGenerator(docs, searchtest.Options{Seed: seed, Allowed: allowed(true), Schema: w.schema})
	require.NoError(t, err)
	coverage := searchtest.NewCoverage(len(docs), "OpenSearch 2.19.1")
	once := os.Getenv(failuresEnv) == "1" // of a deliberate fault
	compare := func(q map[string]any, totalsOnly bool) (total int, refused, err error) {
		body, err := json.Marshal(q, json.Deterministic(true))
		if err != nil {
			return 0, nil, err
		}
		want, refused := ask(t.Context(), w.index, searchtest.WholeInner(q), len(docs))
		if refused != nil {
			return 0, refused, nil
		}
		got, err := muster.Search(t.Context(), body)
		if err != nil {
			var e *clause.Error
			// OpenSearch skips clauses that cannot matter, counts a phrase with slop as one clause, muster its words,
			// and nests aggregations deeper.
			if errors.As(err, &e) && (want.Total == 0 || rejectedByScore(t.Context(), w.index, q) ||
				strings.Contains(e.Reason, "more than 1024 clauses") ||
				strings.Contains(e.Reason, "aggregations are nested deeper than 20 levels") ||
				strings.Contains(e.Reason, "filter of an aggregation")) {
				return 0, err, nil
			}
			var tooExpensive *search.TooExpensiveError // OpenSearch allows more clauses than Elasticsearch.
			if errors.As(err, &tooExpensive) && (strings.Contains(tooExpensive.Reason, "more than 1024 terms") ||
				strings.Contains(tooExpensive.Reason, "have the key")) ||
				isUnsupported(err) {
				return 0, err, nil
			}
			if once && !errors.As(err, &e) { // A fault must show in a result, not in its cost.
				return 0, err, nil
			}
			return 0, nil, err
		}
		if !hasSameScores(string(body)) {
			for i := range got.Hits {
				got.Hits[i].Score = nil
			}
		}
		return want.Total, nil, cmp.Or(searchtest.Compare(want, got, totalsOnly),
			searchtest.CompareInner(q, want, got, totalsOnly), searchtest.CompareAggregations(want, got))
	}
	limit, tries := 25, 150
	if once {
		limit, tries = 1, 0
	}
	for i, line := range strings.Split(strings.TrimSpace(w.regressions), "\n") {
		var body map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &body), "question %d", i)
		_, refused, err := compare(body, false)
		if !once && !isUnsupported(refused) {
			require.NoError(t, refused, line)
		}
		if err != nil {
			t.Errorf("question %d: %v\n%s", i, err, line)
			if once {
				return
			}
		}
	}
	refusals, failures := map[string]int{}, 0
	for i := range queries {
		if i == queries/2 {
			require.NoError(t, conn.Exec(t.Context(), "OPTIMIZE TABLE "+w.table+" FINAL"))
		}
		q := g.Next()
		muster.paged = q.Number%10 == 0
		total, refused, err := compare(q.Body, q.TotalsOnly)
		if refused != nil {
			refusals[cause(refused)]++
			continue
		}
		coverage.Add(q, total)
		if 1 <= total && 2*total <= len(docs) {
			g.AddSelective(q)
		}
		if err == nil {
			continue
		}
		failures++
		class := kind(err)
		small := searchtest.Shrink(q.Body, tries, func(body map[string]any) bool {
			_, refused, err := compare(body, q.TotalsOnly)
			return refused == nil && err != nil && kind(err) == class
		})
		_, _, err = compare(small, q.TotalsOnly)
		body, _ := json.Marshal(small, json.Deterministic(true))
		t.Errorf("query %d: %v\n%s", q.Number, err, body)
		if failures >= limit {
			break
		}
	}
	require.NoError(t, coverage.Print(os.Stdout))
	t.Logf("%d documents; rejected: %v", len(docs), refusals)
	if !t.Failed() && !once && queries >= 100 {
		require.GreaterOrEqual(t, coverage.Selective(), w.selective)
		if queries >= 5000 && w.index == "people" { // Companies have no nested arrays, dates and booleans.
			require.Empty(t, coverage.Rare(20))
			require.Empty(t, coverage.Missing(supported()))
		}
	}
}

// newRemoteEngine returns an engine that searches in OpenSearch.
func newRemoteEngine(
	t *testing.T, conn driver.Conn, client *opensearch.Client, of readmodel.SearchCollection,
) *engine {
	t.Helper()
	return newEngineOf(t, search.Config{Timeout: waitTimeout}, search.Deps{
		Collection: of, Conn: conn, Tracer: noop.NewTracerProvider().Tracer(""), Now: time.Now, OpenSearch: client,
		DocumentKey: make([]byte, searchindex.KeySize),
	})
}
