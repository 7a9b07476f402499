package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/ext"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/uuid"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"muster/platform/engine/enginetest"
)

func open(tb testing.TB, configure ...func(*clickhouse.Options)) driver.Conn {
	tb.Helper()
	return openDSN(tb, enginetest.DSN(tb), configure...)
}

func openDSN(tb testing.TB, dsn string, configure ...func(*clickhouse.Options)) driver.Conn {
	tb.Helper()
	options, err := clickhouse.ParseDSN(dsn)
	require.NoError(tb, err)
	for _, c := range configure {
		c(options)
	}
	conn, err := clickhouse.Open(options)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, conn.Close()) })
	return conn
}

func TestClient_QueriesAndInserts(t *testing.T) {
	conn := open(t)
	ctx := context.Background()
	require.NoError(t, conn.Ping(ctx))
	require.NoError(t, conn.Exec(ctx,
		"CREATE TABLE t (a UInt64, b String, c LowCardinality(Nullable(String))) ENGINE = MergeTree ORDER BY a"))
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO t")
	require.NoError(t, err)
	for i := range 1000 {
		require.NoError(t, batch.Append(uint64(i), "row", nil))
	}
	require.NoError(t, batch.Send())
	var n, sum uint64
	row := conn.QueryRow(ctx, "SELECT count(), sum(a) FROM t WHERE b = {b:String}", clickhouse.Named("b", "row"))
	require.NoError(t, row.Scan(&n, &sum))
	require.Equal(t, uint64(1000), n)
	require.Equal(t, uint64(999*500), sum)
}

func TestClient_BindsParameters(t *testing.T) {
	conn := open(t)
	ctx := t.Context()
	for _, value := range []string{
		"plain", "quote ' and \\ and \t tab", "new\nline", "Ünïcode 日本語", `\'; DROP TABLE t; --`, "{a:String}", "",
	} {
		var named, positional string
		require.NoError(t, conn.QueryRow(ctx, "SELECT {v:String}", clickhouse.Named("v", value)).Scan(&named), value)
		require.Equal(t, value, named)
		require.NoError(t, conn.QueryRow(ctx, "SELECT ?", value).Scan(&positional), value)
		require.Equal(t, value, positional)
	}
	var sum uint64
	row := conn.QueryRow(ctx, "SELECT arraySum({ids:Array(UInt64)})", clickhouse.Named("ids", []uint64{1, 2, 3}))
	require.NoError(t, row.Scan(&sum))
	require.Equal(t, uint64(6), sum)
}

func TestClient_RoundTripsTypes(t *testing.T) {
	for name, method := range map[string]clickhouse.CompressionMethod{
		"none": clickhouse.CompressionNone, "lz4": clickhouse.CompressionLZ4, "zstd": clickhouse.CompressionZSTD,
		"gzip": clickhouse.CompressionGZIP, "deflate": clickhouse.CompressionDeflate,
		"br": clickhouse.CompressionBrotli,
	} {
		t.Run(name, func(t *testing.T) { typesRoundTrip(t, method) })
	}
}

type wide struct {
	A uint64               `ch:"a"`
	B big.Int              `ch:"b"`
	C string               `ch:"c"`
	D *string              `ch:"d"`
	E []string             `ch:"e"`
	F map[string]uint64    `ch:"f"`
	G time.Time            `ch:"g"`
	H string               `ch:"h"`
	I *string              `ch:"i"`
	J []*string            `ch:"j"`
	K map[string][]string  `ch:"k"`
	L uuid.UUID            `ch:"l"`
	M decimal.Decimal      `ch:"m"`
	N netip.Addr           `ch:"n"`
	O bool                 `ch:"o"`
	P float64              `ch:"p"`
	Q [][]uint64           `ch:"q"`
	R string               `ch:"r"`
	S []map[string]*uint32 `ch:"s"`
}

func typesRoundTrip(t *testing.T, method clickhouse.CompressionMethod) {
	conn := open(t, func(o *clickhouse.Options) { o.Compression = &clickhouse.Compression{Method: method, Level: 3} })
	ctx := t.Context()
	require.NoError(t, conn.Exec(ctx,
		`CREATE TABLE t (a UInt64, b UInt128, c String, d Nullable(String), e Array(String), f Map(String, UInt64),
		g DateTime64(6, 'UTC'), h LowCardinality(String), i LowCardinality(Nullable(String)),
		j Array(LowCardinality(Nullable(String))),
		k Map(LowCardinality(String), Array(String)), l UUID, m Decimal(38, 10), n IPv6, o Bool, p Float64,
		q Array(Array(UInt64)), r FixedString(4),
		s Array(Map(String, Nullable(UInt32)))) ENGINE = MergeTree ORDER BY a`))
	text := func(s string) *string { return &s }
	number := uint32(5)
	big128, ok := new(big.Int).SetString("340282366920938463463374607431768211455", 10)
	require.True(t, ok)
	rows := []wide{
		{
			A: 1, B: *big128, C: "c", D: text("d"), E: []string{"x", "", "y"}, F: map[string]uint64{"k": 1},
			G: time.Date(2024, 2, 29, 1, 2, 3, 456789000, time.UTC),
			H: "low", I: text("i"), J: []*string{text("a"), nil, text("b")}, K: map[string][]string{"k": {"v", "w"}},
			L: uuid.New(), M: decimal.RequireFromString("-12345.6789"),
			N: netip.MustParseAddr("2001:db8::1"), O: true, P: 1.5, Q: [][]uint64{{1}, {}, {2, 3}}, R: "abcd",
			S: []map[string]*uint32{{"a": &number, "b": nil}, {}},
		},
		{
			A: 2,
			E: []string{},
			F: map[string]uint64{},
			G: time.Unix(0, 0).UTC(),
			J: []*string{},
			K: map[string][]string{},
			M: decimal.Zero,
			N: netip.IPv6Unspecified(),
			Q: [][]uint64{},
			R: "\x00\x00\x00\x00",
			S: []map[string]*uint32{},
		},
	}
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO t")
	require.NoError(t, err)
	for i := range rows {
		require.NoError(t, batch.AppendStruct(&rows[i]))
	}
	require.NoError(t, batch.Send())
	var got []wide
	require.NoError(t, conn.Select(ctx, &got, "SELECT * FROM t ORDER BY a"))
	require.Len(t, got, 2)
	for i := range rows {
		require.Zero(t, rows[i].B.Cmp(&got[i].B))
		require.True(t, rows[i].M.Equal(got[i].M))
		require.Equal(t, netip.AddrFrom16(rows[i].N.As16()), got[i].N)
		got[i].B, got[i].M, got[i].N = rows[i].B, rows[i].M, rows[i].N
		require.Equal(t, rows[i], got[i])
	}
	var none []wide
	require.NoError(t, conn.Select(ctx, &none, "SELECT * FROM t WHERE a = 99"))
	require.Empty(t, none)
	result, err := conn.Query(ctx, "SELECT a, h FROM t WHERE a = {a:UInt64}", clickhouse.Named("a", 98))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "h"}, result.Columns(), "a result without rows has its columns")
	require.Equal(t, "LowCardinality(String)", result.ColumnTypes()[1].DatabaseTypeName())
	require.False(t, result.Next())
	require.NoError(t, result.Err())
	require.NoError(t, result.Close())
	err = conn.QueryRow(ctx, "SELECT * FROM no_such").Scan()
	var exception *clickhouse.Exception
	require.ErrorAs(t, err, &exception)
	require.Equal(t, int32(60), exception.Code)
}

func TestClient_ReadsDynamicTypes(t *testing.T) {
	conn := open(t)
	ctx := t.Context()
	require.NoError(t, conn.Exec(ctx,
		`CREATE TABLE t (a UInt64, j JSON(known LowCardinality(String), max_dynamic_paths = 2),
		v Variant(String, UInt64, Array(LowCardinality(String))), d Dynamic, z String,
		p Tuple(x UInt8, y Nullable(String)), nested Array(Tuple(j JSON, n LowCardinality(String))))
		ENGINE = MergeTree ORDER BY a`))
	require.NoError(t, conn.Exec(ctx, `INSERT INTO t VALUES
		(1, '{"known": "k", "x": {"y": 1}, "list": ["a", "b"], "over1": "o", "over2": 2.5}', 'text', 42::UInt64, `+
		`'end', (1, 'y'), [('{"q": 1}', 'n')]),
		(2, '{}', 7::UInt64, 'dyn', 'end', (2, NULL), []),
		(3, '{"x": {"y": "str"}}', NULL, NULL, 'end', (3, ''), [('{}', 'n'), ('{"q": [1, 2]}', 'm')]),
		(4, '{"list": [{"deep": true}]}', ['l', 'm'], [1, 2]::Array(UInt8), 'end', (4, 'z'), [])`))
	for _, settings := range []clickhouse.Settings{
		{}, {"output_format_native_use_flattened_dynamic_and_json_serialization": 1},
		{"output_format_native_write_json_as_string": 1},
	} {
		rows, err := conn.Query(clickhouse.Context(ctx, clickhouse.WithSettings(settings)),
			"SELECT a, v, d, p, z FROM t ORDER BY a")
		require.NoError(t, err)
		var n int
		for rows.Next() {
			var (
				a uint64
				v clickhouse.Variant
				d clickhouse.Dynamic
				p map[string]any
				z string
			)
			require.NoError(t, rows.Scan(&a, &v, &d, &p, &z))
			require.Equal(t, "end", z, "the columns after them are read at the right offset")
			n++
		}
		require.NoError(t, rows.Err())
		require.Equal(t, 4, n)
	}
	flattened := clickhouse.Settings{"output_format_native_use_flattened_dynamic_and_json_serialization": 1}
	rows, err := conn.Query(clickhouse.Context(ctx, clickhouse.WithSettings(flattened)),
		"SELECT a, j, nested, z FROM t ORDER BY a")
	require.NoError(t, err)
	var n int
	for rows.Next() {
		var (
			a      uint64
			j      clickhouse.JSON
			nested any
			z      string
		)
		require.NoError(t, rows.Scan(&a, &j, &nested, &z))
		require.Equal(t, "end", z)
		n++
	}
	require.NoError(t, rows.Err())
	require.Equal(t, 4, n)
	var json string
	require.NoError(t, conn.QueryRow(ctx, "SELECT toString(j) FROM t WHERE a = 1").Scan(&json))
	require.JSONEq(t, `{"known":"k","list":["a","b"],"over1":"o","over2":2.5,"x":{"y":1}}`, json)
}

func TestClient_SendsExternalTable(t *testing.T) {
	conn := open(t)
	table, err := ext.NewTable("keys", ext.Column("k", "UInt64"), ext.Column("name", "LowCardinality(String)"))
	require.NoError(t, err)
	for i := range 100_000 {
		require.NoError(t, table.Append(uint64(i), "n"))
	}
	ctx := clickhouse.Context(t.Context(), clickhouse.WithExternalTable(table))
	var n uint64
	const query = "SELECT count() FROM numbers(1000000) " +
		"WHERE number IN (SELECT k FROM keys) AND number < {max:UInt64}"
	require.NoError(t, conn.QueryRow(ctx, query, clickhouse.Named("max", 50_000)).Scan(&n))
	require.Equal(t, uint64(50_000), n)
}

func TestClient_StreamsAndCancels(t *testing.T) {
	conn := open(t)
	rows, err := conn.Query(t.Context(), "SELECT number, toString(number) FROM numbers(3000000)")
	require.NoError(t, err)
	var sum, number uint64
	var s string
	for rows.Next() {
		require.NoError(t, rows.Scan(&number, &s))
		sum += number
	}
	require.NoError(t, rows.Err())
	require.Equal(t, uint64(3_000_000*(3_000_000-1)/2), sum)

	running := func() bool {
		var n uint64
		const query = "SELECT count() FROM system.processes " +
			"WHERE query LIKE '%sipHash64%' AND query NOT LIKE '%processes%'"
		require.NoError(t, conn.QueryRow(t.Context(), query).Scan(&n))
		return n > 0
	}
	exec := func(ctx context.Context, query string) error { return conn.Exec(ctx, query) }
	// Exec discards the rest of a response, and so the error of a cancellation after the first block.
	readRows := func(ctx context.Context, query string) error {
		rows, err := conn.Query(ctx, query)
		if err != nil {
			return err
		}
		for rows.Next() {
			var hash uint64
			if err := rows.Scan(&hash); err != nil {
				return errors.Join(err, rows.Close())
			}
		}
		return errors.Join(rows.Err(), rows.Close())
	}
	for name, tc := range map[string]struct {
		query string
		run   func(ctx context.Context, query string) error
	}{
		"before the first row": {"SELECT sum(sipHash64(number)) FROM numbers(1000000000000)", exec},
		"in the middle":        {"SELECT sipHash64(number) FROM numbers(1000000000000)", readRows},
		"an insert": {
			"INSERT INTO FUNCTION null('a UInt64') SELECT sipHash64(number) FROM numbers(1000000000000)", exec,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- tc.run(ctx, tc.query) }()
			waitFor(t, running)
			cancel()
			require.Error(t, <-done)
			waitFor(t, func() bool { return !running() })
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.Error(t, conn.Exec(ctx, "SELECT sum(sipHash64(number)) FROM numbers(1000000000000)"))
	waitFor(t, func() bool { return !running() })
}

func TestClient_SeesExceptionInMidStream(t *testing.T) {
	for _, method := range []clickhouse.CompressionMethod{
		clickhouse.CompressionNone, clickhouse.CompressionLZ4, clickhouse.CompressionGZIP,
	} {
		conn := open(t,
			func(o *clickhouse.Options) { o.Compression = &clickhouse.Compression{Method: method, Level: 1} })
		rows, err := conn.Query(t.Context(), "SELECT throwIf(number = 2000000) FROM numbers(10000000)")
		require.NoError(t, err)
		for rows.Next() {
			var x uint8
			require.NoError(t, rows.Scan(&x))
		}
		var exception *clickhouse.Exception
		require.ErrorAs(t, rows.Err(), &exception, method.String())
		require.Equal(t, int32(395), exception.Code)
	}
}

func TestClient_ConcurrentCallers(t *testing.T) {
	conn := open(t, func(o *clickhouse.Options) { o.MaxOpenConns, o.MaxIdleConns = 64, 64 })
	require.NoError(t, conn.Exec(t.Context(), "CREATE TABLE t (k UInt64, v String) ENGINE = MergeTree ORDER BY k"))
	var group errgroup.Group
	for caller := range uint64(64) {
		group.Go(func() error {
			for i := range uint64(8) {
				key := caller*1000 + i
				batch, err := conn.PrepareBatch(t.Context(), "INSERT INTO t")
				if err != nil {
					return err
				}
				if err := errors.Join(batch.Append(key, fmt.Sprint(key)), batch.Send()); err != nil {
					return err
				}
				var v string
				row := conn.QueryRow(t.Context(), "SELECT v FROM t WHERE k = {k:UInt64}", clickhouse.Named("k", key))
				if err := row.Scan(&v); err != nil {
					return err
				}
				if v != fmt.Sprint(key) {
					return fmt.Errorf("key %d has %q", key, v)
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	var n uint64
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT uniqExact(k) FROM t").Scan(&n))
	require.Equal(t, uint64(64*8), n)
}

func TestInsert_DeduplicationTokenDropsRetries(t *testing.T) {
	conn := open(t)
	require.NoError(t, conn.Exec(t.Context(),
		"CREATE TABLE t (k UInt64) ENGINE = MergeTree ORDER BY k SETTINGS non_replicated_deduplication_window = 100"))
	for _, token := range []string{"a", "a", "b", "a"} {
		ctx := clickhouse.Context(t.Context(),
			clickhouse.WithSettings(clickhouse.Settings{"insert_deduplication_token": token, "insert_deduplicate": 1}))
		batch, err := conn.PrepareBatch(ctx, "INSERT INTO t")
		require.NoError(t, err)
		require.NoError(t, batch.Append(uint64(1)))
		require.NoError(t, batch.Send())
	}
	var n uint64
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count() FROM t").Scan(&n))
	require.Equal(t, uint64(2), n)
}

// A 128-bit version can be computed from two columns at insert, and lookups can use small granules of fixed size.
func TestTables_ComputedVersionAndSmallGranules(t *testing.T) {
	conn := open(t)
	ctx := t.Context()
	require.NoError(t, conn.Exec(ctx,
		`CREATE TABLE t (k UInt64, hi UInt64, lo UInt64,
		version UInt128 MATERIALIZED bitOr(bitShiftLeft(toUInt128(hi), 64), toUInt128(lo)))
		ENGINE = ReplacingMergeTree(version) ORDER BY k SETTINGS index_granularity_bytes = 0, index_granularity = 64`))
	for _, version := range [][2]uint64{{1, 5}, {2, 1}, {2, 0}, {1, 9}} {
		batch, err := conn.PrepareBatch(ctx, "INSERT INTO t (k, hi, lo)")
		require.NoError(t, err)
		require.NoError(t, batch.Append(uint64(1), version[0], version[1]))
		require.NoError(t, batch.Send())
	}
	var hi, lo uint64
	require.NoError(t, conn.QueryRow(ctx, "SELECT hi, lo FROM t FINAL WHERE k = 1").Scan(&hi, &lo))
	require.Equal(t, []uint64{2, 1}, []uint64{hi, lo})
	require.NoError(t, conn.Exec(ctx, "OPTIMIZE TABLE t FINAL"))
	require.NoError(t, conn.QueryRow(ctx, "SELECT hi, lo FROM t WHERE k = 1").Scan(&hi, &lo))
	require.Equal(t, []uint64{2, 1}, []uint64{hi, lo})
}

func BenchmarkSelect1(b *testing.B) {
	for _, callers := range []int{1, 8, 32} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			conn := open(b, func(o *clickhouse.Options) { o.MaxOpenConns, o.MaxIdleConns = callers, callers })
			var group errgroup.Group
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			for range callers {
				group.Go(func() error {
					for left.Add(-1) >= 0 {
						var one uint8
						if err := conn.QueryRow(b.Context(), "SELECT 1").Scan(&one); err != nil {
							return err
						}
					}
					return nil
				})
			}
			require.NoError(b, group.Wait())
		})
	}
}
