package projector_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	chplatform "muster/platform/clickhouse"
	"muster/platform/engine/enginetest"
	"muster/projector"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write golden files")
	os.Exit(enginetest.Main(m))
}

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

// store is a migrated database.
type store struct {
	tb   testing.TB
	conn driver.Conn
}

func openStore(tb testing.TB) *store {
	tb.Helper()
	conn, err := chplatform.Open(tb.Context(), chplatform.Config{DSN: enginetest.Tables(tb, migrate)})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, conn.Close()) })
	return &store{tb: tb, conn: conn}
}

func migrate(ctx context.Context, dsn string) error {
	conn, err := chplatform.Open(ctx, chplatform.Config{DSN: dsn})
	if err != nil {
		return err
	}
	_, err = projector.Migrate(ctx, conn, readmodel.Layout{}, chplatform.MigrateConfig{})
	return errors.Join(err, conn.Close())
}

func decode(tb testing.TB, kind record.Kind, raw string) *record.Record {
	tb.Helper()
	rec, err := record.Decode(kind, []byte(raw))
	require.NoError(tb, err, raw)
	return rec
}

// insert writes records as one batch and builds the answers of their accounts, without a projector.
func (s *store) insert(token string, recs ...*record.Record) {
	s.tb.Helper()
	r, b := readmodel.NewRenderer(identity.Default()), &readmodel.Batch{}
	for i, rec := range recs {
		require.NoError(s.tb, r.Rows(b, rec, readmodel.Position{Topic: rec.Kind.Topic(), Offset: int64(i)}))
	}
	require.NoError(s.tb, readmodel.Insert(s.tb.Context(), s.conn, token, b))
	touched := map[int64]int64{}
	b.TouchedAccounts(touched)
	var touches []readmodel.Touch
	for id := range touched {
		touches = append(touches, readmodel.Touch{UserID: id, Offset: time.Now().UnixNano()})
	}
	require.NoError(s.tb, readmodel.BuildAnswers(s.tb.Context(), s.conn, readmodel.Builds{}, touches))
}

func query[R any, K int64 | uint64](s *store, sql string, dest func(*R) []any, keys ...K) []R {
	s.tb.Helper()
	ctx := clickhouse.Context(s.tb.Context(),
		clickhouse.WithParameters(clickhouse.Parameters{readmodel.ParameterKeys: readmodel.FormatKeys(keys)}))
	rows, err := s.conn.Query(ctx, sql)
	require.NoError(s.tb, err)
	var out []R
	for rows.Next() {
		var r R
		require.NoError(s.tb, rows.Scan(dest(&r)...))
		out = append(out, r)
	}
	require.NoError(s.tb, rows.Err())
	require.NoError(s.tb, rows.Close())
	return out
}

// fresh keeps the newest rows, as readers do.
func fresh[R any](rows []R, freshen func([]*R) []*R) []R {
	all := make([]*R, len(rows))
	for i := range rows {
		all[i] = &rows[i]
	}
	var out []R
	for _, r := range freshen(all) {
		out = append(out, *r)
	}
	return out
}

func (s *store) lookup(t readmodel.LookupType, value string) []readmodel.LookupRow {
	rows := s.lookups(readmodel.KeyHash(t, value))[readmodel.KeyHash(t, value)]
	return slices.DeleteFunc(rows, func(r readmodel.LookupRow) bool { return r.Type != string(t) || r.Value != value })
}

func (s *store) lookups(keys ...uint64) map[uint64][]readmodel.LookupRow {
	found, err := readmodel.ReadLookups(func(query string, scan func(driver.Rows) error) error {
		ctx := clickhouse.Context(s.tb.Context(),
			clickhouse.WithParameters(clickhouse.Parameters{readmodel.ParameterKeys: readmodel.FormatKeys(keys)}))
		return chplatform.ReadRows(ctx, s.conn, query, scan)
	})
	require.NoError(s.tb, err)
	return found
}

func (s *store) networkPeople(ids ...string) []readmodel.NetworkPersonRow {
	keys := make([]uint64, len(ids))
	for i, id := range ids {
		keys[i] = readmodel.ProfileHash(id)
	}
	rows := fresh(query(s, readmodel.NetworkPeopleQuery(), (*readmodel.NetworkPersonRow).ScanDest, keys...),
		readmodel.NewestNetworkPeople)
	seen := query(s, readmodel.VersionBumpsQuery(), (*readmodel.VersionBumpRow).ScanDest, keys...)
	for i, r := range rows {
		if !r.Deleted {
			rows[i].Version = readmodel.NewestVersion(record.KindNetworkPerson, r.ProfileID, r.Version, r.ContentHash, seen)
		}
	}
	return rows
}

// answers returns the answers of accounts, in no order.
func (s *store) answers(ids ...int64) []readmodel.AnswerRow {
	newest := map[int64]readmodel.AnswerRow{}
	for _, r := range query(s, readmodel.AnswersQuery(), (*readmodel.AnswerRow).ScanDest, ids...) {
		if other, have := newest[r.UserID]; !have || r.Newer(&other) {
			newest[r.UserID] = r
		}
	}
	seen := query(s, readmodel.VersionBumpsQuery(), (*readmodel.VersionBumpRow).ScanDest, ids...)
	var out []readmodel.AnswerRow
	for _, r := range newest {
		r.Version = readmodel.NewestVersion(record.KindCodehostPerson, strconv.FormatInt(r.UserID, 10), r.Version,
			r.ContentHash, seen)
		out = append(out, r)
	}
	return out
}

// entries returns the fields of the entries of an account's list, without braces.
func (s *store) entries(list string, shape readmodel.Shape, row readmodel.AnswerRow) []string {
	s.tb.Helper()
	var lists map[string]jsontext.Value
	require.NoError(s.tb, json.Unmarshal(append(row.AppendEntries([]byte{'{'}, shape), '}'), &lists))
	if lists[list] == nil {
		return nil
	}
	var entries []jsontext.Value
	require.NoError(s.tb, json.Unmarshal(lists[list], &entries))
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = strings.Trim(string(e), "{}")
	}
	return out
}

// account is the account of an answer as an object.
func account(row readmodel.AnswerRow, shape readmodel.Shape) string {
	return string(append(row.AppendAccount([]byte{'{'}, shape), '}'))
}

func (s *store) count(sql string) uint64 {
	s.tb.Helper()
	var n uint64
	require.NoError(s.tb, s.conn.QueryRow(s.tb.Context(), sql).Scan(&n), sql)
	return n
}

// eventually polls until check is satisfied.
func eventually(tb testing.TB, check func(ctx context.Context) bool, what string) {
	tb.Helper()
	require.Eventually(tb, func() bool { return check(tb.Context()) }, 2*time.Minute, 20*time.Millisecond, what)
}

func TestMigrationsGolden(t *testing.T) {
	for name, layout := range map[string]readmodel.Layout{"single": {}, "cluster": {Cluster: "muster"}} {
		t.Run(name, func(t *testing.T) {
			migrations, err := projector.Migrations(layout)
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
	s := openStore(t)
	applied, err := projector.Migrate(t.Context(), s.conn, readmodel.Layout{}, chplatform.MigrateConfig{})
	require.NoError(t, err)
	require.Empty(t, applied)
	require.Zero(t, s.count("SELECT count() FROM system.columns WHERE database = currentDatabase() AND table = '"+
		readmodel.UsageMonthly+"' AND comment = ''"))
	for _, table := range append(readmodel.Tables(), readmodel.UsageTable, readmodel.DiscoveryTable,
		readmodel.DiscoveredTable, readmodel.ContextTable) {
		require.Zero(t, s.count("SELECT count() FROM system.columns WHERE database = currentDatabase() AND table = '"+
			table+"' AND comment = ''"), table)
		require.EqualValues(t, 3, s.count("SELECT count() FROM system.columns WHERE database = currentDatabase() AND "+
			"table = '"+table+"' AND name IN ('topic', 'partition', 'offset')"), table)
	}
}

// Acknowledged inserts and merges are on disk, as committed offsets follow them; a power failure must not
// lose them.
func TestTables_SyncInsertsToDisk(t *testing.T) {
	s := openStore(t)
	own := "FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree' AND name NOT LIKE " +
		"'muster_%'"
	require.NotZero(t, s.count("SELECT count() "+own))
	for _, setting := range []string{"fsync_after_insert", "fsync_part_directory", "min_rows_to_fsync_after_merge"} {
		var without []string
		require.NoError(t, s.conn.QueryRow(t.Context(), "SELECT groupArray(name) "+own+" AND position(engine_full, '"+
			setting+" = 1') = 0").Scan(&without))
		require.Empty(t, without, setting)
	}

	syncs := func(do func()) uint64 {
		const sum = "SELECT sum(value) FROM system.events WHERE event = 'FileSync'"
		before := s.count(sum)
		do()
		return s.count(sum) - before
	}
	exec := func(statement string) { require.NoError(t, s.conn.Exec(t.Context(), statement)) }
	exec("SYSTEM STOP MERGES codehost_people")
	const files = 10 // of a compact part
	for i := range 2 {
		require.GreaterOrEqual(t, syncs(func() {
			s.insert(fmt.Sprint(i), decode(t, record.KindCodehostPerson,
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
