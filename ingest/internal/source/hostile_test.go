package source_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/require"

	"muster/ingest/internal/heaptest"
	"muster/ingest/internal/source"
	"muster/schemas/record"
)

// rewriteFooter rewrites a Parquet file with a changed footer.
func rewriteFooter(t testing.TB, valid []byte, change func(*format.FileMetaData)) []byte {
	t.Helper()
	end := len(valid) - 8
	begin := end - int(binary.LittleEndian.Uint32(valid[end:]))
	var md format.FileMetaData
	require.NoError(t, thrift.Unmarshal(new(thrift.CompactProtocol), valid[begin:end], &md))
	change(&md)
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), &md)
	require.NoError(t, err)
	return withFooter(valid[:begin], footer, len(footer))
}

func withFooter(pages, footer []byte, length int) []byte {
	out := append(bytes.Clone(pages), footer...)
	out = binary.LittleEndian.AppendUint32(out, uint32(length))
	return append(out, "PAR1"...)
}

// readParquet reads a file completely.
func readParquet(t testing.TB, data []byte) ([]object, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.parquet")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	s, err := source.Open(t.Context(), path,
		source.Options{MaxLine: 1 << 20, Head: 64 << 10, Kind: record.KindNetworkPerson})
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

// A number is written with all its digits, so the file must not determine how many.
func TestParquet_RejectsHugeDecimalScale(t *testing.T) {
	valid := decimals(t, parquet.Decimal(2, 9, parquet.Int32Type), parquet.Int32Value(5))
	for _, scale := range []int32{1_000_000_000, 77, -1} {
		hostile := rewriteFooter(t, valid, func(md *format.FileMetaData) {
			for i := range md.Schema {
				if d, ok := md.Schema[i].LogicalType.Value.(*format.DecimalType); ok {
					d.Scale, d.Precision = scale, max(scale, 1)
				}
			}
		})
		var err error
		took := heaptest.Allocated(func() { _, err = readParquet(t, hostile) })
		require.ErrorContains(t, err, `decimal column "a" has scale`)
		require.Less(t, took, uint64(32<<20))
	}
	got, err := readParquet(t, valid)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, `{"a":0.05}`, got[0].text)

	// A number of a million bytes is not useful.
	wideDecimal := decimals(t, parquet.Decimal(2, 9, parquet.ByteArrayType),
		parquet.ByteArrayValue(bytes.Repeat([]byte{0x7f}, 500_000)))
	got, _ = readParquet(t, wideDecimal)
	require.Len(t, got, 1)
	require.True(t, strings.HasPrefix(got[0].text, `{"a":"`), "%.20s", got[0].text)
}

// withPage replaces the page of a file with one column and one page.
func withPage(t testing.TB, valid []byte, change func(h *format.PageHeader, body []byte) []byte) []byte {
	t.Helper()
	return rewriteFooter(t, valid, func(md *format.FileMetaData) {
		m := &md.RowGroups[0].Columns[0].MetaData
		begin, end := m.DataPageOffset, m.DataPageOffset+m.TotalCompressedSize
		if d := m.DictionaryPageOffset; d != 0 {
			end = d + m.TotalCompressedSize
		}
		for size := begin + 1; ; size++ { // the header has no length field
			h := new(format.PageHeader)
			if thrift.Unmarshal(new(thrift.CompactProtocol), valid[begin:size], h) != nil {
				continue
			}
			h.CRC = 0
			body := change(h, bytes.Clone(valid[size:end]))
			h.CompressedPageSize = int32(len(body))
			header, err := thrift.Marshal(new(thrift.CompactProtocol), h)
			require.NoError(t, err)
			// Room for it was reserved after the pages.
			m.TotalCompressedSize += int64(len(header)+len(body)) - (end - begin)
			page := append(header, body...)
			require.LessOrEqual(t, int64(len(page)), end-begin+spareBytes)
			copy(valid[begin:], page)
			return
		}
	})
}

const spareBytes = 1 << 20

// column writes a file of one column, with spareBytes after its pages.
func column[T any](t testing.TB, rows []T, options ...parquet.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, options...)
	_, err := w.Write(rows)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	data := b.Bytes()
	begin := len(data) - 8 - int(binary.LittleEndian.Uint32(data[len(data)-8:]))
	return append(append(bytes.Clone(data[:begin]), make([]byte, spareBytes)...), data[begin:]...)
}

type (
	listRow struct {
		A []int32 `parquet:"a,list,dict"`
	}
	textRow struct {
		A string `parquet:"a,plain"`
	}
	deltaRow struct {
		A string `parquet:"a,delta"`
	}
	numberRow struct {
		A int64 `parquet:"a,delta"`
	}
	dictRow struct {
		A string `parquet:"a,dict"`
	}
	maybeRow struct {
		A *string `parquet:"a,optional,dict"`
	}
	number32Row struct {
		A int32 `parquet:"a,plain"`
	}
)

// A row of any number of values is skipped like a line of any length, with the length and hash of its text.
func TestParquet_HugeRowIsOversize(t *testing.T) {
	const n = 20_000_000
	data := column(t, []listRow{{A: []int32{1}}, {A: make([]int32, n)}, {A: []int32{2}}},
		parquet.Compression(&parquet.Zstd))
	var got []object
	var err error
	took := heaptest.Allocated(func() { got, err = readParquet(t, data) })
	require.ErrorIs(t, err, io.EOF)
	require.Len(t, got, 3)
	require.Equal(t, `{"a":[1]}`, got[0].text)
	require.Equal(t, `{"a":[2]}`, got[2].text)
	require.Equal(t, int64(len(`{"a":[]}`)+2*n-1), got[1].length)
	require.Equal(t, `{"a":[0,0,0`, got[1].text[:11])
	require.Less(t, took, uint64(400<<20)) // levels and indices of the one page; the row alone took 1.9 GB

	text := `{"a":[` + strings.TrimSuffix(strings.Repeat("0,", n), ",") + "]}"
	path := filepath.Join(t.TempDir(), "f.parquet")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	s, err := source.Open(t.Context(), path, source.Options{MaxLine: 1 << 20, Head: 64 << 10})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	c, err := s.Next()
	require.NoError(t, err)
	require.Equal(t, sha256.Sum256([]byte(text)), c.Lines[1].Oversize.SHA256)
}

func TestParquet_ValidatesPagesBeforeAllocating(t *testing.T) {
	texts := make([]textRow, 100)
	deltas := make([]deltaRow, 100)
	numbers := make([]numberRow, 100)
	dicts := make([]dictRow, 100)
	numbers32 := make([]number32Row, 100)
	optional := make([]maybeRow, 100)
	for i := range texts {
		texts[i].A, deltas[i].A, dicts[i].A, numbers[i].A = fmt.Sprint(i), fmt.Sprint(i), fmt.Sprint(i%3), int64(i*i)
		optional[i].A = &dicts[i].A
	}
	long := bytes.Repeat([]byte{0}, 400<<20)
	gzipped, err := parquet.Gzip.Encode(nil, long)
	require.NoError(t, err)
	zipped, err := parquet.Zstd.Encode(nil, long)
	require.NoError(t, err)
	v1 := parquet.DataPageVersion(1)
	for name, c := range map[string]struct {
		data   []byte
		change func(h *format.PageHeader, body []byte) []byte
		want   string
	}{
		"values": {column(t, texts, v1), func(h *format.PageHeader, body []byte) []byte {
			h.DataPageHeader.V.NumValues = math.MaxInt32
			return body
		}, "pages require more than 528 MiB of memory"},
		"values of version 2": {column(t, texts), func(h *format.PageHeader, body []byte) []byte {
			h.DataPageHeaderV2.V.NumValues, h.DataPageHeaderV2.V.NumNulls = math.MaxInt32, 0
			return body
		}, "pages require more than 528 MiB of memory"},
		"size": {column(t, texts, v1, parquet.Compression(&parquet.Zstd)), func(h *format.PageHeader,
			body []byte) []byte {
			h.UncompressedPageSize = math.MaxInt32
			return body
		}, "pages require more than 528 MiB of memory"},
		"negative": {column(t, texts, v1), func(h *format.PageHeader, body []byte) []byte {
			h.DataPageHeader.V.NumValues = -1
			return body
		}, "damaged"},
		"gzip": {column(t, texts, v1, parquet.Compression(&parquet.Gzip)), func(_ *format.PageHeader, _ []byte) []byte {
			return gzipped
		}, "damaged: uncompress GZIP"},
		"zstd": {column(t, texts, v1, parquet.Compression(&parquet.Zstd)), func(_ *format.PageHeader, _ []byte) []byte {
			return zipped
		}, "damaged: uncompress ZSTD"},
		"snappy": {column(t, texts, v1, parquet.Compression(&parquet.Snappy)), func(_ *format.PageHeader,
			_ []byte) []byte {
			return []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0}
		}, "damaged: uncompress SNAPPY"},
		"lz4": {column(t, texts, v1, parquet.Compression(&parquet.Lz4Raw)), func(_ *format.PageHeader,
			body []byte) []byte {
			return bytes.Repeat([]byte{0xff}, len(body))
		}, "damaged: uncompress LZ4_RAW"},
		"runs": {column(t, dicts, v1), func(_ *format.PageHeader, body []byte) []byte {
			return append(body, bytes.Repeat(binary.AppendUvarint(nil, 1<<24<<1), 1000)...)
		}, "more values than declared"},
		// A run without values has no data after its length.
		"runs after empty ones": {column(t, dicts, v1), func(_ *format.PageHeader, _ []byte) []byte {
			return append([]byte{32}, bytes.Repeat([]byte{0, 0x80, 0x80, 0x80, 0x40, 0, 0, 0, 0, 0}, 4)...)
		}, "more values than declared"},
		"runs of nulls": {column(t, dicts), func(h *format.PageHeader, _ []byte) []byte {
			h.DataPageHeaderV2.V.NumValues, h.DataPageHeaderV2.V.NumNulls = 1<<28, 1<<28
			return append(binary.AppendUvarint([]byte{8}, 1<<28<<1), 0)
		}, "pages require more than 528 MiB of memory"},
		"deltas of nulls": {column(t, numbers), func(h *format.PageHeader, _ []byte) []byte {
			h.DataPageHeaderV2.V.NumValues, h.DataPageHeaderV2.V.NumNulls = 1<<28, 1<<28
			return append(binary.AppendUvarint([]byte{0x80, 1, 4}, 1<<28), 0, 0, 0, 0, 0, 0)
		}, "pages require more than 528 MiB of memory"},
		"runs after nulls": {column(t, optional, v1), func(h *format.PageHeader, _ []byte) []byte {
			h.DataPageHeader.V.NumValues = 1 << 27
			levels := append(binary.AppendUvarint(nil, 1<<27<<1), 0)
			body := binary.LittleEndian.AppendUint32(nil, uint32(len(levels)))
			return append(binary.AppendUvarint(append(append(body, levels...), 8), 1<<27<<1), 0)
		}, "more values than declared"},
		// The library reads these as runs of zero bits.
		"runs of numbers": {column(t, numbers32, v1), func(h *format.PageHeader, _ []byte) []byte {
			h.DataPageHeader.V.Encoding = format.RLE
			return []byte{0, 0, 0, 0, 0x80, 0x80, 0x80, 0x40}
		}, "unsupported encoding of values: RLE"},
		"levels": {column(t, optional, v1), func(h *format.PageHeader, body []byte) []byte {
			h.DataPageHeader.V.DefinitionLevelEncoding = format.BitPacked
			return body
		}, "unsupported encoding of levels: BIT_PACKED"},
		"differences": {column(t, numbers, v1), func(_ *format.PageHeader, _ []byte) []byte {
			out := binary.AppendUvarint(nil, 128)
			out = binary.AppendUvarint(out, 4)
			out = binary.AppendUvarint(out, math.MaxInt32)
			return append(out, 0, 0, 0, 0, 0, 0)
		}, "more values than declared"},
		// Each string has the previous one as its prefix: a million times 60 KB.
		"beginnings": {column(t, deltas), func(h *format.PageHeader, _ []byte) []byte {
			const n = 1_000_000
			h.DataPageHeaderV2.V.NumValues, h.DataPageHeaderV2.V.NumRows = n, n
			h.UncompressedPageSize = 1 << 20
			prefixes, lengths := make([]int32, n), make([]int32, n)
			for i := range prefixes {
				prefixes[i] = 60_000
			}
			prefixes[0], lengths[0] = 0, 60_000
			out, err := new(delta.BinaryPackedEncoding).EncodeInt32(nil, prefixes)
			require.NoError(t, err)
			more, err := new(delta.BinaryPackedEncoding).EncodeInt32(nil, lengths)
			require.NoError(t, err)
			return append(append(out, more...), make([]byte, 60_000)...)
		}, "pages require more than 528 MiB of memory"},
	} {
		t.Run(name, func(t *testing.T) {
			hostile := withPage(t, c.data, c.change)
			var err error
			took := heaptest.Allocated(func() { _, err = readParquet(t, hostile) })
			require.ErrorContains(t, err, c.want)
			require.Less(t, took, uint64(64<<20))
		})
	}
}

func TestParquet_LimitsFooter(t *testing.T) {
	valid := column(t, []textRow{{"x"}})
	end := len(valid) - 8
	pages := valid[:end-int(binary.LittleEndian.Uint32(valid[end:]))]
	deep := append(bytes.Repeat([]byte{0x1c}, 10<<20), 0) // nested structures
	many := append([]byte{0x15, 2, 0x19, 0xfc}, binary.AppendUvarint(nil, math.MaxInt32)...)
	crowd := append([]byte{0x15, 2, 0x19, 0xfc}, binary.AppendUvarint(nil, 20<<20)...)
	crowd = append(crowd, make([]byte, 20<<20)...)
	chain := func(md *format.FileMetaData) {
		leaf := md.Schema[1]
		md.Schema = md.Schema[:1]
		for range 100_000 {
			md.Schema = append(
				md.Schema,
				format.SchemaElement{
					Name:           "x",
					NumChildren:    thrift.New(int32(1)),
					RepetitionType: thrift.New(format.Optional),
				},
			)
		}
		md.Schema = append(md.Schema, leaf)
	}
	groups := func(md *format.FileMetaData) { // with columns that they do not have
		leaf := md.Schema[1]
		md.Schema[0].NumChildren = thrift.New(int32(9000))
		for range 8999 {
			md.Schema = append(md.Schema, leaf)
		}
		md.RowGroups = make([]format.RowGroup, 30_000)
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"length":   {withFooter(pages, nil, math.MaxUint32), "footer is inconsistent"},
		"nested":   {withFooter(pages, deep, len(deep)), "header is truncated"},
		"list":     {withFooter(pages, many, len(many)), "header is truncated"},
		"elements": {withFooter(pages, crowd, len(crowd)), ""},
		"columns":  {rewriteFooter(t, valid, chain), "nested deeper than 64 levels"},
		"groups":   {rewriteFooter(t, valid, groups), "footer is inconsistent"},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			took := heaptest.Allocated(func() { _, err = readParquet(t, c.data) })
			require.ErrorContains(t, err, c.want)
			require.Less(t, took, uint64(128<<20))
		})
	}
}

func TestParquet_WriterOptionsDoNotChangeRows(t *testing.T) {
	people := make([]parquetPerson, 3000)
	for i := range people {
		people[i] = parquetPerson{
			ProfileID: fmt.Sprint(i), Username: fmt.Sprint(i % 7), Emails: make([]string, i%4),
			Extra: map[string]string{"k": fmt.Sprint(i)}, Experience: make([]parquetJob, i%3),
			Raw: bytes.Repeat([]byte{byte(i)}, i%50), Price: int64(i), Born: int32(i),
		}
	}
	people[7].Free, people[8].Raw = strings.Repeat("é\n", 90_000), bytes.Repeat([]byte{0xff, 1}, 70_000)
	people[9].Free = `{"long":"` + strings.Repeat("x", 100_000) + `"}`
	var want []object
	for _, codec := range []compress.Codec{
		&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Brotli, &parquet.Zstd, &parquet.Lz4Raw,
	} {
		for version := 1; version <= 2; version++ {
			data, err := os.ReadFile(
				parquetFile(t, people, parquet.Compression(codec), parquet.DataPageVersion(version),
					parquet.PageBufferSize(8<<10), parquet.MaxRowsPerRowGroup(1000)),
			)
			require.NoError(t, err)
			got, err := readParquet(t, data)
			require.ErrorIs(t, err, io.EOF)
			require.Len(t, got, len(people))
			for i := range got {
				got[i].offset = 0
			}
			if want == nil {
				want = got
			}
			for i := range got {
				require.True(t, want[i] == got[i], "%s, version %d, row %d", codec, version, i)
			}
		}
	}
	require.True(t, strings.Contains(want[7].text, strings.Repeat(`é\u000a`, 90_000)))
	require.True(t, strings.Contains(want[8].text, base64.StdEncoding.EncodeToString(people[8].Raw)))
	require.True(t, strings.Contains(want[9].text, people[9].Free))
	for i := range want {
		require.Contains(t, want[i].text, fmt.Sprintf(`"profile_id":"%d"`, i))
	}
	rows := make([]deltaRow, 5000)
	numbers := make([]numberRow, len(rows))
	for i := range rows {
		rows[i].A, numbers[i].A = fmt.Sprintf("begins alike %d", i), int64(i*i)
	}
	for _, data := range [][]byte{column(t, rows), column(t, numbers)} {
		got, err := readParquet(t, data)
		require.ErrorIs(t, err, io.EOF)
		require.Len(t, got, len(rows))
		require.Contains(t, got[70].text+got[4900].text, "4900")
	}
}
