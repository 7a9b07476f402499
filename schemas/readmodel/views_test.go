package readmodel

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The views of a cluster differ only in the clause ON CLUSTER.
func TestViews_EqualGoldenFile(t *testing.T) {
	for name, layout := range map[string]Layout{"single": {}, "cluster": {Cluster: "muster"}} {
		t.Run(name, func(t *testing.T) {
			statements, err := layout.ViewStatements("muster")
			require.NoError(t, err)
			require.Len(t, statements, len(ViewNames())+1, "the database, and the views")
			golden(t, "testdata/views_"+name+".sql.golden", strings.Join(statements, "\n;\n")+"\n")
		})
	}
	single, err := Layout{}.ViewStatements("muster")
	require.NoError(t, err)
	cluster, err := Layout{Cluster: "muster"}.ViewStatements("muster")
	require.NoError(t, err)
	for i, s := range cluster {
		require.Equal(t, 1, strings.Count(s, " ON CLUSTER 'muster'"), s)
		require.Equal(t, single[i], strings.Replace(s, " ON CLUSTER 'muster'", "", 1))
		require.NotContains(t, s, "_local", "views read the tables in front of the shards")
	}
}
