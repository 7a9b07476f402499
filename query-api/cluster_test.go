package queryapi_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/platform/clickhouse"
	"muster/platform/engine/enginetest"
	"muster/platform/engine/nativetest"
	queryapi "muster/query-api"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/sampledata"
)

// openCluster creates the tables for a cluster of n engines, each a shard, and returns connections to them.
func openCluster(t testing.TB, shards int) (*nativetest.Cluster, []driver.Conn) {
	t.Helper()
	cluster := nativetest.StartCluster(t, clusterName, clusterName, shards)
	return cluster, createTables(t, cluster)
}

// clusterName is the name of clusters and of the database on their engines.
const clusterName = "muster"

// createTables creates the tables on all engines of a cluster and returns connections to them.
func createTables(t testing.TB, cluster *nativetest.Cluster) []driver.Conn {
	t.Helper()
	files, err := readmodel.Migrations()
	require.NoError(t, err)
	layout := readmodel.Layout{Cluster: clusterName}
	migrations, err := clickhouse.LoadMigrations(files, layout)
	require.NoError(t, err)
	var made []string
	for _, m := range migrations {
		made = append(made, m.Statements...)
	}
	views, err := layout.ViewStatements(clusterName)
	require.NoError(t, err)
	var conns []driver.Conn
	for i := range cluster.Engines {
		conn, err := clickhouse.Open(t.Context(), clickhouse.Config{
			DSN: cluster.DSN(i, clusterName) + "&load_balancing=in_order", MaxOpenConns: 16,
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, conn.Close()) })
		conns = append(conns, conn)
		for _, s := range made {
			require.NoError(t, conn.Exec(t.Context(), nativetest.Unreplicated(s)), s)
		}
		for _, s := range views {
			require.NoError(t, conn.Exec(t.Context(), nativetest.Unreplicated(s)), s)
		}
	}
	return conns
}

// rawSink collects records by kind.
type rawSink map[record.Kind][]string

func (s rawSink) Record(kind string, raw []byte) error {
	s[record.Kind(kind)] = append(s[record.Kind(kind)], string(raw))
	return nil
}

func (s rawSink) Truth([]byte) error { return nil }

// Two engines as shards behind Distributed tables return the results of a single engine.
func TestCluster_AnswersAsSingleEngine(t *testing.T) {
	cluster, conns := openCluster(t, 2)
	patient := func(cfg *queryapi.Config, _ *queryapi.Deps) {
		cfg.QueryTimeout, cfg.RequestTimeout, cfg.SearchTimeout = waitTimeout, waitTimeout, waitTimeout
	}
	one := start(t, patient)
	two := startOn(t, conns[1], patient)
	people := rawSink{}
	require.NoError(t, sampledata.Generate(t.Context(), sampledata.Options{People: 60, Seed: 7}, people, nil))
	two.conn = conns[0]
	for kind, records := range people {
		one.insert(kind, records...)
		two.insert(kind, records...)
	}

	t.Run("rows are on their shards", func(t *testing.T) {
		for _, table := range readmodel.Tables() {
			var key string
			require.NoError(t, conns[0].QueryRow(t.Context(),
				"SELECT extract(engine_full, 'cityHash64\\((\\w+)\\)') FROM system.tables WHERE database = "+
					"currentDatabase() AND name = ?", table).Scan(&key))
			var all, sum uint64
			require.NoError(t, one.conn.QueryRow(t.Context(), "SELECT count() FROM "+table+" FINAL").Scan(&all))
			for shard, conn := range conns {
				var rows, astray uint64
				require.NoError(t, conn.QueryRow(t.Context(),
					fmt.Sprintf("SELECT count(), countIf(cityHash64(%s) %% 2 != %d) FROM %s_local FINAL", key, shard,
						table)).Scan(&rows, &astray))
				require.Zero(t, astray, "%s of shard %d", table, shard)
				sum += rows
			}
			require.Equal(t, all, sum, table)
		}
	})

	cursor := regexp.MustCompile(`("next_cursor":")[^"]+`)
	same := func(t *testing.T, method, path, body string) string {
		t.Helper()
		want, got := one.do(method, path, body, nil), two.do(method, path, body, nil)
		require.Equal(t, want.status, got.status, "%s %s: %s\n%s", path, body, got.body, two.log)
		// Cursors are encrypted with a random nonce.
		require.JSONEq(t, cursor.ReplaceAllString(want.body, "$1"), cursor.ReplaceAllString(got.body, "$1"), "%s %s",
			path, body)
		return got.body
	}
	t.Run("enrich", func(t *testing.T) {
		found, each, least := 0, 8, 10
		if testing.Short() {
			each, least = 40, 1
		}
		for i, raw := range people[record.KindCodehostPerson] {
			if i%each != 0 {
				continue
			}
			var r struct {
				Username string `json:"codehost_username"`
			}
			require.NoError(t, json.Unmarshal([]byte(raw), &r))
			found += strings.Count(same(t, "POST", "/v1/person/enrich",
				fmt.Sprintf(`{"codehost":%q,"websets":["codehost","network"]}`, r.Username)), `"codehost_username":`)
			same(t, "GET", "/v1/webset/codehost/person?addons=network&codehost="+r.Username, "")
		}
		require.Greater(t, found, least, "people are found at all")
	})
	require.NoError(t, readmodel.CreateViews(t.Context(), one.conn, readmodel.Layout{}))
	var database string
	require.NoError(t, one.conn.QueryRow(t.Context(), "SELECT currentDatabase()").Scan(&database))
	views := make(map[*fixture]driver.Conn)
	for f, dsn := range map[*fixture]string{
		one: enginetest.Get(t).DSN(readmodel.ViewsDatabase(database)),
		two: cluster.DSN(1, readmodel.ViewsDatabase("muster")),
	} {
		conn, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: dsn})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, conn.Close()) })
		views[f] = conn
	}
	// rows returns the rows of a statement over the views, sorted.
	rows := func(t *testing.T, conn driver.Conn, statement string) []string {
		t.Helper()
		found, err := conn.Query(t.Context(), "SELECT toString(tuple(*)) FROM (\n"+statement+"\n)")
		require.NoError(t, err, statement)
		var out []string
		for found.Next() {
			var row string
			require.NoError(t, found.Scan(&row))
			out = append(out, row)
		}
		require.NoError(t, found.Err(), statement)
		require.NoError(t, found.Close())
		slices.Sort(out)
		return out
	}
	for _, view := range readmodel.ViewNames() {
		t.Run("view "+view, func(t *testing.T) {
			require.Equal(t, rows(t, views[one], "SELECT * FROM "+view), rows(t, views[two], "SELECT * FROM "+view))
		})
	}
	if testing.Short() {
		return // all views for a cluster were read
	}
	page, err := os.ReadFile("../deploy/docs/questions.md")
	require.NoError(t, err)
	cells := regexp.MustCompile(
		"(?s)## (\\d+)\\.[^\n]*\n\n(?:(?:[^\n]+\n)+\n)?```sql\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.Len(t, cells, 20)
	for _, cell := range cells {
		t.Run("question "+cell[1], func(t *testing.T) {
			require.Equal(t, rows(t, views[one], cell[2]), rows(t, views[two], cell[2]))
		})
	}
}

// startClusters returns a fixture on a single engine, and one on a cluster, both without people.
func startClusters(t *testing.T, shards int) (one, cluster *fixture) {
	t.Helper()
	_, conns := openCluster(t, shards)
	patient := func(cfg *queryapi.Config, _ *queryapi.Deps) {
		cfg.QueryTimeout, cfg.RequestTimeout = waitTimeout, waitTimeout
		cfg.SearchTimeout, cfg.SearchDeadline = waitTimeout, waitTimeout
	}
	return start(t, patient), startOn(t, conns[0], patient)
}

// sameSearches compares the people that searches of both fixtures return, before and after records are inserted.
func sameSearches(t *testing.T, one, cluster *fixture) {
	t.Helper()
	ask := func(f *fixture, body string) (int, []string) {
		got := f.search(body)
		return int(got["total"].(float64)), ids(got)
	}
	total, found := ask(cluster, `{"query":{"match_all":{}}}`)
	require.Zero(t, total, "of empty tables")
	require.Empty(t, found)
	people := rawSink{}
	require.NoError(t, sampledata.Generate(t.Context(), sampledata.Options{People: 60, Seed: 7}, people, nil))
	for kind, records := range people {
		one.insert(kind, records...)
		cluster.insert(kind, records...)
	}
	linked := make(map[string]readmodel.LinkedAccount)
	_, found = ask(one, `{"query":{"match_all":{}}}`)
	for i, id := range found {
		linked[id] = readmodel.LinkedAccount{UserID: int64(i), Username: "octo cat", Languages: []string{"Go", "C++"}[:i%3],
			Followers: int64(i % 4)}
	}
	one.link(1, linked)
	cluster.link(1, linked)
	for _, body := range []string{
		`{"query":{"match_all":{}},"sort":["profile_id.keyword"]}`,
		`{"query":{"match":{"profile.headline":"senior engineer"}}}`,
		`{"query":{"multi_match":{"query":"senior data","fields":["profile.headline","experience.title"]}}}`,
		`{"query":{"nested":{"path":"experience","query":{"match":{"experience.title":"senior engineer"}},"inner_hits":{}}}}`,
		`{"query":{"prefix":{"profile.headline":"eng"}},"sort":[{"experience.start_date":"desc"}]}`,
		`{"query":{"match":{"profile.headline":{"query":"enginere","fuzziness":"AUTO"}}}}`,
		`{"query":{"match_phrase":{"experience.title":{"query":"engineer senior","slop":2}}}}`,
		`{"query":{"range":{"updated_at":{"gte":"2020-01-01"}}},"sort":["profile.full_name.keyword"]}`,
		`{"query":{"function_score":{"query":{"exists":{"field":"profile.connections"}},"field_value_factor":{"field":"profile.connections","modifier":"log1p"}}}}`,
		`{"query":{"match":{"codehost.username":"cat"}}}`,
		`{"query":{"prefix":{"codehost.languages":"g"}},"sort":[{"codehost.followers":"desc"}]}`,
		`{"query":{"exists":{"field":"codehost.languages"}},"sort":["codehost.languages.keyword"]}`,
	} {
		wantTotal, want := ask(one, body)
		require.True(t, len(want) > 0 || !strings.Contains(body, "codehost"), body)
		total, found := ask(cluster, body)
		require.Equal(t, wantTotal, total, body)
		require.Equal(t, want, found, body)
		require.NotContains(t, cluster.post("/v1/person/search/explain", body).json(), "refused", body)
	}
}
