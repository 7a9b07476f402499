//go:build !opensearch

package queryapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/engine/nativetest"
	queryapi "muster/query-api"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// The local tables of one replica are searched.
func TestCluster_OfOneShardIsSearchedInMemory(t *testing.T) {
	one, cluster := startClusters(t, 1)
	sameSearches(t, one, cluster)
}

func TestCluster_OfSeveralShardsIsNotSearchedInMemory(t *testing.T) {
	_, cluster := startClusters(t, 2)
	for _, path := range []string{"/v1/person/search", "/v1/person/search/explain"} {
		got := cluster.post(path, `{"query":{"match_all":{}}}`)
		require.Equal(t, http.StatusServiceUnavailable, got.status, path)
		require.Contains(t, got.body, "2 shards", path)
		require.Contains(t, got.body, "OPENSEARCH_URL", path)
		require.NotEmpty(t, got.header.Get("Retry-After"), path)
	}
}

// A search reads one replica of a shard, whether or not it reaches others. If it cannot be reached, the search reads
// again, or another one: it never takes the lack of an answer for one without matches.
func TestCluster_SearchReadsAReplicaThatResponds(t *testing.T) {
	replicas := nativetest.StartReplicas(t, clusterName, clusterName, 2)
	conns := createTables(t, replicas)
	f := startOn(t, conns[0], func(cfg *queryapi.Config, _ *queryapi.Deps) {
		cfg.QueryTimeout, cfg.RequestTimeout = waitTimeout, waitTimeout
		cfg.SearchTimeout, cfg.SearchDeadline = waitTimeout, waitTimeout
	})
	linked := make(map[string]readmodel.LinkedAccount)
	var people []string
	for i := range 6 {
		id := fmt.Sprintf("p%d", i)
		people = append(people, fmt.Sprintf(
			`{"profile_id":%[1]q,"last_updated":"2024-06-01","username":"u%[1]s","headline":"w%[2]d x%[2]d y%[2]d"}`,
			id, i%2))
		linked[id] = readmodel.LinkedAccount{UserID: int64(i), Username: fmt.Sprintf("user%[1]d octo%[1]d cat%[1]d", i%2)}
	}
	f.insert(record.KindNetworkPerson, people...)
	f.link(1, linked)
	for i := 0; i < len(people); i += 2 {
		f.seen(record.KindNetworkPerson, strings.Replace(people[i], "2024-06-01", "2025-06-01", 1))
	}
	for _, table := range append(readmodel.Tables(), readmodel.LinkedTable) {
		copied := fmt.Sprintf("INSERT INTO %[1]s_local SELECT * FROM %[1]s", table) // from the first one
		require.NoError(t, conns[1].Exec(t.Context(), copied), table)
	}
	find := func(field, text string) {
		t.Helper()
		got := f.search(fmt.Sprintf(`{"query":{"match":{%q:%q}}}`, field, text))
		require.EqualValues(t, 3, got["total"], "%s: %s", field, text)
		require.Len(t, ids(got), 3)
	}
	findNewer := func() {
		t.Helper()
		got := f.search(`{"query":{"range":{"updated_at":{"gte":"2025-01-01"}}}}`)
		require.ElementsMatch(t, []string{"p0", "p2", "p4"}, ids(got))
	}
	find("profile.headline", "w0")
	for _, table := range []string{"search_people_local", "linked_accounts_local"} {
		// A statement tries three times for each of its selects, and for the structure of each of their tables.
		replicas.Servers[0].Refuse(table, 12)
	}
	find("profile.headline", "x0")
	find("codehost.username", "octo0")
	for _, table := range []string{"search_people_local", "linked_accounts_local"} {
		require.Zero(t, replicas.Servers[0].Refuses(table), table)
	}
	replicas.Servers[1].Stop()
	find("profile.headline", "w1")
	find("codehost.username", "user1")
	findNewer()
	replicas.Servers[1].Resume(t)
	replicas.Servers[0].Stop()
	find("profile.headline", "y1")
	find("codehost.username", "cat1")
	findNewer()
	find("profile.headline", "w0")
}
