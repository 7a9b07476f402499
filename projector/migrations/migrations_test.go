package migrations_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	chplatform "muster/platform/clickhouse"
	"muster/projector/internal/projectortest"
	"muster/projector/migrations"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

func golden(t *testing.T, path, got string) {
	t.Helper()
	if flag.Lookup("update").Value.String() == "true" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run with -update")
	require.Equal(t, string(want), got)
}

func TestMigrations_EqualGoldenFiles(t *testing.T) {
	for name, layout := range map[string]readmodel.Layout{"single": {}, "cluster": {Cluster: "muster"}} {
		t.Run(name, func(t *testing.T) {
			migrations, err := migrations.All(layout)
			require.NoError(t, err)
			var b strings.Builder
			for _, m := range migrations {
				require.Equal(t, "projector", m.Owner)
				b.WriteString("## " + m.String() + "\n" + strings.Join(m.Statements, "\n;\n") + "\n\n")
			}
			golden(t, "testdata/migrations_"+name+".golden", b.String())
		})
	}
}

func TestMigrate_IsIdempotent(t *testing.T) {
	s := projectortest.OpenStore(t)
	applied, err := migrations.Apply(t.Context(), s.Conn, readmodel.Layout{}, chplatform.MigrateConfig{})
	require.NoError(t, err)
	require.Empty(t, applied)
	require.Zero(t, s.Count("SELECT count() FROM system.columns WHERE database = currentDatabase() AND table = '"+
		readmodel.UsageMonthly+"' AND comment = ''"))
	for _, table := range append(readmodel.Tables(), readmodel.UsageTable, readmodel.DiscoveryTable,
		readmodel.DiscoveredTable, readmodel.ContextTable) {
		require.Zero(t, s.Count("SELECT count() FROM system.columns WHERE database = currentDatabase() AND table = '"+
			table+"' AND comment = ''"), table)
		require.EqualValues(t, 3, s.Count("SELECT count() FROM system.columns WHERE database = currentDatabase() AND "+
			"table = '"+table+"' AND name IN ('topic', 'partition', 'offset')"), table)
	}
}

// Acknowledged inserts and merges are on disk, as committed offsets follow them; a power failure must not
// lose them.
func TestTables_SyncInsertsToDisk(t *testing.T) {
	s := projectortest.OpenStore(t)
	own := "FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree' AND name NOT LIKE " +
		"'muster_%'"
	require.NotZero(t, s.Count("SELECT count() "+own))
	for _, setting := range []string{"fsync_after_insert", "fsync_part_directory", "min_rows_to_fsync_after_merge"} {
		var without []string
		require.NoError(t, s.Conn.QueryRow(t.Context(), "SELECT groupArray(name) "+own+" AND position(engine_full, '"+
			setting+" = 1') = 0").Scan(&without))
		require.Empty(t, without, setting)
	}

	syncs := func(do func()) uint64 {
		const sum = "SELECT sum(value) FROM system.events WHERE event = 'FileSync'"
		before := s.Count(sum)
		do()
		return s.Count(sum) - before
	}
	exec := func(statement string) { require.NoError(t, s.Conn.Exec(t.Context(), statement)) }
	exec("SYSTEM STOP MERGES codehost_people")
	const files = 10 // of a compact part
	for i := range 2 {
		require.GreaterOrEqual(t, syncs(func() {
			s.Insert(fmt.Sprint(i), projectortest.Decode(t, record.KindCodehostPerson,
				fmt.Sprintf(`{"user_id":%d,"codehost_username":"ada","last_updated":"2026"}`, i)))
		}), uint64(2*files), "an insert into codehost_people and lookups")
	}
	exec("SYSTEM START MERGES codehost_people")
	require.GreaterOrEqual(t, syncs(func() { exec("OPTIMIZE TABLE codehost_people FINAL") }), uint64(files), "a merge")
	exec("DELETE FROM codehost_people WHERE user_id = 0")
	require.GreaterOrEqual(t, syncs(func() {
		exec("ALTER TABLE codehost_people APPLY DELETED MASK SETTINGS " +
			"mutations_sync = 2")
	}), uint64(files), "an erasure's rewriting")
}
