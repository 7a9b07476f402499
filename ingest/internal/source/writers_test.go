package source_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/require"

	"muster/ingest/internal/heaptest"
	"muster/ingest/internal/source"
)

// duckRows is the number of rows per row group written by DuckDB, with one page per column.
const duckRows = 122_880

// opened opens a file with these bytes.
func opened(t *testing.T, data []byte) source.Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.parquet")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	s, err := source.Open(t.Context(), path, source.Options{MaxLine: 1 << 20, Head: 64 << 10, ChunkSize: 64 << 10})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// heapInUse returns the bytes of the heap in use.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // a second collection empties pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// duckFile writes a file of equal columns like DuckDB.
func duckFile(t *testing.T, columns int, node parquet.Node, value func() parquet.Value) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewWriter(&b, parquet.NewSchema("x", parquet.Group{"a": node}),
		parquet.PageBufferSize(256<<20), parquet.DataPageVersion(1), parquet.Compression(&parquet.Snappy))
	for range duckRows {
		_, err := w.WriteRows([]parquet.Row{{value().Level(0, 1, 0)}})
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return oneColumn(t, b.Bytes(), columns)
}

// A page for all rows of a row group, or a hundred columns, are usual.
func TestParquet_AcceptsLargePages(t *testing.T) {
	const maxMiB = 300 // MiB
	random := rand.New(rand.NewPCG(1, 2))
	biography := strings.Repeat("born, lived, ", 61)
	for name, c := range map[string]struct {
		columns int
		node    parquet.Node
		value   func() parquet.Value
	}{
		"texts": {2, parquet.Optional(parquet.String()), func() parquet.Value {
			return parquet.ByteArrayValue(fmt.Appendf(nil, "%s%d", biography, random.IntN(1000)))
		}},
		"numbers": {120, parquet.Optional(parquet.Leaf(parquet.DoubleType)), func() parquet.Value {
			return parquet.DoubleValue(random.Float64())
		}},
		"dictionaries": {150, parquet.Optional(parquet.Encoded(parquet.Int(64), &parquet.RLEDictionary)),
			func() parquet.Value {
				return parquet.Int64Value(random.Int64N(100_000))
			}},
	} {
		t.Run(name, func(t *testing.T) {
			s := opened(t, duckFile(t, c.columns, c.node, c.value))
			before := heapInUse()
			c, err := s.Next()
			require.NoError(t, err)
			require.NotEmpty(t, c.Lines)
			require.Less(t, heapInUse()-before, int64(maxMiB<<20))
		})
	}
}

// oneColumn repeats a file's only column, with the same pages.
func oneColumn(t *testing.T, sound []byte, columns int) []byte {
	t.Helper()
	return rewriteFooter(t, sound, func(md *format.FileMetaData) {
		leaf, chunk := md.Schema[1], md.RowGroups[0].Columns[0]
		md.Schema[0].NumChildren.V = int32(columns)
		md.Schema, md.RowGroups[0].Columns = md.Schema[:1], nil
		for i := range columns {
			leaf.Name = fmt.Sprintf("c%04d", i)
			chunk.MetaData.PathInSchema = []string{leaf.Name}
			md.Schema = append(md.Schema, leaf)
			md.RowGroups[0].Columns = append(md.RowGroups[0].Columns, chunk)
		}
	})
}

// A small file declares large pages: they are limited.
func TestParquet_LimitsMemoryOfSmallFiles(t *testing.T) {
	type null struct {
		A *string `parquet:"a,optional,plain"`
	}
	options := []parquet.WriterOption{parquet.DataPageVersion(1), parquet.PageBufferSize(64 << 20)}
	nulls := column(t, make([]null, duckRows), options...)
	c, err := opened(t, oneColumn(t, nulls, 1500)).Next()
	require.NoError(t, err)
	require.Equal(t, "{}", string(c.Lines[0].Raw))

	same := column(t, make([]dictRow, 1<<20), options...) // 6 GB of indices
	atLeast := withPage(
		t,
		column(t, slices.Repeat([]textRow{{"twelve bytes"}}, 1<<16), options...),
		func(h *format.PageHeader, body []byte) []byte {
			h.UncompressedPageSize = 0
			return body
		},
	)
	for _, data := range [][]byte{same, atLeast} {
		s := opened(t, oneColumn(t, data, 1500))
		before := heapInUse()
		_, err = s.Next()
		require.ErrorContains(t, err, "MiB of memory")
		require.Less(t, heapInUse()-before, int64(800<<20))
	}
}

func TestParquet_AcceptsManyRowGroups(t *testing.T) {
	sound := column(t, []textRow{{"x"}})
	file := func(groups, stats int) []byte {
		return rewriteFooter(t, sound, func(md *format.FileMetaData) {
			g := md.RowGroups[0]
			g.Columns[0].MetaData.EncodingStats = make([]format.PageEncodingStats, stats)
			g.Columns[0].MetaData.Statistics = format.Statistics{}
			md.RowGroups = nil
			for range groups {
				md.RowGroups = append(md.RowGroups, g)
			}
			md.NumRows = int64(groups)
		})
	}
	got, err := readParquet(t, file(100_000, 2))
	require.ErrorIs(t, err, io.EOF)
	require.Len(t, got, 100_000)
	for _, data := range [][]byte{file(132_000, 0), file(1, 2_000_000)} {
		took := heaptest.Allocated(func() { _, err = readParquet(t, data) })
		require.ErrorContains(t, err, "more than 262144 parts")
		require.Less(t, took, uint64(128<<20))
	}
}
