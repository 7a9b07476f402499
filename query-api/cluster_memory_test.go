//go:build !opensearch

package queryapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
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
