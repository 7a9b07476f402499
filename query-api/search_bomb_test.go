package queryapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/query-api/adversarialtest"
	"muster/schemas/record"
)

// Durations depend on the machine and are only printed.
func TestSearch_ExpensiveQueriesAreBounded(t *testing.T) {
	// Under the race detector requests may exceed their timeout: the test checks the limits of the query.
	f := start(t, func(c *queryapi.Config, _ *queryapi.Deps) { c.RequestTimeout, c.SearchTimeout = time.Minute, 0 })
	f.insert(record.KindNetworkPerson, searchPeople()...)
	var people []string
	for i := range 200 {
		people = append(people,
			fmt.Sprintf(
				`{"profile_id":"b%d","last_updated":"2026-01-01","username":"b%d","headline":"w%d data word",`+
					`"summary":%q,"experience":[{"title":"data engineer %d","description":%q}]}`,
				i, i, i, strings.Repeat("aaaa bbb the of ", 50), i, strings.Repeat("the a of to and in ", 100)))
	}
	f.insert(record.KindNetworkPerson, people...)
	require.GreaterOrEqual(t, len(adversarialtest.Queries()), 100)
	var slowest time.Duration
	asked := 0
	for i, query := range adversarialtest.Queries() {
		if testing.Short() && i%3 != 0 {
			continue
		}
		asked++
		begin := time.Now()
		r := f.post("/v1/person/search", `{"query":`+query+`}`)
		took := time.Since(begin)
		require.Contains(t, []int{
			http.StatusOK, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusServiceUnavailable,
		}, r.status, "%.200s: %.500s", query, r.body)
		if r.status == http.StatusServiceUnavailable { // its terms were not loaded before the deadline
			require.NotEmpty(t, r.header.Get("Retry-After"))
		}
		slowest = max(slowest, took)
	}
	t.Logf("%d queries, the slowest took %v", asked, slowest)
	require.Len(t, ids(f.search(`{"query":{"match":{"profile.headline":"lover"}}}`)), 1, "still there")
}

// The duration of an expensive query on a small table is that of its statements.
func TestSearch_WordsAndPatternsExpandInFewStatements(t *testing.T) {
	conn := &countingStore{}
	f := start(t, func(c *queryapi.Config, d *queryapi.Deps) {
		c.RequestTimeout = time.Minute
		conn.Conn = d.ClickHouse
		d.ClickHouse = conn
	})
	f.insert(record.KindNetworkPerson, searchPeople()...)
	require.Len(t, ids(f.search(`{"query":{"match":{"profile.headline":"lover"}}}`)), 1)
	clauses := func(format string) string {
		list := make([]string, 900)
		for i := range list {
			list[i] = fmt.Sprintf(format, i)
		}
		return `{"query":{"bool":{"should":[` + strings.Join(list, ",") + `]}}}`
	}
	for _, query := range []struct {
		body string
		most int64
	}{
		{clauses(`{"fuzzy":{"profile.headline":"word%d"}}`), 8},
		{clauses(`{"prefix":{"profile.headline":{"value":"w%d","rewrite":"top_terms_blended_freqs_1024"}}}`), 8},
		{clauses(`{"match_phrase_prefix":{"profile.headline":"w%d"}}`), 8},
		{`{"query":{"query_string":{"query":"*a* OR *b* OR *c* OR /.*d.*/ OR e~2"}}}`, 40},
	} {
		before := conn.statements.Load()
		require.Equal(t, http.StatusOK, f.post("/v1/person/search", query.body).status)
		statements := conn.statements.Load() - before
		require.LessOrEqual(t, statements, query.most, "%.100s", query.body)
		t.Logf("%d statements: %.100s", statements, query.body)
	}
}
