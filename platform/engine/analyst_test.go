package engine_test

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func asAnalyst(tb testing.TB, query string, params ...string) reply {
	tb.Helper()
	return call{body: strings.NewReader(query), params: values(params), user: "-"}.do(tb)
}

func TestAnalyst_ReadsTables(t *testing.T) {
	db := freshDatabase(t)
	must(t, "CREATE TABLE t (a UInt64, file String) ENGINE = MergeTree ORDER BY a", "database", db)
	must(t, "INSERT INTO t VALUES (1, 'x'), (2, 'y')", "database", db)
	for _, query := range []string{
		"SELECT * FROM t", "SELECT sum(a) FROM t WHERE t.file = 'x' GROUP BY ALL", "WITH 1 AS x SELECT x",
		"SHOW TABLES", "DESCRIBE TABLE t",
		"EXPLAIN SELECT * FROM t", "EXISTS TABLE t", "SHOW CREATE TABLE t", "SELECT count() FROM numbers(10)",
		"SELECT * FROM t FORMAT JSON",
		"SELECT * FROM system.tables LIMIT 1", "SELECT t.file FROM t",
		"SELECT a AS file FROM t WHERE t.file IN ('a') ORDER BY t.file",
		"SELECT Settings, 1 AS settings FROM system.processes AS p WHERE notEmpty(Settings) AND NOT p.Settings = " +
			"map() ORDER BY settings ASC",
		"SHOW SETTINGS LIKE 'max_t%'",
		"SELECT printf('%s %s', 'a', 'b')",
		"SELECT * FROM merge(currentDatabase(), 't')",
	} {
		r := asAnalyst(t, query, "database", db)
		require.Equal(t, http.StatusOK, r.status, "%s: %s", query, r.body)
	}
	require.Equal(t, "2\n", asAnalyst(t, "SELECT getSetting('max_threads')").body)
	require.Equal(t, "1\n", asAnalyst(t, "SELECT getSetting('max_threads')", "max_threads", "1").body)
	require.Equal(t, "452", asAnalyst(t, "SELECT 1", "max_threads", "64").header.Get("X-ClickHouse-Exception-Code"))
	require.Equal(t, "452", asAnalyst(t, "SELECT 1", "max_memory_usage", "0").header.Get("X-ClickHouse-Exception-Code"))
	r := asAnalyst(t, "SELECT number FROM numbers(20000000)", "wait_end_of_query", "1")
	require.Equal(t, "396", r.header.Get("X-ClickHouse-Exception-Code"), r.status)
	require.Equal(t, http.StatusOK, asAnalyst(t, "SELECT 1", "output_format_json_quote_64bit_integers", "1").status)
	require.Equal(t, http.StatusOK, asAnalyst(t, "SELECT 1", "session_id", "x").status)
}

// readableSecret writes a file in the engine's data directory, which is readable in the sandbox, and returns its
// directory and path.
func readableSecret(t *testing.T) (dir, path string) {
	t.Helper()
	data := strings.TrimSpace(must(t, "SELECT path FROM system.disks WHERE name = 'default'"))
	dir, err := os.MkdirTemp(data, "secret") //nolint:usetesting // must be in the engine's data directory
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	path = filepath.Join(dir, "secret.csv")
	require.NoError(t, os.WriteFile(path, []byte("topsecret\n"), 0o600))
	require.Equal(t, "topsecret\\n\n", must(t, "SELECT file('"+path+"')"))
	return dir, path
}

func TestAnalyst_CannotWriteOrReachFilesHostsAndPrograms(t *testing.T) {
	db := freshDatabase(t)
	must(t, "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a", "database", db)
	must(t, "INSERT INTO t VALUES (1)", "database", db)
	dir, secret := readableSecret(t)
	target := filepath.Join(dir, "written")

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	called := make(chan struct{}, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			called <- struct{}{}
			conn.Close()
		}
	}()
	host := listener.Addr().String()

	for _, query := range append(disguised, []string{
		// files
		"SELECT * FROM file('{secret}', 'LineAsString')",
		"SELECT * FROM file('{secret}')",
		"DESCRIBE file('{secret}')",
		"DESCRIBE TABLE file('{secret}', 'CSV')",
		"EXPLAIN SELECT * FROM file('{secret}')",
		"SELECT file('{secret}')",
		"SELECT `file`('{secret}')",
		"SELECT \"file\" ( '{secret}' )",
		"SELECT file/**/('{secret}')",
		"SELECT * APPLY(file) FROM (SELECT '{secret}')",
		"SELECT * APPLY file FROM (SELECT '{secret}')",
		"SELECT x FROM (SELECT '{secret}' AS p) ARRAY JOIN arrayMap(q -> file(q), [p]) AS x",
		"SELECT COLUMNS('p') APPLY(file) FROM (SELECT '{secret}' AS p)",
		"SELECT * EXCEPT q APPLY(toString) APPLY(file) FROM (SELECT '{secret}' AS p, 1 AS q)",
		"SELECT {f:Identifier}('{secret}')",
		"SELECT 1 IN (SELECT file('{secret}'))",
		"SELECT * FROM view(SELECT * FROM file('{secret}'))",
		"SELECT * FROM loop(file('{secret}'))",
		"SELECT * FROM `{secret}`",
		"SELECT * FROM '{secret}'",
		"SELECT * FROM default.`{secret}`",
		"SELECT * FROM merge('default', '.*secret.*')",
		"SELECT * FROM icebergLocal('{dir}')", "SELECT * FROM deltaLakeLocal('{dir}')",
		"SELECT * FROM sqlite('{secret}', 't')",
		"SELECT * FROM fileCluster('default', '{secret}', 'LineAsString', 'line String')",
		"SELECT * FROM filesystem('{dir}')",
		"SELECT 1 INTO OUTFILE '{target}'",
		"SELECT 1 INTO OUTFILE '{target}' FORMAT CSV",
		"INSERT INTO FUNCTION file('{target}', 'CSV', 'a UInt8') VALUES (1)",
		"INSERT INTO FUNCTION file('{target}', 'CSV', 'a UInt8') SELECT 1",
		"INSERT INTO t FROM INFILE '{secret}' FORMAT CSV",
		"BACKUP TABLE t TO File('{target}')", "RESTORE TABLE t FROM File('{target}')",
		// other hosts
		"SELECT * FROM url('http://{host}/', 'LineAsString')", "SELECT * FROM url('http://{host}/x.csv')",
		"DESCRIBE url('http://{host}/x.csv')",
		"SELECT * FROM default.`http://{host}/x.csv`", "SELECT * FROM `http://{host}/x.csv`",
		"SELECT * FROM remote('{host}', system.one)", "SELECT * FROM remoteSecure('{host}', system.one)",
		"SELECT * FROM cluster('default', system.one)", "SELECT * FROM clusterAllReplicas('default', system.one)",
		"SELECT * FROM s3('http://{host}/bucket/x.csv')", "SELECT * FROM s3('http://bucket.{host}/x.csv', 'CSV')",
		"SELECT * FROM gcs('http://{host}/bucket/x.csv')",
		"SELECT * FROM mysql('{host}', 'a', 'b', 'c', 'd')", "SELECT * FROM postgresql('{host}', 'a', 'b', 'c', 'd')",
		"SELECT * FROM mongodb('{host}', 'a', 'b', 'c', 'd', 'a String')",
		"SELECT * FROM redis('{host}', 'k', 'k String, v String')",
		"SELECT * FROM hdfs('hdfs://{host}/x', 'CSV')", "SELECT * FROM azureBlobStorage('http://{host}/', 'c', 'p')",
		"SELECT * FROM arrowFlight('{host}', 'x')", "SELECT * FROM jdbc('http://{host}', 'x')",
		"SELECT * FROM odbc('http://{host}', 'x')",
		"SELECT hasColumnInTable('{host}', 'system', 'one', 'dummy')", "SELECT reverseDNSQuery('127.0.0.1')",
		"SELECT aiGenerate('x')",
		// programs
		"SELECT * FROM executable('ls', 'TSV', 'a String')", "SELECT * FROM python('x')",
		"CREATE FUNCTION f AS x -> x", "SELECT catboostEvaluate('/x', 1)",
		// writes
		"INSERT INTO t VALUES (2)", "INSERT INTO t FORMAT CSV\n2\n", "INSERT INTO t SELECT 2",
		"INSERT INTO t SELECT * FROM input('a UInt64') FORMAT CSV\n2\n",
		"WITH 1 AS x INSERT INTO t SELECT x", "CREATE TABLE u (a UInt8) ENGINE = Memory",
		"CREATE TEMPORARY TABLE u (a UInt8)", "CREATE DATABASE d",
		"CREATE VIEW v AS SELECT 1",
		"CREATE DICTIONARY d (a UInt64) PRIMARY KEY a SOURCE(FILE(path '{secret}' format 'CSV')) " +
			"LAYOUT(FLAT()) LIFETIME(0)",
		"DROP TABLE t", "TRUNCATE TABLE t", "ALTER TABLE t DELETE WHERE 1", "DELETE FROM t WHERE 1",
		"UPDATE t SET a = 1 WHERE 1", "RENAME TABLE t TO u", "OPTIMIZE TABLE t FINAL",
		"ATTACH TABLE t", "ATTACH TABLE u FROM '{dir}' (a UInt8) ENGINE = MergeTree ORDER BY a", "DETACH TABLE t",
		"EXCHANGE TABLES t AND t", "UNDROP TABLE t",
		// the rest
		"SYSTEM FLUSH LOGS", "SYSTEM SHUTDOWN", "SYSTEM STOP MERGES", "KILL QUERY WHERE 1", "CREATE USER u",
		"GRANT ALL ON *.* TO default", "SET ROLE x",
		"SET readonly = 0", "SET max_threads = 64", "SELECT 1 SETTINGS readonly = 0",
		"SELECT * FROM t SETTINGS max_execution_time = 0, readonly = 2",
		"SELECT 1; SELECT 2", "SELECT 1; DROP TABLE t", "SHOW TABLES; DROP TABLE t", "EXPLAIN SELECT 1; DROP TABLE t",
		"CREATE NAMED COLLECTION c AS a = 1",
		"SELECT * FROM dictionary('d')", "CREATE RESOURCE r (QUERY)", "EXECUTE AS u SELECT 1", "BEGIN TRANSACTION",
		"PARALLEL WITH", "DROP TABLE t PARALLEL WITH DROP TABLE t",
	}...) {
		query = strings.NewReplacer("{secret}", secret, "{target}", target, "{host}", host, "{dir}", dir).Replace(query)
		for _, params := range [][]string{
			{"database", db}, {}, {"database", db, "param_f", "file"}, {"param_f", `\x66ile`},
			{"database", db, "wait_end_of_query", "1", "session_id", "a"},
		} {
			r := asAnalyst(t, query, params...)
			require.NotEqual(t, http.StatusOK, r.status, "%s: %s", query, r.body)
			require.NotContains(t, r.body, "topsecret", query)
		}
		if first, _, _ := strings.Cut(query, " "); first == "SELECT" || first == "WITH" || first == "FROM" {
			for _, other := range []string{
				"DESCRIBE (" + query + ")", "EXPLAIN " + query, "EXPLAIN QUERY TREE " + query,
				"SELECT * FROM view(" + query + ")", "SELECT 1 IN (" + query + ")",
			} {
				r := asAnalyst(t, other, "database", db)
				require.NotEqual(t, http.StatusOK, r.status, "%s: %s", other, r.body)
				require.NotContains(t, r.body, "topsecret", other)
			}
		}
	}
	require.NoFileExists(t, target)
	require.Empty(t, called, "a query of an analyst reached another host")
	require.Equal(t, "1\t1\n", must(t, "SELECT count(), sum(a) FROM t", "database", db))
	require.Equal(t, "t\n", must(t, "SHOW TABLES", "database", db))

	for _, name := range []string{
		"output_format_schema", "format_schema", "user_files_path", "max_execution_speed", "allow_ddl", "dialect",
	} {
		require.NotEqual(t, http.StatusOK, asAnalyst(t, "SELECT 1", name, "/tmp/x").status, name)
	}
	for name, value := range map[string]string{
		"readonly": "0", "allow_ddl": "1", "max_execution_time": "-1", "user_files_path": "/", "dialect": "prql",
		"format_schema":                 "x",
		"allow_introspection_functions": "1", "implicit_select": "1", "max_memory_usage_for_user": "0",
		"s3_max_redirects": "1", "output_format_schema": "/tmp/x",
		"additional_table_filters": "{}", "custom_key": "1", "allow_experimental_analyzer": "0", "workload": "x",
		"network_compression_method": "ZSTD",
	} {
		r := call{
			user:   "-",
			params: url.Values{name: {value}},
			body:   strings.NewReader("SELECT getSetting('readonly')"),
		}.do(t)
		if r.status == http.StatusOK {
			require.Equal(t, "1\n", r.body, name)
		}
	}
}
