package nativetest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInnerSQL_ConvertsPlannerNames(t *testing.T) {
	for name, want := range map[string]string{
		"__table1.version":                          "`__table1`.`version`",
		"plus(__table1.k, 1_UInt8)":                 "plus(`__table1`.`k`, _CAST(1, 'UInt8'))",
		"multiply(__table1.k, -1_Int8)":             "multiply(`__table1`.`k`, _CAST(-1, 'Int8'))",
		"has([1, 2]_Array(UInt8), __table2.x)":      "has(_CAST([1, 2], 'Array(UInt8)'), `__table2`.`x`)",
		`concat(__table1.v, 'it\'s, (x'_String)`:    "concat(`__table1`.`v`, _CAST('it\\'s, (x', 'String'))",
		"in(__table1.k, __set_UInt64_1_2)":          "",
		"arrayMap(lambda(x, plus(x, 1_UInt8)), [])": "",
		"NULL_Nullable(Nothing)":                    "_CAST(NULL, 'Nullable(Nothing)')",
		"f('open":                                   "",
	} {
		got, ok := innerSQL(name)
		require.Equal(t, want != "", ok, name)
		if ok {
			require.Equal(t, want, got)
		}
	}
}

func TestClauses_IgnoresQuotesAndSubqueries(t *testing.T) {
	parts, ok := clauses("SELECT count() AS `a FROM b`, f('x FROM y', (SELECT 1 FROM z)) AS `c` " +
		"FROM `m`.`t` AS `__table1` WHERE `x` = ' GROUP BY ' GROUP BY `k`, g(1, 2) ORDER BY count() DESC")
	require.True(t, ok)
	require.Equal(t, "`m`.`t` AS `__table1` WHERE `x` = ' GROUP BY '", parts["FROM"])
	require.Equal(t, []string{"`k`", "g(1, 2)"}, items(parts["GROUP BY"]))
	require.Equal(t, "count() DESC", parts["ORDER BY"])
	for _, text := range []string{"WITH 1 AS x SELECT x FROM t", "SELECT 1", "SELECT (1 FROM t"} {
		_, ok := clauses(text)
		require.False(t, ok, text)
	}
}

func TestAggregateCalls_IgnoresQuotesAndOtherNames(t *testing.T) {
	require.Equal(t, []string{"count()", "quantileExact(0.5)(`x`)", "sum(`__table1`.`sum(y)`)"},
		aggregateCalls("[count(), quantileExact(0.5)(`x`)] AS `sum(z)`, "+
			"sum(`__table1`.`sum(y)`) + count() + 'count()' + discount()",
			map[string]bool{"count": true, "quantileExact": true, "sum": true}))
}

func TestUnreplicated_RemovesClusterAndReplication(t *testing.T) {
	require.Equal(t, "CREATE TABLE t_local (a Int64) ENGINE = ReplacingMergeTree(ver) "+
		"SETTINGS non_replicated_deduplication_window = 10000",
		Unreplicated("CREATE TABLE t_local ON CLUSTER 'main' (a Int64) "+
			"ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/t', '{replica}', ver) "+
			"SETTINGS replicated_deduplication_window = 10000"))
}
