package engine_test

import (
	"context"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"muster/platform/engine/enginetest"
)

func open(tb testing.TB, configure ...func(*clickhouse.Options)) driver.Conn {
	tb.Helper()
	return openDSN(tb, enginetest.DSN(tb), configure...)
}

func openDSN(tb testing.TB, dsn string, configure ...func(*clickhouse.Options)) driver.Conn {
	tb.Helper()
	options, err := clickhouse.ParseDSN(dsn)
	require.NoError(tb, err)
	for _, c := range configure {
		c(options)
	}
	conn, err := clickhouse.Open(options)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, conn.Close()) })
	return conn
}

func TestQueryAndInsert(t *testing.T) {
	conn := open(t)
	ctx := context.Background()
	require.NoError(t, conn.Ping(ctx))
	require.NoError(t, conn.Exec(ctx, "CREATE TABLE t (a UInt64, b String, c LowCardinality(Nullable(String))) ENGINE = MergeTree ORDER BY a"))
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO t")
	require.NoError(t, err)
	for i := range 1000 {
		require.NoError(t, batch.Append(uint64(i), "row", nil))
	}
	require.NoError(t, batch.Send())
	var n, sum uint64
	require.NoError(t, conn.QueryRow(ctx, "SELECT count(), sum(a) FROM t WHERE b = {b:String}", clickhouse.Named("b", "row")).Scan(&n, &sum))
	require.Equal(t, uint64(1000), n)
	require.Equal(t, uint64(999*500), sum)
}
