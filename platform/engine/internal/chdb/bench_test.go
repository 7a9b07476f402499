package chdb_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/engine"
	"muster/platform/engine/internal/chdb"
)

// BenchmarkStatement measures small statements in the library itself, without HTTP and a client
// (deploy/docs/benchmarks.md): go test -run '^$' -bench Statement ./engine/internal/chdb
func BenchmarkStatement(b *testing.B) {
	path, err := engine.EnsureLibrary(b.Context(), engine.LibraryConfig{})
	require.NoError(b, err)
	lib, err := chdb.Open(path)
	require.NoError(b, err)
	conn, err := lib.Connect("--path="+b.TempDir(), "--max_threads=1")
	require.NoError(b, err)
	defer conn.Close()
	for _, statement := range []string{
		"CREATE TABLE t (a UInt64, b String, c Array(String), INDEX x c TYPE text(tokenizer = 'array')) " +
			"ENGINE = ReplacingMergeTree ORDER BY a",
		"INSERT INTO t SELECT number, toString(number), [toString(number % 1000)] FROM numbers(500000)",
		"OPTIMIZE TABLE t FINAL",
	} {
		require.NoError(b, conn.Exec(statement))
	}
	for name, query := range map[string]string{
		"one":  "SELECT 1",
		"key":  "SELECT count() FROM t WHERE a = 7",
		"rank": "SELECT a FROM t FINAL WHERE has(c, '17') ORDER BY a LIMIT 10",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r, err := conn.Query(query, "Native", nil)
				require.NoError(b, err)
				r.Close()
			}
		})
	}
}
