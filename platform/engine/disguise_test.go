package engine_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// disguised queries read a file with functions whose names are hidden in the text. See
// TestAnalyst_CannotWriteOrReachFilesHostsAndPrograms.
var disguised = []string{
	// functions as arguments
	"SELECT arrayMap(file, ['{secret}'])", "SELECT arrayMap(FILE, ['{secret}'])",
	"SELECT arrayMap(`file`, ['{secret}'])", "SELECT arrayMap((file), ['{secret}'])",
	"SELECT arrayMap(`\\x66ile`, ['{secret}'])", "SELECT arrayMap({f:Identifier}, ['{secret}'])",
	"SELECT arrayMap(x -> `\\x66ile`(x), ['{secret}'])",
	"SELECT arrayFilter(x -> throwIf(1, `\\x66ile`('{secret}')), [1])",
	"SELECT arrayFold((a, x) -> `\\146ile`(x), ['{secret}'], '')",
	"SELECT arrayMap({ f : Identifier }, ['{secret}'])",
	// names in quotes and with escapes
	"SELECT `\\x66ile`('{secret}')", "SELECT \"\\x66ile\"('{secret}')", "SELECT “file”('{secret}')",
	"SELECT “\\x66ile”('{secret}')", "SELECT \"f\\ile\"('{secret}')",
	"SELECT `file`::String('{secret}')", "SELECT * FROM `\\x66ile`('{secret}', 'LineAsString')",
	"SELECT * FROM “file”('{secret}', 'LineAsString')",
	// white space
	"SELECT file\u2003('{secret}')", "SELECT file\u2028('{secret}')", "SELECT file\u200b('{secret}')",
	"SELECT file\u0085('{secret}')", "SELECT file\u2060('{secret}')",
	"SELECT file\u205f('{secret}')", "SELECT file\u00a0('{secret}')", "SELECT file\u3000('{secret}')",
	"SELECT\ufefffile('{secret}')", "SELECT file\v\f\r('{secret}')",
	"SELECT file\x00('{secret}')", "SELECT 1,\u180efile('{secret}')",
	// comments
	"SELECT /* /* */ ' */ file('{secret}') -- '", "SELECT /* ' */ file('{secret}') /* ' */",
	"SELECT 1 -- '\n, file('{secret}') -- '", "SELECT 1 # '\n, file('{secret}') # '",
	"SELECT 1 #! '\n, file('{secret}') #! '", "SELECT 1 −− '\n, file('{secret}') -- '",
	"SELECT file-- (\n('{secret}')", "SELECT file/* /* */ */('{secret}')",
	"SELECT 1 // '\n, file('{secret}') // '", "SELECT '/*', file('{secret}'), '*/'",
	// strings
	"SELECT ‘'’, file('{secret}') -- '", "SELECT ‘'’ AS x, file('{secret}') AS `'`",
	"SELECT “'”, file('{secret}') FROM (SELECT 1 AS `'`) -- '", "SELECT x'41', file('{secret}')",
	"SELECT b'01', file('{secret}')", "SELECT x'\\', file('{secret}') -- '", "SELECT '\\\\', file('{secret}')",
	"SELECT '''', file('{secret}')", "SELECT $$'$$, file('{secret}'), $$'$$",
	"SELECT $a$ $ ' $a$, file('{secret}') -- '", "SELECT $é$, file('{secret}'), $é$",
	"SELECT 1$a$, file('{secret}'), 2$a$", "SELECT file($x${secret}$x$)", "SELECT 1 AS x$a$, file('{secret}') AS y$a$",
	"SELECT ’'’, file('{secret}') -- '", "SELECT e'\\'', file('{secret}') -- '", "SELECT N'a', file('{secret}')",
	// APPLY, lambdas and aliases
	"SELECT * APPLY `\\x66ile` FROM (SELECT '{secret}')", "SELECT * APPLY(“file”) FROM (SELECT '{secret}')",
	"SELECT * APPLY(x -> `\\x66ile`(x)) FROM (SELECT '{secret}')",
	"SELECT COLUMNS('p') REPLACE(`\\x66ile`(p) AS p) FROM (SELECT '{secret}' AS p)",
	"WITH (x -> `\\x66ile`(x)) AS f SELECT f('{secret}')",
	"WITH (x -> “file”(x)) AS f SELECT arrayMap(f, ['{secret}'])",
	"WITH `\\x66ile` AS f SELECT arrayMap(f, ['{secret}'])",
	"SELECT * APPLY f FROM (SELECT '{secret}', `\\x66ile` AS f)",
	"WITH f AS (SELECT `\\x66ile`('{secret}') AS x) SELECT x FROM f", "WITH `\\x66ile`('{secret}') AS x SELECT x",
	// code in strings
	"SELECT * FROM values('a String, b String ALIAS `\\x66ile`(\\'{secret}\\')', ('x'))",
	"SELECT a, b FROM values('a String, b String ALIAS file(''{secret}'')', ('x'))",
	"SELECT a, b FROM generateRandom('a UInt8, b String ALIAS file(''{secret}'')') LIMIT 1",
	"SELECT a, b FROM generateRandom(concat('a UInt8, b String AL', 'IAS fi', 'le(''{secret}'')')) LIMIT 1",
	"SELECT * FROM format(JSONEachRow, 'a String, b String DEFAULT file(''{secret}'')', '{\"a\":1}')",
	"SELECT a, b FROM null('a UInt8, b String ALIAS file(''{secret}'')')",
	"DESCRIBE TABLE generateRandom('a UInt8, b String ALIAS `\\x66ile`(''{secret}'')')",
	"SELECT a, b FROM input('a UInt8, b String ALIAS file(''{secret}'')')",
	"DESCRIBE format(JSONEachRow, 'a UInt8, b UInt64 DEFAULT toUInt64(file(''{secret}''))', '{\"a\":1}')",
	"DESC TABLE `\\x66ormat`('JSONEachRow', 'a UInt8, b UInt64 DEFAULT toUInt64(file(''{secret}''))', '{\"a\":1}')",
	"EXPLAIN QUERY TREE SELECT * FROM format(JSONEachRow, 'a UInt8, b UInt64 DEFAULT toUInt64(file(''{secret}''))', " +
		"'{\"a\":1}')",
	"SELECT 1 IN format(JSONEachRow, 'a UInt8, b UInt8 DEFAULT toUInt8(file(''{secret}''))', '{\"a\":1}')",
	"EXPLAIN TABLE OVERRIDE format(JSONEachRow, 'a UInt8, b UInt64 DEFAULT toUInt64(file(''{secret}''))', " +
		"'{\"a\":1}') COLUMNS (a UInt8)",
	"DESCRIBE numbers(1) SETTINGS schema_inference_hints = 'a UInt64 DEFAULT toUInt64(file(''{secret}''))'",
	"DESCRIBE merge(default, '.*') SETTINGS readonly = 0", "DESCRIBE fuzzQuery('SELECT file(''{secret}'')')",
	"DESCRIBE values('a String DEFAULT file(''{secret}'')', ('x'))",
	"DESCRIBE input('a String DEFAULT file(''{secret}'')')",
	"SELECT reinterpret('', 'AggregateFunction(groupConcat(file(\\'{secret}\\')), String)')",
	"SELECT JSONExtract('{}', 'AggregateFunction(groupConcat(file(\\'{secret}\\')), String)')",
	"SELECT defaultValueOfTypeName('DateTime64(toUInt8(file(\\'{secret}\\')))')",
	"SELECT defaultValueOfTypeName('Tuple(a UInt8 DEFAULT file(\\'{secret}\\'))')",
	"SELECT tokens('abc', 'ngrams(toUInt8(file(\\'{secret}\\')))')",
	"SELECT b FROM (SELECT * FROM loop(values('a String, b String ALIAS file(''{secret}'')', ('x')))) LIMIT 1",
	"SELECT * FROM eval('SELECT file(''{secret}'')')",
	"SELECT arrayReduce('groupConcat(file(\\'{secret}\\'))', ['a', 'b'])",
	"SELECT arrayReduce(concat('groupConcat(fi', 'le(\\'{secret}\\'))'), ['a', 'b'])",
	"SELECT arrayReduceInRanges('groupConcat(file(\\'{secret}\\'))', [(1, 2)], ['a', 'b'])",
	"SELECT finalizeAggregation(initializeAggregation('groupConcatState(file(\\'{secret}\\'))', 'b'))",
	"SELECT structureToProtobufSchema('a String DEFAULT toInt64(file(\\'{secret}\\'))')",
	"SELECT structureToCapnProtoSchema('a String DEFAULT toInt64(file(\\'{secret}\\'))')",
	"SELECT groupConcat(file('{secret}'))(x) FROM (SELECT 'a' AS x)",
	"SELECT CAST('' AS AggregateFunction(groupConcat(`\\x66ile`('{secret}')), String))",
	"SELECT CAST('', 'AggregateFunction(groupConcat(file(\\'{secret}\\')), String)')",
	// settings, which the engine accepts in a subquery
	"SELECT * FROM (SELECT * FROM default.`{secret}` SETTINGS readonly = 0)",
	"SELECT * FROM (SELECT * FROM default.`{secret}` SETTINGS readonly = 2)",
	"SELECT * FROM default.`{secret}` SETTINGS readonly = 0",
	"DESCRIBE (SELECT * FROM default.`{secret}` SETTINGS readonly = 0)",
	"WITH x AS (SELECT * FROM default.`{secret}` SETTINGS readonly = 0) SELECT * FROM x",
	"SELECT * FROM view(SELECT * FROM default.`{secret}` SETTINGS readonly = 0)",
	"SELECT (SELECT any(c1) FROM default.`{secret}` SETTINGS readonly = 0)",
	"SELECT 1 IN (SELECT count() FROM default.`{secret}` SETTINGS readonly = 0)",
	"SELECT * FROM (SELECT * FROM default.`{secret}` AS `as` settings /* */ \"read\\x6fnly\"/**/= 0)",
	"SELECT * FROM (SELECT * FROM default.`{secret}` LIMIT 1. SETTINGS max_threads = 1, readonly = 0)",
	"SELECT * FROM (SELECT 1 UNION ALL SELECT count() FROM default.`{secret}` SETTINGS readonly = 0)",
	"SELECT * FROM (SELECT 1 SETTINGS a.b = 0)",
	"SELECT * FROM (SELECT count() FROM default.`{secret}` SETTINGS final, readonly = 0)",
	"SELECT * FROM (SELECT 1 SETTINGS final)",
	"SELECT * FROM (SELECT count() FROM default.`{secret}` SETTINGS readonly = DEFAULT)",
	"DESCRIBE TABLE default.`{secret}`", "SHOW CREATE TABLE default.`{secret}`", "CHECK TABLE default.`{secret}`",
	"SELECT * FROM (SELECT number FROM system.numbers LIMIT 3 SETTINGS additional_table_filters = {'system.numbers': " +
		"'throwIf(1, file(''{secret}''))'})",
	"SELECT * FROM (SELECT number FROM numbers(3) SETTINGS additional_result_filter = " +
		"'throwIf(1, file(''{secret}''))')",
	"SELECT * FROM (SELECT 1 SETTINGS max_memory_usage = 0)",
	"SELECT (SELECT 1 SETTINGS param_x = 1)",
	// other positions in a query
	"SELECT 1 LIMIT length(`\\x66ile`('{secret}'))", "SELECT number FROM numbers(length(`\\x66ile`('{secret}')))",
	"SELECT 1 ORDER BY `\\x66ile`('{secret}') WITH FILL",
	"SELECT 1 FROM system.one WHERE throwIf(1, `\\x66ile`('{secret}'))", "SELECT toInt64(`\\x66ile`('{secret}'))",
	"SELECT sum(1) OVER (ORDER BY `\\x66ile`('{secret}'))",
	"EXPLAIN QUERY TREE SELECT `\\x66ile`('{secret}')", "EXPLAIN SYNTAX SELECT “file”('{secret}')",
	"EXPLAIN PLAN actions = 1 SELECT arrayMap(file, ['{secret}'])",
	"DESCRIBE (SELECT toInt64(`\\x66ile`('{secret}')))", "SHOW TABLES WHERE throwIf(1, `\\x66ile`('{secret}'))",
	"SELECT * FROM merge(`\\x66ile`('{secret}'), '.*')",
	"SELECT * FROM view(SELECT `\\x66ile`('{secret}'))",
	"SELECT * FROM viewIfPermitted(SELECT `\\x66ile`('{secret}') AS a ELSE null('a String'))",
	"FROM system.one SELECT `\\x66ile`('{secret}')",
	"(SELECT `\\x66ile`('{secret}'))", "SELECT 1 UNION ALL SELECT `\\x66ile`('{secret}')",
	"SELECT `\\x66ile`('{secret}') FORMAT JSON", "SELECT (SELECT `\\x66ile`('{secret}'))",
	"SELECT 1 IN (`\\x66ile`('{secret}'))", "SELECT if(1, `\\x66ile`('{secret}'), '')",
	"SELECT CASE WHEN 1 THEN `\\x66ile`('{secret}') END",
	"SELECT 1 SETTINGS additional_result_filter = '`\\x66ile`(\\'{secret}\\') = 1'",
	"SELECT 1 SETTINGS \"‘'’\" = 1, x = `\\x66ile`('{secret}') -- '", "SELECT 1 ‘'’ INTO OUTFILE '{target}' -- '",
	"SELECT 1 /* /* */ ' */ INTO OUTFILE '{target}' -- '",
	"SELECT formatRow('CSV', `\\x66ile`('{secret}'))", "VALUES (file('{secret}'))",
	"SELECT * FROM (VALUES (`\\x66ile`('{secret}')))", "SELECT 1 AS `a\nFORMAT b`, `\\x66ile`('{secret}')",
	// programs
	"SELECT AIGenerate('x')", "SELECT * FROM “executable”('ls', 'TSV', 'a String')",
	"SELECT * FROM `\\x75rl`('http://{host}/', 'LineAsString')",
	"SELECT `hasColumn\\x49nTable`('{host}', 'system', 'one', 'dummy')",
	"SELECT arrayMap(reverseDNSQuery, ['127.0.0.1'])",
}

// The engine rewrites SHOW to a query that contains the text in quotes.
func TestAnalyst_ShowCannotEscapeQuotes(t *testing.T) {
	db := freshDatabase(t)
	must(t, "CREATE TABLE t (a UInt8) ENGINE = Memory", "database", db)
	_, secret := readableSecret(t)
	for _, query := range []string{
		"SHOW FUNCTIONS LIKE '{x}'", "SHOW FUNCTIONS ILIKE '{x}'", "SHOW COLUMNS FROM t LIKE '{x}'",
		"SHOW TABLES LIKE '{x}'", "SHOW DATABASES LIKE '{x}'", "SHOW SETTINGS LIKE '{x}'", "SHOW CLUSTERS LIKE '{x}'",
		"SHOW CLUSTER '{x}'", "SHOW DICTIONARIES LIKE '{x}'", "SHOW MERGES LIKE '{x}'", "SHOW INDEXES FROM `{x}`",
		"SHOW COLUMNS FROM `{x}`", "SHOW INDEXES FROM `{y}`", "SHOW COLUMNS FROM `{y}`",
	} {
		for _, read := range []string{
			"toUInt64(file('{secret}')) = 1",
			"toUInt64((SELECT any(c1) FROM file('{secret}') SETTINGS readonly = 0)) = 1",
		} {
			y := "x' OR " + strings.ReplaceAll(read, "{secret}", secret) + " OR name LIKE 'y"
			query := strings.NewReplacer("{x}", strings.ReplaceAll(y, "'", "''"), "{y}", y).Replace(query)
			r := asAnalyst(t, query, "database", db)
			require.NotContains(t, r.body, "topsecret", query)
			if r.status == http.StatusOK {
				require.Empty(t, r.body, query)
			}
		}
	}
}

func TestAnalyst_NormalFormGivesSameResult(t *testing.T) {
	db := freshDatabase(t)
	must(t, "CREATE TABLE t (a UInt64, `b c` Nullable(String), d Array(Tuple(x Int8, y Enum8('q' = 1, '\\'' = 2))), "+
		"m Map(String, UInt8)) ENGINE = MergeTree ORDER BY a", "database", db)
	must(t, "INSERT INTO t VALUES (1, 'x\\ty', [(1, 'q')], {'k': 1}), (2, NULL, [(-2, '\\'')], {}), "+
		"(3, 'ünïcode ‘’', [], {'k': 3})", "database", db)
	for _, query := range []string{
		"SELECT * FROM t ORDER BY a", "SELECT a+1, - -a, -(-1), a - -1, 1--1\n FROM t ORDER BY 1",
		"SELECT `b c`, \"b c\" AS “ä” FROM t ORDER BY a",
		"SELECT 'it''s \\n \\\\ \\x41 ‘q’', ‘x’, $$he're$$, $t$ $$ $t$, x'4142', b'01000001'",
		"SELECT d.x, d[1].1, m['k'], d.y FROM t ORDER BY a",
		"SELECT 1::UInt8, '1'::Nullable(UInt8), CAST(1 AS String), DATE '2020-01-01', INTERVAL 1 DAY + " +
			"toDate('2020-01-01'), 1e10, 0x10, 1_000, .5, NULL, true",
		"SELECT count(), sum(a) FILTER (WHERE a > 1), quantiles(0.5, 0.9)(a), uniqIf(a, a > 1), " +
			"groupArrayIf(2)(a, 1) FROM t",
		"SELECT a % 2 AS k, count() FROM t GROUP BY k WITH TOTALS ORDER BY k",
		"SELECT a, row_number() OVER (PARTITION BY a % 2 ORDER BY a ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT " +
			"ROW) FROM t ORDER BY a",
		"SELECT * EXCEPT (m), COLUMNS('a|d') APPLY(toString) FROM t ORDER BY a LIMIT 2",
		"SELECT * REPLACE (a + 1 AS a) FROM t ORDER BY a",
		"WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT * FROM r",
		"WITH (SELECT max(a) FROM t) AS m, x -> x * m AS f SELECT f(2)",
		"SELECT l.a, r.`b c` FROM t AS l LEFT JOIN t AS r ON l.a = r.a + 1 ORDER BY 1, 2",
		"SELECT a, x.1 FROM t ARRAY JOIN d AS x ORDER BY a",
		"SELECT a FROM t WHERE a IN (1, 2) AND `b c` LIKE 'x%' OR NOT a BETWEEN 1 AND 2 ORDER BY a DESC NULLS " +
			"LAST LIMIT 1 BY a",
		"SELECT CASE a WHEN 1 THEN 'one' ELSE 'many' END, a IS NULL, a = ANY(SELECT 1), EXISTS(SELECT 1), a > 1 ? 1 " +
			": 2 FROM t ORDER BY a",
		"SELECT extract(YEAR FROM toDate('2020-02-01')), substring('abc' FROM 2 FOR 1), trim(BOTH 'x' FROM 'xax'), " +
			"position('b' IN 'abc')",
		"SELECT * FROM (SELECT a FROM t UNION DISTINCT SELECT a FROM t ORDER BY a) ORDER BY 1",
		"SELECT a FROM t INTERSECT SELECT 2", "SELECT * FROM ((SELECT 1) UNION ALL (SELECT 2 ORDER BY 1)) ORDER BY 1",
		"SELECT * FROM t ORDER BY a FORMAT JSONEachRow", "SELECT /* a /* b */ c */ 1 -- end",
		"SELECT arrayMap((x, y) -> x + y, [1], [2]), arrayMap(plus, [1], [2]), (1, 'a').1, [1, 2][-1], map(1, 2)[1]",
		"SELECT number FROM numbers(3) ORDER BY number WITH FILL FROM 0 TO 5 STEP 2", "SHOW TABLES",
		"DESCRIBE TABLE t", "SHOW CREATE TABLE t", "EXISTS TABLE t",
		"SELECT {s:String}, {n:UInt8} + 1, {l:Array(UInt8)}", "SELECT a FROM {tab:Identifier} ORDER BY a",
		"SELECT a FROM t PREWHERE a > 1 ORDER BY a",
		"SELECT grouping(a), count() FROM t GROUP BY GROUPING SETS ((a), ()) ORDER BY 1, 2",
		"SELECT now() > toDateTime('2020-01-01 00:00:00', 'UTC'), toTypeName(now64(3))",
		"SELECT a FROM t QUALIFY row_number() OVER (ORDER BY a) = 2", "SELECT 1;",
		"SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v ORDER BY 1", "SELECT '" + strings.Repeat("x", 100_000) + "'",
		"SELECT " + strings.Repeat("1+", 400) + "1", "SELECT 1 IN (" + strings.Repeat("1,", 100_000) + "1)",
	} {
		params := []string{
			"database",
			db,
			"param_s",
			`a\tb'"`,
			"param_n",
			"7",
			"param_l",
			"[1]",
			"param_tab",
			"t",
			"default_format",
			"JSONCompactStrings",
			"output_format_write_statistics",
			"0",
		}
		want, got := must(t, query, params...), asAnalyst(t, query, params...)
		require.Equal(t, http.StatusOK, got.status, "%s: %s", query, got.body)
		require.Equal(t, want, got.body, query)
	}
	r := asAnalyst(t, "SELECT 1 +")
	require.Equal(t, "62", r.header.Get("X-ClickHouse-Exception-Code"))
	require.NotContains(t, r.body, "formatQuery")
	require.Contains(t, r.body, "failed at position 11")
	r = asAnalyst(t, "SELECT '"+strings.Repeat("x", 300_000)+"'")
	require.Contains(t, r.body, "Max query size exceeded")
	require.Equal(t, "0\n1\n", asAnalyst(t, "SELECT number FROM numbers(5)", "limit", "2").body)
	require.Equal(t, "3\n4\n", asAnalyst(t, "SELECT number FROM numbers(5)", "offset", "3").body)
}

// The structure of an external table may contain expressions.
func TestAnalyst_ExternalTableStructureHasOnlyColumns(t *testing.T) {
	_, secret := readableSecret(t)
	for _, structure := range []string{
		"a String, b String DEFAULT file('{secret}')",
		"a String, b String COMMENT ‘'’ DEFAULT file('{secret}') COMMENT ''",
		"a String, b ALIAS `\\x66ile`('{secret}')", "a String, b String MATERIALIZED 1",
		"a String, CONSTRAINT c CHECK throwIf(1, `\\x66ile`('{secret}'))",
		"a String, CONSTRAINT c ASSUME arrayMap(file, ['{secret}'])",
		"a String, INDEX i `\\x66ile`('{secret}') TYPE minmax",
		"a String) ENGINE = Memory AS SELECT (`\\x66ile`('{secret}')",
		"a String) ENGINE = File('CSV', '{secret}') COMMENT (''", "a String) ENGINE = File(CSV, '{secret}') --",
		"a String) ENGINE = File(CSV, '{secret}') /*", "a String; DROP TABLE x",
		"a String DEFAULT \xe2\x80\x98'\xe2\x80\x99",
		"a AggregateFunction(groupConcat(`\\x66ile`('{secret}')), String)",
	} {
		structure = strings.ReplaceAll(structure, "{secret}", secret)
		c := form(t, "SELECT * FROM e", map[string]string{"e_structure": structure}, map[string]string{"e": "x\n"})
		c.user = "-"
		r := c.do(t)
		require.NotEqual(t, http.StatusOK, r.status, "%s: %s", structure, r.body)
		require.NotContains(t, r.body, "topsecret")
	}
	for _, format := range []string{"Values", "values", "MySQLDump", "Template", "Regexp", "Protobuf", "CapnProto"} {
		for _, data := range []string{
			"(file('" + secret + "'))", "(arrayStringConcat(arrayMap(file, ['" + secret + "'])))",
			"INSERT INTO e VALUES (file('" + secret + "'));",
		} {
			c := form(t, "SELECT * FROM e", map[string]string{"e_structure": "a String", "e_format": format},
				map[string]string{"e": data})
			c.user = "-"
			r := c.do(t)
			require.Equal(t, "497", r.header.Get("X-ClickHouse-Exception-Code"), "%s: %s", format, r.body)
		}
	}
	r := form(t, "SELECT * FROM e", map[string]string{"e_structure": "a String", "e_format": "CSV SETTINGS x=1"},
		map[string]string{"e": "x\n"}).do(t)
	require.Equal(t, "73", r.header.Get("X-ClickHouse-Exception-Code"), r.body)
}

func TestAllowedFunctions_ExistAndReachNothing(t *testing.T) {
	list, err := os.ReadFile("internal/facade/functions.txt")
	require.NoError(t, err)
	harmless := strings.Fields(string(list))
	known := strings.Fields(must(t, "SELECT name FROM system.functions WHERE NOT is_aggregate"))
	require.Subset(t, known, harmless)
	aliases := must(t, "SELECT name FROM system.functions WHERE alias_to != '' AND has({l:Array(String)}, name) "+
		"AND NOT arrayExists(x -> lower(x) = lower(alias_to), {l:Array(String)})",
		"param_l", "['"+strings.Join(harmless, "','")+"']")
	require.Empty(t, aliases, "aliases of functions that are not allowed")
	for _, name := range []string{
		"file", "arrayReduce", "arrayReduceInRanges", "initializeAggregation", "structureToProtobufSchema",
		"hasColumnInTable", "aiGenerate", "AIGenerate", "catboostEvaluate", "sleep", "getServerSetting",
		"showCertificate",
	} {
		require.Contains(t, known, name)
		require.NotContains(t, harmless, name)
	}
}
