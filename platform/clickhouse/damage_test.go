package clickhouse_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ClickHouse/ch-go/proto"
	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"

	"muster/platform/clickhouse"
)

func TestDamageOf_ReportsOnlyPartsOnDisk(t *testing.T) {
	const read = "Checksum doesn't match: (while reading column a): (while reading from part " +
		"/data dir/store/35c/35c9/all_1_1_1/ in table d.t (35c9) located on disk default)"
	for name, c := range map[string]struct {
		err  error
		want clickhouse.Damage
		ok   bool
	}{
		"part": {
			&ch.Exception{Code: int32(proto.ErrChecksumDoesntMatch), Message: read},
			clickhouse.Damage{
				Table: "t", Part: "all_1_1_1", Cause: "CHECKSUM_DOESNT_MATCH", Path: "35c9/all_1_1_1",
			},
			true,
		},
		"limit while reading a part": {
			err: &ch.Exception{Code: int32(proto.ErrMemoryLimitExceeded), Message: read},
		},
		"message between client and server": {
			err: &ch.Exception{Code: int32(proto.ErrChecksumDoesntMatch), Message: "Checksum doesn't match"},
		},
		"no error": {},
	} {
		got, ok := clickhouse.DamageOf(c.err)
		require.Equal(t, c.ok, ok, name)
		require.Equal(t, c.want, got, name)
		if ok {
			require.True(t, clickhouse.IsTransient(c.err), "records are not discarded because of it")
		}
	}
}

func TestReadDamage_FindsDamageTheServerEncountered(t *testing.T) {
	conn := open(t)
	database := scan[string](t, conn, "SELECT currentDatabase()")
	for _, table := range []string{"flipped", "missing", "intact", "t__old_1"} {
		exec(t, conn, "CREATE TABLE "+table+" (a UInt64, b String) ENGINE = MergeTree ORDER BY a",
			"INSERT INTO "+table+" SELECT number, toString(cityHash64(number)) FROM numbers(2000)")
	}
	data := func(table string) string {
		t.Helper()
		part := scan[string](t, conn,
			"SELECT path FROM system.parts WHERE active AND database = currentDatabase() AND table = '"+table+"'")
		file := filepath.Join(part, "data.bin")
		require.FileExists(t, file)
		return file
	}
	found, err := clickhouse.ReadDamage(t.Context(), conn, database)
	require.NoError(t, err)
	require.Empty(t, found)

	raw, err := os.ReadFile(data("flipped"))
	require.NoError(t, err)
	for i := 50; i < len(raw); i += 100 {
		raw[i] ^= 0xff
	}
	require.NoError(t, os.WriteFile(data("flipped"), raw, 0o600))
	checked, err := clickhouse.CheckTables(t.Context(), conn, database, 1<<30)
	require.NoError(t, err)
	require.Len(t, checked, 1, "found before it is read")
	require.Equal(t, "flipped", checked[0].Table)
	checked, err = clickhouse.CheckTables(t.Context(), conn, database, 100)
	require.NoError(t, err)
	require.Empty(t, checked, "too large to check")
	_, ok := clickhouse.DamageOf(conn.Exec(t.Context(), "SELECT max(b) FROM flipped FORMAT Null"))
	require.True(t, ok)
	for _, table := range []string{"missing", "t__old_1"} {
		file := data(table)
		exec(t, conn, "DETACH TABLE "+table)
		require.NoError(t, os.Remove(file))
		exec(t, conn, "ATTACH TABLE "+table)
	}
	exec(t, conn, "SELECT max(b) FROM intact FORMAT Null")
	intact := filepath.Dir(data("intact"))
	known := clickhouse.Damage{
		Table: "intact", Part: filepath.Base(intact), Cause: "x",
		Path: filepath.Join(filepath.Base(filepath.Dir(intact)), filepath.Base(intact)),
	}
	found, err = clickhouse.ReadDamage(t.Context(), conn, database)
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.Equal(t, "flipped", found[0].Table)
	require.Equal(t, "missing", found[1].Table)
	require.Equal(t, "broken-on-start", found[1].Cause)
	require.Contains(t, found[1].String(), "table missing is damaged on disk")

	// A repair: a new table of the same name, with a part of the same name.
	for _, statement := range []string{
		"CREATE TABLE repaired AS flipped", "INSERT INTO repaired VALUES (1, 'x')",
		"EXCHANGE TABLES flipped AND repaired", "DROP TABLE repaired SYNC",
	} {
		exec(t, conn, statement)
	}
	found, err = clickhouse.ReadDamage(t.Context(), conn, database, known, found[0])
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.Equal(t, known, found[0])
	require.Equal(t, "missing", found[1].Table)
}
