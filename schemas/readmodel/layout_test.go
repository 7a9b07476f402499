package readmodel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every name of a cluster that migrations accept is parsed.
func TestClusterOf_ParsesEngine(t *testing.T) {
	for _, name := range []string{"muster", "all-sharded.1", "{cluster}", "{installation}-{cluster}", "my cluster",
		"a, b", "grün"} {
		cluster, err := clusterOf("lookups", "Distributed", "Distributed('"+name+
			"', 'muster', 'lookups_local', cityHash64(link_hash))")
		require.NoError(t, err)
		require.Equal(t, name, cluster)
	}
	cluster, err := clusterOf("lookups", "Distributed", "Distributed(muster, currentDatabase(), lookups_local, rand())")
	require.NoError(t, err)
	require.Equal(t, "muster", cluster)
	cluster, err = clusterOf("lookups", "ReplacingMergeTree", "ReplacingMergeTree(ver) ORDER BY link_hash")
	require.NoError(t, err)
	require.Empty(t, cluster)
	for _, full := range []string{
		"", "Memory", "Distributed('', 'muster', 'lookups_local')", "Distributed('{cluster}', 'muster', 'mine')",
		"Distributed('{cluster}', 'lookups_local', 'mine')",
	} {
		_, err := clusterOf("lookups", "Distributed", full)
		require.ErrorContains(t, err, "lookups was not created by muster migrate")
	}
}
