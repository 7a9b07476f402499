package migrations_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"

	chplatform "muster/platform/clickhouse"
	"muster/projector/internal/projectortest"
	"muster/projector/migrations"
	"muster/schemas/readmodel"
)

func TestFindLayout_RejectsInconsistentTables(t *testing.T) {
	layout, err := readmodel.FindLayout(t.Context(), projectortest.OpenStore(t).Conn)
	require.NoError(t, err)
	require.Zero(t, layout)
	s, nodes := projectortest.OpenCluster(t)
	layout, err = readmodel.FindLayout(t.Context(), s.Conn)
	require.NoError(t, err)
	require.Equal(t, readmodel.Layout{Cluster: "muster"}, layout)
	exec := func(statement string) {
		t.Helper()
		require.NoError(t, nodes[0].Exec(t.Context(), statement))
	}
	exec("CREATE TABLE mine AS lookups ENGINE = Distributed(muster, currentDatabase(), mine_too)")
	exec("EXCHANGE TABLES mine AND lookups")
	_, err = readmodel.FindLayout(t.Context(), s.Conn)
	require.ErrorContains(t, err, "lookups was not created by muster migrate")
	exec("EXCHANGE TABLES lookups_local AND lookups")
	_, err = readmodel.FindLayout(t.Context(), s.Conn)
	require.ErrorContains(t, err, `only some are on a cluster: ["" "muster"]`)
	exec("DROP DATABASE muster SYNC")
	exec("CREATE DATABASE muster")
	_, err = readmodel.FindLayout(t.Context(), s.Conn)
	require.ErrorIs(t, err, readmodel.ErrNoTables)
}

// A node that joins later, or lost its disk, gets the current tables of the others, including shadow and
// retired ones, and nothing else.
func TestMigrate_CreatesMissingTablesOfANode(t *testing.T) {
	s, nodes := projectortest.OpenCluster(t)
	h := projectortest.Over(t, s)
	projectortest.InsertAll(t, h, "before", projectortest.People("alive"))
	kept := h.Replay("codehost_people").Tables[0].Kept
	require.NoError(t, nodes[0].Exec(t.Context(), "CREATE TABLE unrelated_table (n UInt8) ENGINE = Memory"))
	empty := func() {
		for _, statement := range []string{"DROP DATABASE muster SYNC", "CREATE DATABASE muster",
			"DROP DATABASE muster_views SYNC"} {
			require.NoError(t, nodes[1].Exec(t.Context(), statement))
		}
	}
	empty()
	for range 2 {
		applied, err := migrations.Apply(t.Context(), s.Conn, readmodel.Layout{Cluster: "muster"},
			chplatform.MigrateConfig{})
		require.NoError(t, err)
		require.Empty(t, applied)
	}
	tables := make([]map[string]string, len(nodes))
	for i, node := range nodes {
		tables[i] = make(map[string]string)
		rows, err := node.Query(t.Context(), "SELECT concat(database, '.', name), create_table_query FROM "+
			"system.tables WHERE startsWith(database, 'muster') AND name != 'unrelated_table'")
		require.NoError(t, err)
		for rows.Next() {
			var name, create string
			require.NoError(t, rows.Scan(&name, &create))
			tables[i][name] = create
		}
		require.NoError(t, rows.Err())
		require.NoError(t, rows.Close())
	}
	require.Contains(t, tables[0], "muster."+kept+"_local")
	require.Contains(t, tables[0], "muster.usage_monthly")
	require.Equal(t, tables[0], tables[1])
	require.Zero(
		t,
		(&projectortest.Store{TB: t, Conn: nodes[1]}).Count("SELECT count() FROM system.tables WHERE name = "+
			"'unrelated_table'"),
	)
	lost := projectortest.OnCluster{Conn: nodes[0], Nodes: nodes, Fail: &clickhouse.Exception{Code: 253,
		Name: "REPLICA_ALREADY_EXISTS"}}
	_, err := migrations.Apply(t.Context(), lost, readmodel.Layout{Cluster: "muster"}, chplatform.MigrateConfig{})
	require.ErrorContains(t, err, "SYSTEM DROP REPLICA")
	projectortest.InsertAll(t, h, "after", projectortest.People("alive"))
	require.EqualValues(t, 21, s.Count("SELECT count() FROM codehost_people FINAL"))

	// The running projector does the same.
	empty()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		migrations.ReconcileNodes(ctx, s.Conn, slog.New(slog.DiscardHandler))
	}()
	node := &projectortest.Store{TB: t, Conn: nodes[1]}
	projectortest.Eventually(t, func(context.Context) bool {
		return node.Count(
			"SELECT count() FROM system.tables WHERE startsWith(database, 'muster')",
		) == uint64(
			len(tables[0]),
		)
	}, "a node lacks tables")
	stop()
	<-done
}
