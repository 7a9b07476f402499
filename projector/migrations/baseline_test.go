package migrations_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	chplatform "muster/platform/clickhouse"
	"muster/platform/engine/enginetest"
	"muster/projector/internal/projectortest"
	"muster/projector/migrations"
	"muster/schemas/readmodel"
)

// The baseline creates the same database as the migrations that it replaces. With -update it is rewritten
// from all migrations.
func TestBaseline(t *testing.T) {
	migrations, err := migrations.All(readmodel.Layout{})
	require.NoError(t, err)
	history := openAt(t, enginetest.DSN(t))
	applied, err := chplatform.Migrate(t.Context(), history, withoutBaseline(migrations), chplatform.MigrateConfig{})
	require.NoError(t, err)
	if flag.Lookup("update").Value.String() == "true" {
		writeBaseline(t, history, migrations)
		return // The next run embeds and compares it.
	}
	var baseline []string
	for _, m := range migrations {
		baseline = append(baseline, m.Baseline...)
	}
	require.NotEmpty(t, baseline)
	want := madeTables(t, history)

	at := openAt(t, enginetest.DSN(t))
	byBaseline, err := chplatform.Migrate(t.Context(), at, migrations, chplatform.MigrateConfig{})
	require.NoError(t, err)
	require.Equal(t, applied, byBaseline)
	require.Equal(t, want, madeTables(t, at))
	record, err := chplatform.AppliedMigrations(t.Context(), at)
	require.NoError(t, err)
	for i, m := range migrations {
		require.Equal(t, m.Checksum, record[i].Checksum, m.String())
	}

	// Interrupted between tables, or before it was recorded.
	for _, statements := range []int{len(baseline) / 2, len(baseline)} {
		some := openAt(t, enginetest.DSN(t))
		for _, s := range baseline[:statements] {
			require.NoError(t, some.Exec(t.Context(), s))
		}
		_, err := chplatform.Migrate(t.Context(), some, migrations, chplatform.MigrateConfig{})
		require.NoError(t, err)
		require.Equal(t, want, madeTables(t, some), "interrupted after %d statements", statements)
	}
}

func TestBaselineOfACluster(t *testing.T) {
	_, nodes := projectortest.OpenCluster(t)
	layout := readmodel.Layout{Cluster: "muster"}
	migrations, err := migrations.All(layout)
	require.NoError(t, err)
	byBaseline := make([]map[string]string, len(nodes))
	for i, node := range nodes {
		byBaseline[i] = madeTables(t, node)
		for _, statement := range []string{"DROP DATABASE muster SYNC", "CREATE DATABASE muster"} {
			require.NoError(t, node.Exec(t.Context(), statement))
		}
	}
	_, err = chplatform.Migrate(
		t.Context(),
		projectortest.OnCluster{Conn: nodes[0], Nodes: nodes},
		withoutBaseline(migrations),
		chplatform.MigrateConfig{OnCluster: "muster"},
	)
	require.NoError(t, err)
	for i, node := range nodes {
		require.Equal(t, madeTables(t, node), byBaseline[i])
	}
}

func withoutBaseline(migrations []chplatform.Migration) []chplatform.Migration {
	out := slices.Clone(migrations)
	for i := range out {
		out[i].Baseline = nil
	}
	return out
}

func openAt(t *testing.T, dsn string) driver.Conn {
	t.Helper()
	conn, err := chplatform.Open(t.Context(), chplatform.Config{DSN: dsn})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// madeTables returns the CREATE queries of the database's tables and views, by name.
func madeTables(t *testing.T, conn driver.Conn) map[string]string {
	t.Helper()
	out := make(map[string]string)
	rows, err := conn.Query(t.Context(), "SELECT name, formatQuery(replaceAll(create_table_query, currentDatabase() "+
		"|| '.', '')) FROM system.tables WHERE database = currentDatabase() AND name NOT LIKE 'muster_migrations%'")
	require.NoError(t, err)
	for rows.Next() {
		var name, create string
		require.NoError(t, rows.Scan(&name, &create))
		out[name] = create
	}
	require.NoError(t, rows.Err())
	require.NoError(t, rows.Close())
	require.NotEmpty(t, out)
	return out
}

// writeBaseline converts the schema of a single node to the template for all layouts.
func writeBaseline(t *testing.T, conn driver.Conn, migrations []chplatform.Migration) {
	t.Helper()
	const dir = "../../schemas/readmodel/"
	shardKeys := make(map[string]string)
	sources, err := filepath.Glob(dir + "migrations/*.sql")
	require.NoError(t, err)
	for _, source := range sources {
		text, err := os.ReadFile(source)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(`\{\{\.Distributed "(\w+)" "(\w+)"\}\}`).FindAllStringSubmatch(string(text), -1) {
			shardKeys[found[1]] = found[2]
		}
	}
	made := madeTables(t, conn)
	var b strings.Builder
	b.WriteString(
		"-- owner: projector\n-- Written by TestBaseline: go test -run '^TestBaseline$' ./projector/migrations -update\n",
	)
	create := regexp.MustCompile(`^CREATE (TABLE|VIEW) IF NOT EXISTS (\w+)`)
	engine := regexp.MustCompile(`(?m)^ENGINE = ReplacingMergeTree\((\w+)\)$`)
	for _, m := range migrations {
		for _, statement := range m.Statements {
			found := create.FindStringSubmatch(statement)
			if found == nil {
				continue
			}
			kind, name := found[1], found[2]
			text := made[name]
			require.NotEmpty(t, text, name)
			require.NotContains(t, text, "{{")
			local := name
			if kind == "TABLE" {
				local = `{{.Local "` + name + `"}}`
				require.Regexp(t, engine, text)
				require.Contains(t, text, readmodel.Layout{}.Deduplication())
				require.NotEmpty(t, shardKeys[name], name)
			}
			text = strings.Replace(text, "CREATE "+kind+" "+name, "CREATE "+kind+" IF NOT EXISTS "+local+
				"{{.OnCluster}}", 1)
			text = engine.ReplaceAllString(text, fmt.Sprintf(`ENGINE = {{.ReplacingMergeTree "%s" "$1"}}`, name))
			text = strings.Replace(text, readmodel.Layout{}.Deduplication(), "{{.Deduplication}}", 1)
			b.WriteString(text + ";\n")
			if kind == "TABLE" {
				fmt.Fprintf(&b, "{{.Distributed %q %q}}\n", name, shardKeys[name])
			}
		}
	}
	old, err := filepath.Glob(dir + "migrations/baseline/*.sql")
	require.NoError(t, err)
	for _, file := range old {
		require.NoError(t, os.Remove(file))
	}
	file := fmt.Sprintf(dir+"migrations/baseline/%04d_create_all.sql", len(migrations))
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
}
