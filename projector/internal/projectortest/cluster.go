package projectortest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	chplatform "muster/platform/clickhouse"
	"muster/platform/engine/nativetest"
	"muster/projector/migrations"
	"muster/schemas/readmodel"
)

// OnCluster is a connection to one node of a cluster without Keeper. It emulates ON CLUSTER by running the
// statement on every node.
type OnCluster struct {
	driver.Conn
	Nodes []driver.Conn
	Fail  error // returned for every ON CLUSTER statement
}

// Exec implements driver.Conn.
func (c OnCluster) Exec(ctx context.Context, query string, args ...any) error {
	if !strings.Contains(query, " ON CLUSTER ") {
		return c.Conn.Exec(ctx, query, args...)
	}
	var whole string // without ON CLUSTER where the statement does not support it
	if err := c.QueryRow(ctx, "SELECT formatQuery({query:String})",
		clickhouse.Named("query", query)).Scan(&whole); err != nil {
		return err
	}
	if !strings.Contains(whole, " ON CLUSTER ") {
		return fmt.Errorf("not for a cluster: %s", whole)
	}
	if c.Fail != nil {
		return c.Fail
	}
	for i, node := range c.Nodes {
		if err := node.Exec(ctx, nativetest.Unreplicated(query), args...); err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
	}
	return nil
}

// OpenCluster returns a migrated store of two shards, connected to the first.
func OpenCluster(t *testing.T) (*Store, []driver.Conn) {
	t.Helper()
	return OpenClusterAs(t, "muster")
}

// OpenClusterAs is openCluster with another cluster name in migrations.
func OpenClusterAs(t *testing.T, name string) (*Store, []driver.Conn) {
	t.Helper()
	const database = "muster"
	cluster := nativetest.StartCluster(t, "muster", database, 2)
	var nodes []driver.Conn
	for i := range cluster.Engines {
		conn, err := chplatform.Open(t.Context(), chplatform.Config{DSN: cluster.DSN(i, database)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, conn.Close()) })
		nodes = append(nodes, conn)
	}
	s := &Store{TB: t, Conn: OnCluster{Conn: nodes[0], Nodes: nodes}}
	_, err := migrations.Apply(t.Context(), s.Conn, readmodel.Layout{Cluster: name}, chplatform.MigrateConfig{})
	require.NoError(t, err)
	return s, nodes
}
