package engine_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/engine"
	"muster/platform/engine/enginetest"
)

// restrictedEngine is an engine whose user without a password is restricted to the database views, which has a view on
// a table of secrets.
type restrictedEngine struct {
	t *testing.T
	e *enginetest.Engine
}

const hidden = "quinn@post.example"

func startRestricted(t *testing.T) restrictedEngine {
	t.Helper()
	e, err := enginetest.Start(t.Context(),
		func(c *engine.SupervisorConfig) { c.Server.AnalystDatabases = []string{"views", "more_views"} })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	k := restrictedEngine{t, e}
	status, body := k.ask("", "SELECT 1")
	require.Equal(t, http.StatusOK, status, body)
	for _, statement := range []string{
		"CREATE DATABASE secrets",
		"CREATE TABLE secrets.people (name String, email String) ENGINE = MergeTree ORDER BY name",
		"INSERT INTO secrets.people VALUES ('Quinn', '" + hidden + "')",
		"CREATE TABLE secrets.`views.people` (email String) ENGINE = Memory",
		"INSERT INTO secrets.`views.people` VALUES ('" + hidden + "')",
		"CREATE TABLE secrets.joined (name String, email String) ENGINE = Join(ANY, LEFT, name)",
		"INSERT INTO secrets.joined VALUES ('Quinn', '" + hidden + "')",
		"CREATE DICTIONARY secrets.emails (name String, email String) PRIMARY KEY name SOURCE(CLICKHOUSE(DB " +
			"'secrets' TABLE 'people')) LAYOUT(COMPLEX_KEY_HASHED()) LIFETIME(0)",
		"CREATE TABLE default.leftover (email String) ENGINE = Memory",
		"INSERT INTO default.leftover VALUES ('" + hidden + "')",
		"CREATE VIEW views.people AS SELECT name FROM secrets.people",
		"CREATE VIEW more_views.counts AS SELECT count() AS people FROM secrets.people",
	} {
		status, body := k.ask(enginetest.User, statement)
		require.Equal(t, http.StatusOK, status, "%s: %s", statement, body)
	}
	return k
}

// ask runs a statement as a user; an empty user means without credentials.
func (k restrictedEngine) ask(user, statement string, params ...string) (int, string) {
	k.t.Helper()
	req, err := http.NewRequestWithContext(k.t.Context(), http.MethodPost,
		"http://"+k.e.Addr()+"/?"+values(params).Encode(), strings.NewReader(statement))
	require.NoError(k.t, err)
	if user != "" {
		req.SetBasicAuth(user, enginetest.Password)
	}
	return k.send(req)
}

func (k restrictedEngine) send(req *http.Request) (int, string) {
	k.t.Helper()
	resp, err := http.DefaultClient.Do(req)
	require.NoError(k.t, err)
	defer func() { require.NoError(k.t, resp.Body.Close()) }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(k.t, err)
	return resp.StatusCode, string(body)
}

func TestAnalyst_WithoutPasswordSeesOnlyItsDatabases(t *testing.T) {
	k := startRestricted(t)
	for statement, want := range map[string]string{
		"SELECT * FROM people": "Quinn\n", "SELECT * FROM views.people": "Quinn\n",
		"SELECT people FROM more_views.counts": "1\n",
		"SELECT currentDatabase()":             "views\n", "SHOW TABLES": "people\n",
		"SHOW TABLES FROM more_views": "counts\n",
		"SHOW DATABASES":              "more_views\nviews\n",
		"SELECT secrets.name FROM people AS secretz, (SELECT 'x' AS name) AS secrets": "",
		"WITH secrets AS (SELECT 1 AS a) SELECT a FROM secrets":                       "1\n",
		"SELECT database, name FROM system.tables ORDER BY ALL": "more_views\tcounts\n" +
			"views\tpeople\n",
		"SELECT t.name FROM system.tables AS t WHERE t.database = 'views'":      "people\n",
		"SELECT tables.name FROM system.tables WHERE tables.database = 'views'": "people\n",
		"SELECT system.tables.name FROM system.tables WHERE database = 'views'": "people\n",
		"SELECT DISTINCT database FROM system.columns ORDER BY 1":               "more_views\nviews\n",
		"SELECT `system`.`columns`.table FROM `system`.`columns` WHERE name " +
			"= 'people'": "counts\n",
		"SELECT name FROM system.databases ORDER BY name": "more_views\nviews\n",
		"SELECT c.name FROM system.tables AS t JOIN system.columns AS c ON c.table = t.name AND c.database = " +
			"t.database ORDER BY 1": "name\npeople\n",
		"SELECT 'people' IN (SELECT name FROM system.tables)":                "1\n",
		"SELECT count() FROM system.one":                                     "1\n",
		"SELECT default FROM system.settings WHERE name = 'limit'":           "0\n",
		"SELECT count() > 100 FROM system.functions":                         "1\n",
		"EXISTS TABLE people":                                                "1\n",
		"SELECT name FROM {db:Identifier}.{tab:Identifier}":                  "Quinn\n",
		"SELECT 'secrets.people', {s:String}":                                "secrets.people\tsecrets.people\n",
		"SELECT uniqMerge(s) FROM (SELECT uniqState(name) AS s FROM people)": "1\n",
	} {
		for _, database := range []string{"", "default", "views"} {
			status, body := k.ask("", statement, "database", database, "param_db", "views", "param_tab", "people",
				"param_s", "secrets.people")
			if want == "" {
				require.Equal(t, http.StatusForbidden, status, statement)
				continue
			}
			require.Equal(t, http.StatusOK, status, "%s: %s", statement, body)
			require.Equal(t, want, body, statement)
		}
	}

	for _, statement := range []string{
		"SELECT email FROM secrets.people", "SELECT * FROM `secrets`.`people`", "SELECT * FROM \"secrets\".people",
		"SELECT * FROM `\\x73ecrets`.people",
		"SELECT * FROM secrets . people", "SELECT * FROM secrets/**/./**/people", "SELECT * FROM `secrets.people`",
		"SELECT * FROM `secrets`.`views.people`",
		"SELECT secrets.people.email FROM secrets.people", "SELECT (SELECT any(email) FROM secrets.people)",
		"SELECT '" + hidden + "' IN (SELECT email FROM secrets.people)",
		"SELECT '" + hidden + "' IN secrets.`views.people`",
		"SELECT * FROM people AS p JOIN secrets.people AS s USING (name)", "SELECT * FROM people, secrets.people",
		"WITH x AS (SELECT * FROM secrets.people) SELECT * FROM x",
		"SELECT * FROM people UNION ALL SELECT email FROM secrets.people",
		"SELECT * FROM view(SELECT * FROM secrets.people)",
		"SELECT * FROM people WHERE EXISTS(SELECT 1 FROM secrets.people)", "FROM secrets.people SELECT email",
		"(SELECT email FROM secrets.people)", "SELECT email FROM secrets.people FORMAT JSON",
		"SELECT * FROM merge('secrets', '.*')", "SELECT * FROM merge(secrets, '.*')", "SELECT * FROM merge('people')",
		"SELECT * FROM merge(REGEXP('sec.*'), '.*')", "SELECT * FROM MERGE('secrets', '.*')",
		"SELECT * FROM remote('127.0.0.1', secrets.people)", "SELECT * FROM cluster('default', secrets.people)",
		"SELECT * FROM loop(secrets.people)", "SELECT * FROM loop('secrets', 'people')",
		"SELECT * FROM mergeTreeIndex(secrets, people)", "SELECT * FROM mergeTreeIndex('secrets', 'people')",
		"SELECT * FROM dictionary('secrets.emails')",
		"SELECT * FROM viewIfPermitted(SELECT email FROM secrets.people ELSE null('email String'))",
		"SELECT joinGet('secrets.joined', 'email', 'Quinn')",
		"SELECT joinGetOrNull(secrets.joined, 'email', 'Quinn')",
		"SELECT dictGet('secrets.emails', 'email', tuple('Quinn'))",
		"SELECT dictGetString('secrets.emails', 'email', tuple('Quinn'))",
		"SELECT dictHas('secrets.emails', tuple('" + hidden + "'))",
		"SELECT arrayMap(joinGet, ['secrets.joined'], ['email'], ['Quinn'])",
		"SELECT * FROM {db:Identifier}.{tab:Identifier}", "SELECT * FROM {both:Identifier}",
		"SELECT * FROM {sys:Identifier}", "SELECT * FROM default.leftover", "SELECT * FROM leftover",
		"DESCRIBE TABLE secrets.people", "DESCRIBE secrets.people", "DESCRIBE (SELECT email FROM secrets.people)",
		"SHOW CREATE TABLE secrets.people", "SHOW CREATE secrets.people", "SHOW TABLES FROM secrets",
		"SHOW TABLES IN secrets",
		"SHOW FULL TABLES FROM secrets", "SHOW COLUMNS FROM people FROM secrets", "SHOW COLUMNS FROM secrets.people",
		"SHOW INDEX FROM people FROM secrets", "SHOW CREATE DATABASE secrets", "SHOW DATABASES LIKE 'secrets'",
		"SHOW DICTIONARIES FROM secrets",
		"SELECT * FROM (SHOW PROCESSLIST)", "SELECT * FROM (SHOW TABLES FROM secrets)",
		"SELECT * FROM (DESCRIBE secrets.people)", "SELECT * FROM (EXPLAIN SELECT * FROM secrets.people)",
		"WITH x AS (SHOW PROCESSLIST) SELECT * FROM x",
		"SELECT * FROM viewExplain('EXPLAIN', '', (SELECT * FROM secrets.people))", "SHOW FULL PROCESSLIST",
		"SHOW EXTENDED FULL PROCESSLIST", "SHOW CREATE USER default", "SHOW CREATE secrets.people",
		"SHOW CREATE DICTIONARY secrets.emails",
		"SHOW PROCESSLIST", "SHOW MERGES", "SHOW GRANTS", "SHOW USERS", "SHOW ACCESS", "SHOW CLUSTERS",
		"EXISTS TABLE secrets.people", "EXISTS secrets.people", "EXISTS DATABASE secrets",
		"EXISTS TABLE system.processes", "CHECK TABLE secrets.people", "CHECK TABLE people", "CHECK ALL TABLES",
		"EXPLAIN SELECT * FROM secrets.people", "EXPLAIN ESTIMATE SELECT * FROM secrets.people",
		"EXPLAIN QUERY TREE SELECT * FROM secrets.people", "EXPLAIN SYNTAX SELECT * FROM secrets.people",
		"EXPLAIN AST SELECT * FROM secrets.people",
		"SELECT query FROM system.processes", "SELECT * FROM `system`.processes", "SELECT * FROM system.`processes`",
		"SELECT * FROM system.query_log", "SELECT * FROM system.parts", "SELECT * FROM system.parts_columns",
		"SELECT * FROM system.query_cache",
		"SELECT * FROM system.disks", "SELECT * FROM system.dictionaries", "SELECT * FROM system.merges",
		"SELECT * FROM system.server_settings", "SELECT * FROM system.user_processes",
		"SELECT * FROM system.asynchronous_inserts", "SELECT * FROM system.detached_parts",
		"SELECT * FROM information_schema.tables", "SELECT * FROM INFORMATION_SCHEMA.COLUMNS",
		"SELECT * FROM _temporary_and_external_tables.x", "SHOW TABLES FROM system",
		"SHOW CREATE TABLE system.processes", "DESCRIBE TABLE system.processes",
		"USE secrets", "SELECT 1; USE secrets", "INSERT INTO views.people SELECT email FROM secrets.people",
		"CREATE TABLE views.x AS secrets.people", "CREATE TEMPORARY TABLE x AS SELECT * FROM secrets.people",
		"BACKUP TABLE secrets.people TO Null",
		"SELECT * FROM numbers(1) WHERE (SELECT throwIf(1, any(email)) FROM secrets.people)",
		"SELECT * FROM numbers((SELECT length(any(email)) FROM secrets.people))",
		"SELECT 1 LIMIT (SELECT length(any(email)) FROM secrets.people)",
		"SELECT * FROM (SELECT 1) SETTINGS additional_table_filters = {'views.people': '1'}",
		"SELECT * FROM people ARRAY JOIN (SELECT groupArray(email) FROM secrets.people) AS x",
		"SELECT * FROM hidden_people",
	} {
		for _, params := range [][]string{
			{
				"param_db", "secrets", "param_tab", "people", "param_both", "secrets.people", "param_sys",
				"system.processes",
			},
			{
				"database", "views", "wait_end_of_query", "1", "session_id", "a", "param_db", "system", "param_tab",
				"processes", "param_both", "secrets.people", "param_sys", "system.processes",
			},
		} {
			status, body := k.ask("", statement, params...)
			require.NotEqual(t, http.StatusOK, status, "%s: %s", statement, body)
			require.NotContains(t, body, hidden, statement)
		}
	}
}

// The engine rewrites SHOW to queries of system tables.
func TestAnalyst_WithoutPasswordShowsOnlyItsTables(t *testing.T) {
	k := startRestricted(t)
	for _, statement := range []string{
		"SHOW TABLES WHERE name = 'x' OR 1", "SHOW TABLES WHERE 1) OR (1", "SHOW TABLES LIKE '%' LIMIT 100",
		"SHOW TABLES NOT LIKE 'x'", "SHOW FULL TABLES WHERE 1 OR 1", "SHOW TABLES FROM views WHERE 0 OR 1",
		"SHOW COLUMNS FROM people WHERE 1 OR 1", "SHOW FULL COLUMNS FROM people LIKE '%'",
		"SHOW EXTENDED COLUMNS FROM people WHERE field != '' OR 1", "SHOW INDEX FROM people WHERE 1 OR 1",
		"SHOW CREATE TABLE people",
		"SHOW COLUMNS FROM people WHERE table = 'joined' OR database = 'secrets'",
		"SHOW TABLES WHERE (SELECT 1) OR 1", "SHOW SETTINGS LIKE 'max_t%'", "SHOW COLUMNS FROM `joined`",
		"SHOW INDEXES FROM `joined`",
	} {
		status, body := k.ask("", statement)
		if status == http.StatusOK { // an error repeats the statement
			require.False(t, strings.Contains(body, "joined") || strings.Contains(body, "email"), statement)
		}
	}
}

func TestAnalyst_WithoutPasswordCannotChooseDatabase(t *testing.T) {
	k := startRestricted(t)
	for _, database := range []string{
		"secrets", "system", "information_schema", "Views", "missing", "`secrets`", "views.people", " secrets",
	} {
		status, body := k.ask("", "SELECT * FROM people", "database", database)
		require.Equal(t, http.StatusForbidden, status, body)
		require.Contains(t, body, "views, more_views")
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+k.e.Addr()+"/",
			strings.NewReader("SELECT * FROM people"))
		require.NoError(t, err)
		req.Header.Set("X-ClickHouse-Database", database)
		status, _ = k.send(req)
		require.Equal(t, http.StatusForbidden, status, database)
	}
	// Fields of a form are parameters as well.
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	require.NoError(t, w.WriteField("query", "SELECT email FROM people"))
	require.NoError(t, w.WriteField("database", "secrets"))
	require.NoError(t, w.Close())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+k.e.Addr()+"/", &form)
	require.NoError(t, err)
	req.Header.Set("Content-Type", w.FormDataContentType())
	status, body := k.send(req)
	require.NotEqual(t, http.StatusOK, status)
	require.NotContains(t, body, hidden)
	// An external table is visible whatever its name.
	form.Reset()
	w = multipart.NewWriter(&form)
	part, err := w.CreateFormFile("secrets", "secrets")
	require.NoError(t, err)
	_, err = io.WriteString(part, "7\n")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	req, err = http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+k.e.Addr()+"/?"+url.Values{
		"secrets_structure": {"a UInt8"}, "query": {"SELECT a, name FROM secrets, people"},
	}.Encode(), &form)
	require.NoError(t, err)
	req.Header.Set("Content-Type", w.FormDataContentType())
	status, body = k.send(req)
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, "7\tQuinn\n", body)
}

func TestAnalyst_WithPasswordReadsAllWithinLimits(t *testing.T) {
	k := startRestricted(t)
	for _, statement := range []string{
		"SELECT email FROM secrets.people", "SELECT email FROM merge('secrets', '^people$')",
		"SELECT joinGet('secrets.joined', 'email', 'Quinn')",
	} {
		status, body := k.ask(engine.OwnerAnalyst, statement)
		require.Equal(t, http.StatusOK, status, body)
		require.Equal(t, hidden+"\n", body)
	}
	status, _ := k.ask(engine.OwnerAnalyst, "SELECT query FROM system.processes")
	require.Equal(t, http.StatusOK, status)
	for _, statement := range []string{
		"INSERT INTO secrets.people VALUES ('a', 'b')", "DROP TABLE secrets.people",
		"SELECT * FROM file('/etc/passwd')",
	} {
		status, _ := k.ask(engine.OwnerAnalyst, statement)
		require.NotEqual(t, http.StatusOK, status, statement)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+k.e.Addr()+"/",
		strings.NewReader("SELECT 1"))
	require.NoError(t, err)
	req.SetBasicAuth(engine.OwnerAnalyst, "")
	status, _ = k.send(req)
	require.Equal(t, http.StatusForbidden, status)
}
