package queryapi_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/record"
)

// searchCase is a line of testdata/searchcases/cases.jsonl: a reported request, of this or another product, with the
// correct result.
type searchCase struct {
	Name        string         `json:"name"`
	Group       string         `json:"group"`
	Request     jsontext.Value `json:"request"`
	Status      int            `json:"status"`
	Total       *int64         `json:"total"`
	IDs         []string       `json:"ids"`
	Ordered     bool           `json:"ordered"`
	DetailHas   []string       `json:"detail_has"`
	DetailLacks []string       `json:"detail_lacks"`
	FirstCall   bool           `json:"first_call"`
	Why         string         `json:"why"`
}

// readLines returns the lines of a file of testdata/searchcases.
func readLines(t *testing.T, name string) []string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "searchcases", name))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	var lines []string
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
	}
	require.NoError(t, scanner.Err())
	return lines
}

// countingStore counts the statements of searches.
type countingStore struct {
	driver.Conn
	statements atomic.Int64
}

func (c *countingStore) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	c.statements.Add(1)
	return c.Conn.Query(ctx, query, args...)
}

func TestSearch_ReportedCasesHaveTheRightAnswers(t *testing.T) {
	store := &countingStore{}
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) {
		store.Conn = d.ClickHouse
		d.ClickHouse = store
	})
	f.withLimits(func(l *event.Limits) { l.RequestsPerMinute = 10_000 })
	f.insert(record.KindNetworkPerson, readLines(t, "people.ndjson")...)
	var cases []searchCase
	for _, line := range readLines(t, "cases.jsonl") {
		var c searchCase
		require.NoError(t, json.Unmarshal([]byte(line), &c))
		cases = append(cases, c)
	}
	require.Greater(t, len(cases), 150)
	slices.SortStableFunc(cases, func(a, b searchCase) int { // a later case may cache what these read
		switch {
		case a.FirstCall == b.FirstCall:
			return 0
		case a.FirstCall:
			return -1
		}
		return 1
	})
	for _, c := range cases {
		t.Run(c.Group+"/"+c.Name, func(t *testing.T) {
			before := store.statements.Load()
			r := f.post("/v1/person/search", string(c.Request))
			if c.FirstCall {
				// Each took hundreds of short statements, one per word and field.
				require.Less(t, store.statements.Load()-before, int64(60), "statements of a first call")
			}
			require.Equal(t, c.Status, r.status, "%s: %s", c.Why, r.body)
			if c.Status != http.StatusOK {
				for _, want := range c.DetailHas {
					require.Contains(t, strings.ToLower(r.detail()), strings.ToLower(want))
				}
				for _, never := range c.DetailLacks {
					require.NotContains(t, strings.ToLower(r.detail()), strings.ToLower(never))
				}
				return
			}
			var page struct {
				Total   int64 `json:"total"`
				Results []struct {
					ProfileID string `json:"profile_id"`
				} `json:"results"`
			}
			require.NoError(t, json.Unmarshal([]byte(r.body), &page))
			require.NotNil(t, c.Total)
			require.Equal(t, *c.Total, page.Total, c.Why)
			if c.IDs == nil {
				return
			}
			got := make([]string, len(page.Results))
			for i, result := range page.Results {
				got[i] = result.ProfileID
			}
			if c.Ordered {
				require.Equal(t, c.IDs, got, c.Why)
			} else {
				require.ElementsMatch(t, c.IDs, got, c.Why)
			}
		})
	}
}

// All four endpoints accept each field of the description, and null where the description allows it.
func TestSearch_AcceptsEachField(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	f.insert(record.KindNetworkCompany, searchedCompanies()...)
	const nulls = `"sort":null,"_source":null,"aggs":null,"aggregations":null,"collapse":null,"cursor":null,` +
		`"dry_run":null,"explain":false,"from":0,"highlight":null,"max_credits":null,"min_score":null,` +
		`"profile":false,"seq_no_primary_term":false,"timeout":"5s","track_scores":null,"track_total_hits":true,` +
		`"version":false`
	for path, number := range map[string]string{
		"/v1/person/search": "profile.connections", "/v1/company/search": "profile.employees",
	} {
		body := func(fields string) string { return `{"query":{"match_all":{}},` + fields + `}` }
		cursor := f.post(path, body(`"size":1`)).json()["next_cursor"]
		require.IsType(t, "", cursor)
		for _, fields := range []string{
			nulls, `"_source":false`, `"sort":["_score"]`, `"aggs":{"n":{"filter":{"match_all":{}}}}`, `"dry_run":true`,
			`"aggregations":{"n":{"filter":{"match_all":{}}}}`, `"max_credits":5`, `"min_score":0`,
			`"track_scores":true`, `"highlight":{"fields":{"profile.*":{}}}`, `"collapse":{"field":"` + number + `"}`,
			fmt.Sprintf(`"size":1,"cursor":%q`, cursor),
		} {
			for _, path := range []string{path, path + "/explain"} {
				got := f.post(path, body(fields))
				require.Equal(t, http.StatusOK, got.status, "%s %s: %s", path, fields, got.body)
			}
		}
	}
}

func TestSearch_AcceptsFieldsThatChangeNothing(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	const all = `{"query":{"match_all":{}}`
	want := f.search(all + `}`)
	for _, habit := range []string{
		`"from":0`, `"from":null`, `"track_total_hits":true`, `"track_total_hits":10000`, `"track_total_hits":0`,
		`"min_score":0`,
		`"min_score":0.0`, `"version":false`, `"seq_no_primary_term":false`, `"explain":false`, `"profile":false`,
		`"track_scores":false`,
		`"timeout":"10s"`, `"timeout":"1.5m"`, `"timeout":"-1"`, `"timeout":"0"`, `"timeout":"2000ms"`,
		`"timeout":"1d"`,
		`"from":0,"track_total_hits":true,"timeout":"10s","version":false`,
	} {
		require.Equal(t, want["total"], f.search(all + `,` + habit + `}`)["total"], habit)
		require.NotContains(t, f.post("/v1/person/search/explain", all+`,`+habit+`}`).json(), "refused", habit)
	}
	for habit, detail := range map[string]string{
		`"from":-1`: "from", `"track_total_hits":false`: "track_total_hits",
		`"track_total_hits":-5`:    "track_total_hits",
		`"track_total_hits":"yes"`: "track_total_hits", `"min_score":0.5`: "function_score",
		`"version":true`:             "version",
		`"seq_no_primary_term":true`: "seq_no_primary_term", `"explain":true`: "/v1/person/search/explain",
		`"profile":true`:   "profile",
		`"timeout":"soon"`: "timeout", `"timeout":"5"`: "timeout",
		`"timeout":""`:    "timeout",
		`"timeout":"-3s"`: "timeout", `"timeout":"1..5s"`: "timeout", `"after":"x"`: "cursor",
		`"scroll_token":"x"`: "cursor",
	} {
		r := f.post("/v1/person/search", all+`,`+habit+`}`)
		require.Equal(t, http.StatusBadRequest, r.status, habit)
		require.Contains(t, r.detail(), detail, habit)
	}
	r := f.post("/v1/person/search", `{"sql":"SELECT 1"}`)
	require.Equal(t, http.StatusBadRequest, r.status)
	require.Contains(t, r.detail(), "query")
}

// A request timeout lowers the deadline, and a timed-out search can be retried.
func TestSearch_TimeoutOfTheCallerIsAnAnswerToRepeat(t *testing.T) {
	conn := &slow{}
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) {
		conn.Conn = d.ClickHouse
		d.ClickHouse = conn
	})
	f.insert(record.KindNetworkPerson, searchPeople()...)
	release := conn.hold(t)
	answers := make(chan response, 1)
	body := fmt.Sprintf(`{"query":{"match":{"profile.headline":"data"}},"timeout":%q}`, "50ms")
	go func() { answers <- f.post("/v1/person/search", body) }()
	r := <-answers
	release()
	require.Equal(t, http.StatusServiceUnavailable, r.status, r.body)
	require.NotEmpty(t, r.header.Get("Retry-After"))
	require.Contains(t, r.detail(), "within 50ms")
}
