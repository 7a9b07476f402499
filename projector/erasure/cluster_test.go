package erasure_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muster/projector/internal/projectortest"
	"muster/schemas/event"
)

// Erased data is deleted on every node, including shadow and retired tables, and from their files.
func TestEraser_DeletesOnEveryNode(t *testing.T) {
	s, nodes := projectortest.OpenCluster(t)
	h := projectortest.Over(t, s)
	projectortest.InsertAll(t, h, "before", projectortest.People("Ghost"))
	// A killed replay: the retired table has no Distributed one.
	for _, node := range nodes {
		require.NoError(t, node.Exec(t.Context(),
			"CREATE TABLE codehost_people__old_x1_local AS codehost_people_local"))
		require.NoError(t, node.Exec(t.Context(), "INSERT INTO codehost_people__old_x1_local SELECT * FROM "+
			"codehost_people_local"))
	}
	e := startEraser(t, h, projectortest.Suppressed(t, "ghost"))
	e.await(t, event.ErasureSuppressed)
	require.Zero(t, s.Count("SELECT count() FROM codehost_people WHERE user_id = 42"))
	e.await(t, event.ErasureDeleted)
	var people, repos uint64
	for i, conn := range nodes {
		node := &projectortest.Store{TB: t, Conn: conn}
		for table, where := range map[string]string{
			"codehost_people_local": "user_id = 42", "codehost_people__old_x1_local": "user_id = 42",
			"codehost_repos_local": "user_id = 42", "lookups_local": "target = '42'",
		} {
			require.Zero(t, node.Count("SELECT count() FROM "+table+" WHERE "+where), "%s of node %d", table, i)
		}
		require.Zero(t, node.Count("SELECT count() FROM system.parts WHERE database = currentDatabase() AND "+
			"has_lightweight_delete"), "the deleted rows are still in parts of node %d", i)
		require.Zero(t, node.Count("SELECT count() FROM system.tables WHERE database = currentDatabase() AND "+
			"position(engine_full, 'old_parts_lifetime') > 0"), "the setting stays on node %d", i)
		people += node.Count("SELECT count() FROM codehost_people_local")
		repos += node.Count("SELECT count() FROM codehost_repos_local")
	}
	require.EqualValues(t, 20, people, "other people are unaffected")
	require.EqualValues(t, 20, repos)
}
