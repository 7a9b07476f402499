//go:build !opensearch

package differential_test

import (
	"cmp"
	"os"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/clause"
	"muster/query-api/internal/search/evaluatortest"
	"muster/query-api/internal/search/planner"
	"muster/query-api/internal/search/searchtest"
)

// collection returns the documents for the evaluator.
func collection(t *testing.T, docs []searchtest.Document) *evaluatortest.Collection {
	t.Helper()
	raw := make([][]byte, len(docs))
	for i, d := range docs {
		raw[i] = d.JSON
	}
	c, err := evaluatortest.New(raw)
	require.NoError(t, err)
	return c
}

// evaluate runs a query with the evaluator.
func evaluate(c *evaluatortest.Collection, q map[string]any, now time.Time) (searchtest.Result, error) {
	options := clause.Options{Now: now}
	query, err := json.Marshal(q["query"], json.Deterministic(true))
	if err != nil {
		return searchtest.Result{}, err
	}
	var sort []byte
	if q["sort"] != nil {
		if sort, err = json.Marshal(q["sort"], json.Deterministic(true)); err != nil {
			return searchtest.Result{}, err
		}
	}
	sorts, err := clause.Sorts(sort, "sort", options)
	if err != nil {
		return searchtest.Result{}, err
	}
	options.Unscored = !planner.Scored(sorts)
	node, err := clause.Lower(query, "query", options)
	if err != nil {
		return searchtest.Result{}, err
	}
	return c.Search(node, sorts)
}

func TestSearch_EqualsEvaluator(t *testing.T) {
	people, queries := 1500, 1500
	if testing.Short() {
		people, queries = 300, 60
	}
	conn := store(t, people)
	docs := documents(t, conn)
	reference := collection(t, docs)
	now := time.Now().UTC().Truncate(time.Millisecond)
	muster := newEngine(t, conn, func() time.Time { return now })
	g, err := searchtest.NewGenerator(docs, searchtest.Options{Seed: 11, Allowed: allowed(false)})
	require.NoError(t, err)
	coverage := searchtest.NewCoverage(len(docs), "evaluator")
	compare := func(q map[string]any, totalsOnly bool) (total int, refused, err error) {
		want, refused := evaluate(reference, q, now)
		if refused != nil {
			return 0, refused, nil
		}
		body, err := json.Marshal(q, json.Deterministic(true))
		if err != nil {
			return 0, nil, err
		}
		got, err := muster.Search(t.Context(), body)
		if err != nil {
			return 0, nil, err
		}
		return want.Total, nil, cmp.Or(searchtest.Compare(want, got, totalsOnly),
			searchtest.CompareInner(q, want, got, totalsOnly))
	}
	refusals := 0
	for i := range queries {
		if i == queries/2 { // the rest in one part
			require.NoError(t, conn.Exec(t.Context(), "OPTIMIZE TABLE search_people FINAL"))
		}
		q := g.Next()
		muster.paged = q.Number%10 == 0
		total, refused, err := compare(q.Body, q.TotalsOnly)
		if refused != nil {
			refusals++
			continue
		}
		coverage.Add(q, total)
		if 1 <= total && 2*total <= len(docs) {
			g.AddSelective(q)
		}
		if err == nil {
			continue
		}
		class := kind(err)
		small := searchtest.Shrink(q.Body, 60, func(body map[string]any) bool {
			_, refused, err := compare(body, q.TotalsOnly)
			return refused == nil && err != nil && kind(err) == class
		})
		_, _, err = compare(small, q.TotalsOnly)
		body, _ := json.Marshal(small, json.Deterministic(true))
		t.Errorf("query %d: %v\n%s", q.Number, err, body)
	}
	if !testing.Short() {
		require.NoError(t, coverage.Print(os.Stdout))
	}
	t.Logf("%d people, %d queries, %d rejected", len(docs), queries, refusals)
	require.Less(t, refusals, queries/10)
	require.GreaterOrEqual(t, coverage.Selective(), 50.0)
}
