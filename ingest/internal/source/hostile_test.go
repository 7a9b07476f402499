package source_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/require"

	"muster/ingest/internal/source"
	"muster/schemas/record"
)

// allocated runs f and returns how many bytes it took from the heap in all.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// remade writes a Parquet file anew with another directory.
func remade(t testing.TB, sound []byte, change func(*format.FileMetaData)) []byte {
	t.Helper()
	end := len(sound) - 8
	begin := end - int(binary.LittleEndian.Uint32(sound[end:]))
	var md format.FileMetaData
	require.NoError(t, thrift.Unmarshal(new(thrift.CompactProtocol), sound[begin:end], &md))
	change(&md)
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), &md)
	require.NoError(t, err)
	return withFooter(sound[:begin], footer, len(footer))
}

func withFooter(pages, footer []byte, length int) []byte {
	out := append(bytes.Clone(pages), footer...)
	out = binary.LittleEndian.AppendUint32(out, uint32(length))
	return append(out, "PAR1"...)
}

// readParquet reads all of a file.
func readParquet(t testing.TB, data []byte) ([]object, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.parquet")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	s, err := source.Open(t.Context(), path, source.Options{MaxLine: 1 << 20, Head: 64 << 10, Kind: record.KindNetworkPerson})
	if err != nil {
		return nil, err
	}
	got, _, err := objects(t, s)
	require.NoError(t, s.Close())
	return got, err
}

func decimals(t testing.TB, node parquet.Node, v parquet.Value) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewWriter(&b, parquet.NewSchema("x", parquet.Group{"a": node}))
	_, err := w.WriteRows([]parquet.Row{{v.Level(0, 0, 0)}})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// A number is written with all its digits: how many there are is not the file's to say.
func TestParquetHugeDecimal(t *testing.T) {
	sound := decimals(t, parquet.Decimal(2, 9, parquet.Int32Type), parquet.Int32Value(5))
	for _, scale := range []int32{1_000_000_000, 77, -1} {
		bomb := remade(t, sound, func(md *format.FileMetaData) {
			for i := range md.Schema {
				if d, ok := md.Schema[i].LogicalType.Value.(*format.DecimalType); ok {
					d.Scale, d.Precision = scale, max(scale, 1)
				}
			}
		})
		var err error
		took := allocated(func() { _, err = readParquet(t, bomb) })
		require.ErrorContains(t, err, `column "a" is a decimal with`)
		require.Less(t, took, uint64(32<<20))
	}
	got, err := readParquet(t, sound)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, `{"a":0.05}`, got[0].text)

	// A million bytes are no number that anybody counts with.
	wide := decimals(t, parquet.Decimal(2, 9, parquet.ByteArrayType), parquet.ByteArrayValue(bytes.Repeat([]byte{0x7f}, 500_000)))
	got, _ = readParquet(t, wide)
	require.Len(t, got, 1)
	require.True(t, strings.HasPrefix(got[0].text, `{"a":"`), "%.20s", got[0].text)
}
