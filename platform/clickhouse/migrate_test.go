package clickhouse_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"muster/platform/clickhouse"
	"muster/platform/engine/enginetest"
)

type params struct{ Engine string }

func files(contents ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for i, c := range contents {
		out[fmt.Sprintf("%04d_create_t%d.sql", i+1, i+1)] = &fstest.MapFile{Data: []byte("-- owner: projector\n" + c)}
	}
	return out
}

func load(t *testing.T, contents ...string) []clickhouse.Migration {
	t.Helper()
	m, err := clickhouse.LoadMigrations(files(contents...), params{Engine: "MergeTree"})
	require.NoError(t, err)
	return m
}

const (
	createT1 = "CREATE TABLE IF NOT EXISTS t1 (n UInt64) ENGINE = {{.Engine}} ORDER BY n;\n"
	createT2 = "CREATE TABLE IF NOT EXISTS t2 (n UInt64) ENGINE = {{.Engine}} ORDER BY n;\n" +
		"ALTER TABLE t1 ADD COLUMN IF NOT EXISTS s String;\n"
	createT3 = "CREATE TABLE IF NOT EXISTS t3 (n UInt64) ENGINE = {{.Engine}} ORDER BY n;\n"
)

func TestLoadMigrations_SplitsAndChecksumsStatements(t *testing.T) {
	got := load(t, createT1,
		"-- a comment;\nCREATE TABLE IF NOT EXISTS a (\n  s String -- a remark; not an end\n)\nENGINE = Memory;\n\n"+
			"DROP VIEW IF EXISTS v;",
		"-- +statement\nINSERT INTO a SELECT 'x;\ny';\n-- +statement\nINSERT INTO a SELECT 'z'\n")
	require.Len(t, got, 3)
	require.Equal(t, "0001_create_t1", got[0].String())
	require.Equal(t, "projector", got[0].Owner)
	require.Equal(t, []string{"CREATE TABLE IF NOT EXISTS t1 (n UInt64) ENGINE = MergeTree ORDER BY n"},
		got[0].Statements)
	require.Equal(t, []string{
		"CREATE TABLE IF NOT EXISTS a (\n  s String -- a remark; not an end\n)\nENGINE = Memory",
		"DROP VIEW IF EXISTS v",
	}, got[1].Statements)
	require.Equal(t, []string{"INSERT INTO a SELECT 'x;\ny'", "INSERT INTO a SELECT 'z'"}, got[2].Statements)

	other, err := clickhouse.LoadMigrations(files(createT1), params{Engine: "ReplicatedMergeTree"})
	require.NoError(t, err)
	require.NotEqual(t, got[0].Checksum, other[0].Checksum, "it covers the rendered statements")
	require.Equal(t, got[0].Checksum, load(t, "-- another comment\n\n"+createT1)[0].Checksum,
		"it does not cover comments")
}

func TestLoadMigrations_RejectsInvalidAndAcceptsRepeatableStatements(t *testing.T) {
	for name, tc := range map[string]struct {
		files fstest.MapFS
		want  string
	}{
		"no files": {fstest.MapFS{}, "no *.sql files"},
		"bad name": {fstest.MapFS{"1_create_t.sql": {}}, "name must be NNNN_verb_object.sql"},
		"no owner": {
			fstest.MapFS{"0001_create_t.sql": {Data: []byte("SELECT 1;")}}, `missing line "-- owner: NAME"`,
		},
		"gap": {
			fstest.MapFS{"0002_create_t.sql": {Data: []byte("-- owner: x\nSELECT 1;")}},
			"found 0002_create_t, want number 0001",
		},
		"empty":             {files("-- nothing\n"), "no statements"},
		"template":          {files("{{.Missing}};"), "Missing"},
		"broken template":   {files("{{"), "0001_create_t1"},
		"create":            {files("CREATE TABLE t (n UInt8) ENGINE = Memory;"), "needs IF NOT EXISTS or OR REPLACE"},
		"materialized view": {files("CREATE MATERIALIZED VIEW v TO t AS SELECT 1;"), "needs IF NOT EXISTS"},
		"drop":              {files("DROP TABLE t;"), "needs IF EXISTS"},
		"rename":            {files("RENAME TABLE a TO b;"), "cannot be repeated"},
		"exchange":          {files("exchange tables a and b;"), "cannot be repeated"},
		"add column":        {files("ALTER TABLE t ADD COLUMN a UInt8;"), "ADD COLUMN needs"},
		"second action": {
			files("ALTER TABLE t ADD COLUMN IF NOT EXISTS a UInt8, DROP INDEX i;"), "DROP INDEX needs",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := clickhouse.LoadMigrations(tc.files, params{})
			require.ErrorContains(t, err, tc.want)
		})
	}
	for name, sql := range map[string]string{
		"or replace": "CREATE OR REPLACE VIEW v AS SELECT 1;",
		"mv":         "CREATE MATERIALIZED VIEW IF NOT EXISTS v TO t AS SELECT 1;",
		"cluster":    "CREATE TABLE IF NOT EXISTS t ON CLUSTER c (n UInt8) ENGINE = Memory;",
		"modify":     "ALTER TABLE t MODIFY SETTING index_granularity = 64;",
		"comment":    "ALTER TABLE t COMMENT COLUMN IF EXISTS a 'drop it';",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := clickhouse.LoadMigrations(files(sql), params{})
			require.NoError(t, err)
		})
	}
}

func TestMigrate_AppliesOnceAndRejectsChangedRecord(t *testing.T) {
	conn := open(t)
	ctx := t.Context()
	two := load(t, createT1, createT2)
	three := load(t, createT1, createT2, createT3)

	pending, err := clickhouse.PendingMigrations(ctx, conn, two)
	require.NoError(t, err)
	require.Equal(t, two, pending)
	tables := scan[uint64](t, conn, "SELECT count() FROM system.tables WHERE database = currentDatabase()")
	require.Zero(t, tables, "PendingMigrations changes nothing")

	applied, err := clickhouse.Migrate(ctx, conn, two, clickhouse.MigrateConfig{})
	require.NoError(t, err)
	require.Equal(t, []string{"0001_create_t1", "0002_create_t2"}, applied)
	exec(t, conn, "INSERT INTO t1 (n, s) VALUES (1, 'a')")

	applied, err = clickhouse.Migrate(ctx, conn, two, clickhouse.MigrateConfig{})
	require.NoError(t, err)
	require.Empty(t, applied)

	pending, err = clickhouse.PendingMigrations(ctx, conn, three)
	require.NoError(t, err)
	require.Equal(t, three[2:], pending)

	applied, err = clickhouse.Migrate(ctx, conn, three, clickhouse.MigrateConfig{})
	require.NoError(t, err)
	require.Equal(t, []string{"0003_create_t3"}, applied)
	record, err := clickhouse.AppliedMigrations(ctx, conn)
	require.NoError(t, err)
	require.Equal(t, "projector", record[2].Owner)
	require.WithinDuration(t, time.Now(), record[2].AppliedAt, time.Minute)
	require.Equal(t, three[2].Checksum, record[2].Checksum)

	// The program is older than the database.
	_, err = clickhouse.Migrate(ctx, conn, two, clickhouse.MigrateConfig{})
	require.ErrorContains(t, err, "the database has 0003_create_t3 (owner projector), which is unknown to this program")
	// An applied migration was changed.
	changed := load(t, createT1, strings.Replace(createT2, "s String", "s UInt8", 1), createT3)
	_, err = clickhouse.Migrate(ctx, conn, changed, clickhouse.MigrateConfig{})
	require.ErrorContains(t, err, "0002_create_t2 (owner projector) was applied on ")
	require.ErrorContains(t, err, "add a new migration with the next number")
	// The record has a gap.
	exec(t, conn, "ALTER TABLE muster_migrations DELETE WHERE number = 2 SETTINGS mutations_sync = 2")
	_, err = clickhouse.Migrate(ctx, conn, three, clickhouse.MigrateConfig{})
	require.ErrorContains(t, err, "record has 0003_create_t3 but not number 0002")
	_, err = clickhouse.PendingMigrations(ctx, conn, three)
	require.Error(t, err)
}

func TestMigrate_SyncsItsRecord(t *testing.T) {
	conn := open(t)
	settings := func() []bool {
		create := scan[string](t, conn, "SELECT create_table_query FROM system.tables "+
			"WHERE database = currentDatabase() AND name = 'muster_migrations'")
		return []bool{
			strings.Contains(create, "fsync_after_insert = 1"), strings.Contains(create, "fsync_part_directory = 1"),
		}
	}
	_, err := clickhouse.Migrate(t.Context(), conn, load(t, createT1), clickhouse.MigrateConfig{})
	require.NoError(t, err)
	require.Equal(t, []bool{true, true}, settings())
}

func TestMigrate_LogsProgressOfLongStatements(t *testing.T) {
	var log bytes.Buffer
	_, err := clickhouse.Migrate(t.Context(), open(t), load(t, createT1, createT3+"SELECT sleep(1);\n"),
		clickhouse.MigrateConfig{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}.WithReportInterval(100*time.Millisecond))
	require.NoError(t, err)
	require.Contains(t, log.String(), "msg=migrating migration=0002_create_t2 statement=2 of=2")
}

func TestMigrate_ResumesAfterAFailure(t *testing.T) {
	conn := open(t)
	broken := load(t, createT1, createT3+"SELECT throwIf(1);\n")
	applied, err := clickhouse.Migrate(t.Context(), conn, broken, clickhouse.MigrateConfig{})
	require.ErrorContains(t, err, "migration 0002_create_t2, statement 2 of 2")
	require.Equal(t, []string{"0001_create_t1"}, applied)
	// Once fixed, it runs again from its first statement, without waiting for the failed run's lock.
	start := time.Now()
	applied, err = clickhouse.Migrate(t.Context(), conn, load(t, createT1, createT3), clickhouse.MigrateConfig{})
	require.NoError(t, err)
	require.Equal(t, []string{"0002_create_t2"}, applied)
	require.Less(t, time.Since(start), 25*time.Second) // the lock would expire after 30 s
}

func TestMigrate_RunsEachStatementOnceWithConcurrentProcesses(t *testing.T) {
	dsn := enginetest.DSN(t)
	setup := openDSN(t, dsn)
	exec(t, setup, "CREATE TABLE runs (m UInt8) ENGINE = MergeTree ORDER BY m")
	migrations := load(t,
		"INSERT INTO runs VALUES (1);\n", "INSERT INTO runs SELECT 2 + sleep(0.3);\n", "INSERT INTO runs VALUES (3);\n")
	const processes = 4
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for range processes {
		conn := openDSN(t, dsn)
		wg.Go(func() {
			applied, err := clickhouse.Migrate(t.Context(), conn, migrations, clickhouse.MigrateConfig{})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			total += len(applied)
		})
	}
	wg.Wait()
	require.Equal(t, 3, total)
	runs := scan[[]uint8](t, setup, "SELECT groupArray(m) FROM (SELECT m FROM runs ORDER BY m)")
	require.Equal(t, []uint8{1, 2, 3}, runs)
	held := scan[uint64](t, setup, "SELECT countIf(NOT released) FROM muster_migrations_lock FINAL")
	require.Zero(t, held, "all processes have released the lock")
}

func TestMigrate_WaitsForALiveHolder(t *testing.T) {
	conn := open(t)
	_, err := clickhouse.Migrate(t.Context(), conn, load(t, createT1), clickhouse.MigrateConfig{})
	require.NoError(t, err)
	exec(t, conn, "INSERT INTO muster_migrations_lock VALUES ('other', now64(3), false)")
	two := load(t, createT1, createT2)
	_, err = clickhouse.Migrate(t.Context(), conn, two, clickhouse.MigrateConfig{WaitForOther: time.Millisecond})
	require.ErrorIs(t, err, clickhouse.ErrLocked)
	require.ErrorContains(t, err, "token other")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = clickhouse.Migrate(ctx, conn, two, clickhouse.MigrateConfig{})
	require.ErrorIs(t, err, context.Canceled)

	// A holder whose last renewal is too old is dead.
	exec(t, conn, "INSERT INTO muster_migrations_lock VALUES ('dead', now64(3) - INTERVAL 31 SECOND, false)",
		"INSERT INTO muster_migrations_lock VALUES ('other', now64(3) + INTERVAL 1 SECOND, true)")
	applied, err := clickhouse.Migrate(t.Context(), conn, two, clickhouse.MigrateConfig{})
	require.NoError(t, err)
	require.Equal(t, []string{"0002_create_t2"}, applied)
}

func TestMigrate_RenewsTheLockDuringLongWork(t *testing.T) {
	dsn := enginetest.DSN(t)
	first, second := openDSN(t, dsn), openDSN(t, dsn)
	exec(t, first, "CREATE TABLE runs (m UInt8) ENGINE = MergeTree ORDER BY m")
	migrations := load(t,
		"INSERT INTO runs SELECT 1 + sum(sleepEachRow(0.5)) FROM numbers(16) SETTINGS max_block_size = 1;\n")
	// The expiry is longer than a busy machine delays a process.
	cfg := clickhouse.MigrateConfig{}.WithLockTiming(5*time.Second, 250*time.Millisecond, 50*time.Millisecond)
	var wg sync.WaitGroup
	for _, conn := range []driver.Conn{first, second} {
		wg.Go(func() {
			_, err := clickhouse.Migrate(t.Context(), conn, migrations, cfg)
			// A release has only 250 ms; if it fails, the other process waits a little longer.
			late := errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, clickhouse.ErrLockLost)
			if err != nil && !late {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, scan[uint64](t, first, "SELECT count() FROM runs"))
}

func TestMigrate_StopsWhenTheLockIsLost(t *testing.T) {
	var cut atomic.Bool
	dsn := proxied(t, func(r *http.Request) int {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return http.StatusBadRequest
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch {
		case bytes.Contains(body, []byte("sleepEachRow")):
			cut.Store(true)
		case cut.Load() && bytes.Contains(body, []byte("INSERT INTO muster_migrations_lock")):
			return http.StatusServiceUnavailable
		}
		return 0
	})
	conn := openDSN(t, dsn)
	migrations := load(t, "SELECT sum(sleepEachRow(0.5)) FROM numbers(100) SETTINGS max_block_size = 1;\n", createT1)
	start := time.Now()
	applied, err := clickhouse.Migrate(t.Context(), conn, migrations,
		clickhouse.MigrateConfig{}.WithLockTiming(time.Second, 100*time.Millisecond, 20*time.Millisecond))
	require.ErrorIs(t, err, clickhouse.ErrLockLost)
	require.Empty(t, applied)
	require.Less(t, time.Since(start), 40*time.Second, "it does not wait for the statement")
}

// loadWith is load plus a baseline.
func loadWith(t *testing.T, baseline, content string, contents ...string) []clickhouse.Migration {
	t.Helper()
	all := files(contents...)
	all["baseline/"+baseline] = &fstest.MapFile{Data: []byte("-- owner: projector\n" + content)}
	m, err := clickhouse.LoadMigrations(all, params{Engine: "MergeTree"})
	require.NoError(t, err)
	return m
}

func TestMigrate_AppliesTheBaselineToANewDatabaseOnly(t *testing.T) {
	const made = "CREATE TABLE IF NOT EXISTS t1 (n UInt64, s String) ENGINE = {{.Engine}} ORDER BY n;\n" +
		"CREATE TABLE IF NOT EXISTS t2 (n UInt64) ENGINE = {{.Engine}} ORDER BY n;\n"
	three := loadWith(t, "0002_create_both.sql",
		made+"CREATE VIEW IF NOT EXISTS only_here AS SELECT 1;\n", createT1, createT2, createT3)
	cfg := clickhouse.MigrateConfig{}
	tables := func(conn driver.Conn) []string {
		return scan[[]string](t, conn, "SELECT arraySort(groupArray(name)) FROM system.tables "+
			"WHERE database = currentDatabase() AND name NOT LIKE 'muster%'")
	}
	conn := open(t)
	pending, err := clickhouse.PendingMigrations(t.Context(), conn, three)
	require.NoError(t, err)
	applied, err := clickhouse.Migrate(t.Context(), conn, three, cfg)
	require.NoError(t, err)
	require.Equal(t, []string{"0001_create_t1", "0002_create_t2", "0003_create_t3"}, applied)
	require.Len(t, pending, len(applied))
	require.Equal(t, []string{"only_here", "t1", "t2", "t3"}, tables(conn))
	applied, err = clickhouse.Migrate(t.Context(), conn, load(t, createT1, createT2, createT3), cfg)
	require.NoError(t, err, "the record is the same as without the baseline")
	require.Empty(t, applied)

	partial := open(t)
	exec(t, partial, "CREATE TABLE t1 (n UInt64, s String) ENGINE = MergeTree ORDER BY n")
	applied, err = clickhouse.Migrate(t.Context(), partial, three, cfg)
	require.NoError(t, err)
	require.Len(t, applied, 3)
	require.Equal(t, []string{"t1", "t2", "t3"}, tables(partial), "existing tables are not part of a new database")

	older := open(t)
	_, err = clickhouse.Migrate(t.Context(), older, three[:1], clickhouse.MigrateConfig{})
	require.NoError(t, err)
	applied, err = clickhouse.Migrate(t.Context(), older, three, cfg)
	require.NoError(t, err)
	require.Equal(t, []string{"0002_create_t2", "0003_create_t3"}, applied)
	require.Equal(t, []string{"t1", "t2", "t3"}, tables(older))

	wrong := loadWith(t, "0001_create_wrong.sql",
		"CREATE TABLE IF NOT EXISTS t1 (n Nonsense) ENGINE = Memory;\n", createT1, createT2)
	applied, err = clickhouse.Migrate(t.Context(), open(t), wrong, cfg)
	require.ErrorContains(t, err, "baseline: migration 0001_create_t1, statement 1 of 1")
	require.Empty(t, applied)
}

func TestLoadMigrations_RejectsAnInvalidBaseline(t *testing.T) {
	for want, text := range map[string]string{
		"creates no table or view":      "-- owner: projector\nALTER TABLE t ADD COLUMN IF NOT EXISTS s String;\n",
		`missing line "-- owner: NAME"`: "CREATE TABLE IF NOT EXISTS t (n UInt8) ENGINE = Memory;\n",
		"IF NOT EXISTS or OR REPLACE":   "-- owner: projector\nCREATE TABLE t (n UInt8) ENGINE = Memory;\n",
	} {
		all := files(createT1)
		all["baseline/0001_create_all.sql"] = &fstest.MapFile{Data: []byte(text)}
		_, err := clickhouse.LoadMigrations(all, params{Engine: "MergeTree"})
		require.ErrorContains(t, err, want)
	}
	good := &fstest.MapFile{
		Data: []byte("-- owner: projector\nCREATE TABLE IF NOT EXISTS t (n UInt8) ENGINE = Memory;\n"),
	}
	for want, names := range map[string][]string{
		"2 files, want one":                    {"0001_create_all.sql", "0001_create_more.sql"},
		"name must be NNNN":                    {"create_all.sql"},
		"there is no migration of that number": {"0002_create_all.sql"},
	} {
		all := files(createT1)
		for _, name := range names {
			all["baseline/"+name] = good
		}
		_, err := clickhouse.LoadMigrations(all, params{Engine: "MergeTree"})
		require.ErrorContains(t, err, want)
	}
}
