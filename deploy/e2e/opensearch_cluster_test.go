//go:build opensearch

package e2e_test

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
)

// startSearchCluster starts two nodes, of which the second one has only data, each behind a TLS proxy that requires a
// password. The muster processes of the test use them, with three shards.
func startSearchCluster(t *testing.T) (manager, data *searchNode) {
	t.Helper()
	const user, password = "muster", "a password: / @"
	transport := freeAddrs(t, 1)[0]
	_, port, _ := strings.Cut(transport, ":")
	common := []string{"discovery.type=zen", "discovery.seed_hosts=" + transport}
	manager = newSearchNode(t, append(slices.Clone(common), "node.name=one", "transport.port="+port,
		"cluster.initial_cluster_manager_nodes=one")...)
	data = newSearchNode(t, append(slices.Clone(common), "node.name=two", "node.roles=data,ingest")...)

	var nodes []string
	for _, node := range []*searchNode{manager, data} {
		target, err := url.Parse(node.URL())
		require.NoError(t, err)
		forward := &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
			// A node that was killed.
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		}
		proxy := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if u, p, _ := r.BasicAuth(); u != user || p != password {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			forward.ServeHTTP(w, r)
		}))
		t.Cleanup(proxy.Close)
		authority := filepath.Join(t.TempDir(), "ca.pem")
		require.NoError(t, os.WriteFile(authority,
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw}), 0o600))
		t.Setenv("OPENSEARCH_TLS_CA_FILE", authority) // that of all test servers
		nodes = append(nodes, proxy.URL)
	}
	t.Setenv("OPENSEARCH_URL", strings.Join(nodes, ","))
	t.Setenv("OPENSEARCH_USERNAME", user)
	t.Setenv("OPENSEARCH_PASSWORD", password)
	t.Setenv("OPENSEARCH_SHARDS", "3")
	return manager, data
}

// awaitCopies waits until the index of people has three primary shards with a number of copies, and returns the nodes
// of the copies.
func awaitCopies(t *testing.T, at *searchNode, copies int) (nodes []string) {
	t.Helper()
	eventuallyEvery(t, startTimeout, time.Second, func() (bool, string) {
		var shards []struct {
			Primary string `json:"prirep"`
			State   string `json:"state"`
			Node    string `json:"node"`
		}
		const path = "/_cat/shards/muster-people-*?format=json"
		if err := at.Do(t.Context(), http.MethodGet, path, nil, &shards); err != nil {
			return false, err.Error()
		}
		primaries, started := 0, 0
		nodes = nil
		for _, s := range shards {
			if s.State != "STARTED" {
				continue
			}
			started++
			nodes = append(nodes, s.Node)
			if s.Primary == "p" {
				primaries++
			}
		}
		return primaries == 3 && started == 3*copies, fmt.Sprint(shards)
	})
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// Two replicas of query-api walk through one result by score while a node is killed, over TLS and with a password.
func TestOpenSearch_ThreeShardsOnTwoNodesServeTwoReplicas(t *testing.T) {
	manager, data := startSearchCluster(t)
	p := start(t, newDataDir(t), "--no-sample")
	const people = 60
	var records []string
	for i := range people {
		records = append(records, employee(i, 1, strings.Repeat("alpha ", i%5+1)))
	}
	p.ingestPeople(t, records...)
	p.muster(t, "status", "--wait")
	require.Equal(t, []string{"one", "two"}, awaitCopies(t, manager, 2))

	second := newReplica(t, p)
	second.run(t, p.APIKey)
	replicas := []*api{p.api(), {base: second.base, key: p.APIKey, client: newClient()}}
	body := map[string]any{"query": map[string]any{"match": map[string]any{"profile.headline": "alpha"}}, "size": 7}
	seen := make(map[string]int)
	for page := 0; ; page++ {
		require.Less(t, page, 2*people/7, "the walk does not end")
		if page == 3 {
			data.kill(t)
		}
		var got struct {
			Total   int     `json:"total"`
			Next    *string `json:"next_cursor"`
			Results []struct {
				ProfileID string `json:"profile_id"`
			} `json:"results"`
		}
		eventuallyEvery(t, startTimeout, time.Second, func() (bool, string) {
			res, err := replicas[page%2].post(t.Context(), "/v1/person/search", body)
			if err != nil || res.status != http.StatusOK {
				return false, fmt.Sprint(res, err) // until the shards of the killed node are promoted
			}
			return json.Unmarshal(res.body, &got) == nil, string(res.body)
		})
		require.Equal(t, people, got.Total)
		for _, r := range got.Results {
			seen[r.ProfileID]++
		}
		if got.Next == nil {
			break
		}
		body["cursor"] = *got.Next
	}
	require.Len(t, seen, people)
	for id, n := range seen {
		require.Equal(t, 1, n, id)
	}

	for i := range records {
		records[i] = employee(i, 2, "beta")
	}
	p.ingestPeople(t, records...)
	p.muster(t, "status", "--wait")
	require.Equal(t, people, p.hits(t, "beta"), "writes with one node")
	require.Zero(t, p.hits(t, "alpha"))
	data.start(t)
	require.Equal(t, []string{"one", "two"}, awaitCopies(t, manager, 2))
	require.Equal(t, people, p.hits(t, "beta"))
	p.stop(t)
}
