//go:build opensearch

package queryapi_test

import "testing"

func TestSearch_OfSeveralShardsEqualsThatOfOne(t *testing.T) {
	one, cluster := startClusters(t, 2)
	sameSearches(t, one, cluster)
}
