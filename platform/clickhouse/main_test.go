package clickhouse_test

import (
	"os"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"muster/platform/clickhouse"
	"muster/platform/engine/enginetest"
)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

func openDSN(t *testing.T, dsn string) driver.Conn {
	t.Helper()
	conn, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: dsn, ClientName: "muster-test"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

func open(t *testing.T) driver.Conn {
	t.Helper()
	return openDSN(t, enginetest.DSN(t))
}

func exec(t *testing.T, conn driver.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		require.NoError(t, conn.Exec(t.Context(), s), s)
	}
}

// scan returns the single value that query selects.
func scan[T any](t *testing.T, conn driver.Conn, query string) T {
	t.Helper()
	var v T
	require.NoError(t, conn.QueryRow(t.Context(), query).Scan(&v), query)
	return v
}
