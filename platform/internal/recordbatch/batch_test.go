package recordbatch_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/internal/recordbatch"
	"muster/platform/internal/recordbatch/recordbatchtest"
)

func read(d *recordbatch.Decoder, raw []byte) (values []string, err error) {
	b, rest, err := recordbatch.Next(raw)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		panic("one batch was given")
	}
	err = d.Records(&b, func(r recordbatch.Record) error {
		values = append(values, string(r.Value))
		return nil
	})
	return values, err
}

func TestDecoder_ReadsEveryCodec(t *testing.T) {
	want := []string{"a", "", strings.Repeat("long ", 100_000), "d"}
	var d recordbatch.Decoder
	for range 2 { // the decoder is reusable
		for codec := int16(recordbatchtest.None); codec <= recordbatchtest.Zstd; codec++ {
			records, err := recordbatchtest.Compress(codec, recordbatchtest.Records(want...))
			require.NoError(t, err)
			got, err := read(&d, recordbatchtest.Batch(codec, 4, 3, records))
			require.NoError(t, err)
			require.Equal(t, want, got, "codec %d", codec)
		}
	}
}

// Java clients write snappy in xerial framing.
func TestDecoder_ReadsFramedSnappy(t *testing.T) {
	records := recordbatchtest.Records(strings.Repeat("x", 50_000), "b")
	framed := []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
	for part := range slices.Chunk(records, 32<<10) {
		block, err := recordbatchtest.Compress(recordbatchtest.Snappy, part)
		require.NoError(t, err)
		framed = append(binary.BigEndian.AppendUint32(framed, uint32(len(block))), block...)
	}
	var d recordbatch.Decoder
	got, err := read(&d, recordbatchtest.Batch(recordbatchtest.Snappy, 2, 1, framed))
	require.NoError(t, err)
	require.Len(t, got, 2)
}

func TestDecoder_AllocatesOnceForAllSnappyBlocks(t *testing.T) {
	allocs := func(blocks int) float64 {
		block, err := recordbatchtest.Compress(recordbatchtest.Snappy, make([]byte, 32<<10))
		require.NoError(t, err)
		framed := []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
		for range blocks {
			framed = append(binary.BigEndian.AppendUint32(framed, uint32(len(block))), block...)
		}
		b, _, err := recordbatch.Next(recordbatchtest.Batch(recordbatchtest.Snappy, 0, 0, framed))
		require.NoError(t, err)
		return testing.AllocsPerRun(10, func() {
			var d recordbatch.Decoder
			_ = d.Records(&b, nil)
		})
	}
	require.Less(t, allocs(40), allocs(1)+5) // formatting the error sometimes allocates
}

func TestDecoder_RejectsMalformedRecords(t *testing.T) {
	var d recordbatch.Decoder
	for _, c := range recordbatchtest.Poison() {
		t.Run(c.Name, func(t *testing.T) {
			b, _, err := recordbatch.Next(c.Raw)
			require.NoError(t, err)
			require.True(t, b.ChecksumOK())
			err = d.Records(&b, func(recordbatch.Record) error { return nil })
			// Compaction leaves empty batches.
			if b.Count == 0 {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
		})
	}
}

func TestDecoder_RejectsDecompressionBombs(t *testing.T) {
	for codec := int16(recordbatchtest.Gzip); codec <= recordbatchtest.Zstd; codec++ {
		for _, size := range []int{recordbatch.MaxInflated - 100, recordbatch.MaxInflated + 1} {
			raw, err := recordbatchtest.Bomb(codec, size)
			require.NoError(t, err)
			var d recordbatch.Decoder
			_, err = read(&d, raw)
			if size < recordbatch.MaxInflated {
				require.NoError(t, err, "codec %d", codec)
			} else {
				require.ErrorIs(t, err, recordbatch.ErrTooLarge, "codec %d", codec)
			}
		}
	}
}

func TestRecord_IteratesOverHeaders(t *testing.T) {
	headers := bytes.Join([][]byte{
		recordbatchtest.Varint(1), []byte("a"), recordbatchtest.Varint(2), []byte("bc"),
		recordbatchtest.Varint(0), recordbatchtest.Varint(-1),
	}, nil)
	record := recordbatchtest.Record{KeyLength: -1, ValueLength: -1, Headers: 2, HeaderBytes: headers}
	raw := recordbatchtest.Batch(0, 1, 0, record.Bytes())
	b, _, err := recordbatch.Next(raw)
	require.NoError(t, err)
	var d recordbatch.Decoder
	var got []recordbatch.Header
	require.NoError(t, d.Records(&b, func(r recordbatch.Record) error {
		require.Nil(t, r.Key)
		require.Nil(t, r.Value)
		r.EachHeader(func(h recordbatch.Header) { got = append(got, h) })
		return nil
	}))
	require.Equal(t, []recordbatch.Header{{Key: []byte("a"), Value: []byte("bc")}, {Key: []byte{}}}, got)
}

func TestNext_SplitsBatches(t *testing.T) {
	two := append(recordbatchtest.Good("a"), recordbatchtest.Good("b", "c")...)
	first, rest, err := recordbatch.Next(two)
	require.NoError(t, err)
	require.EqualValues(t, 1, first.Count)
	second, rest, err := recordbatch.Next(rest)
	require.NoError(t, err)
	require.EqualValues(t, 2, second.Count)
	require.Empty(t, rest)
	for cut := range len(first.Raw) {
		_, _, err := recordbatch.Next(first.Raw[:cut])
		require.ErrorIs(t, err, recordbatch.ErrIncomplete)
	}
	second.MakeControl()
	require.True(t, second.ChecksumOK())
	again, _, err := recordbatch.Next(second.Raw)
	require.NoError(t, err)
	require.True(t, again.Control())
	old := slices.Clone(first.Raw)
	old[16] = 1
	_, _, err = recordbatch.Next(old)
	require.ErrorIs(t, err, recordbatch.ErrOldFormat)
}

// Any input must terminate, and records that can be read must be the same as those of another implementation.
func FuzzRecords(f *testing.F) {
	for _, c := range recordbatchtest.Poison() {
		b, _, _ := recordbatch.Next(c.Raw)
		f.Add(b.Attributes, b.Count, b.Raw[recordbatch.HeaderBytes:])
	}
	f.Add(int16(0), int32(3), recordbatchtest.Records("a", "b", "c"))
	f.Fuzz(func(t *testing.T, attributes int16, count int32, records []byte) {
		raw := recordbatchtest.Batch(attributes, count, count-1, records)
		var d recordbatch.Decoder
		got, err := read(&d, raw)
		if err != nil {
			return
		}
		var b kmsg.RecordBatch
		require.NoError(t, b.ReadFrom(raw))
		inflated := records
		if attributes&7 != 0 {
			inflated, err = kgo.DefaultDecompressor().Decompress(records, kgo.CompressionCodecType(attributes&7))
			require.NoError(t, err)
		}
		for _, want := range got {
			size, n := binary.Varint(inflated)
			var r kmsg.Record
			require.NoError(t, r.ReadFrom(inflated[:n+int(size)]))
			inflated = inflated[n+int(size):]
			require.Equal(t, want, string(r.Value))
		}
	})
}
