package bus

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/internal/recordbatch"
	"muster/platform/internal/recordbatch/recordbatchtest"
)

// at returns a valid batch with the base offset base.
func at(base int64, values ...string) []byte {
	raw := recordbatchtest.Good(values...)
	binary.BigEndian.PutUint64(raw, uint64(base))
	return raw
}

// partitionResponse returns a response without transactions.
func partitionResponse(raw []byte, highWater int64) *kmsg.FetchResponseTopicPartition {
	p := kmsg.NewFetchResponseTopicPartition()
	p.RecordBatches, p.HighWatermark = raw, highWater
	return &p
}

func TestDecode_CorruptHeaderLosesOnlyItsBatch(t *testing.T) {
	delta := func(d uint32) func([]byte) { return func(raw []byte) { binary.BigEndian.PutUint32(raw[23:], d) } }
	base := func(b uint64) func([]byte) { return func(raw []byte) { binary.BigEndian.PutUint64(raw, b) } }
	body := func(raw []byte) { raw[len(raw)-1] ^= 1 }
	format := func(f byte) func([]byte) { return func(raw []byte) { raw[16] = f } }
	both := func(a, b func([]byte)) func([]byte) { return func(raw []byte) { a(raw); b(raw) } }
	for _, c := range []struct {
		name     string
		corrupt  func(raw []byte) // changes the batch with the offsets 100 to 102
		position int64
		last     bool  // the batch is the last of the log
		end      int64 // offset after the skipped range
	}{
		{"the delta too small", delta(0), 101, false, 103},
		{"the delta too small, at the end", delta(0), 101, true, 102},
		{"the delta negative", delta(1 << 31), 100, false, 103},
		{"the delta too large", delta(2 | 1<<20), 100, false, 103},
		{"the delta too large, within the log", delta(2 | 1<<8), 100, false, 103},
		{"the delta too large, at the end", delta(2 | 1<<8), 100, true, 101},
		{"a record", body, 100, false, 103},
		{"a record, at the end", body, 101, true, 103},
		{"an unknown format", format(66), 100, false, 103},
		{"an unknown format, at the end", format(66), 100, true, 103},
		{"an unknown format, wrong offset", both(format(66), base(1<<40)), 100, false, 103},
		{"an unknown format, wrong offset, at the end", both(format(66), base(1<<40)), 100, true, 101},
		{"an old format", format(0), 100, false, 103},
		{"an old format, at the end", format(1), 100, true, 103},
		{"wrong offset", base(1 << 40), 100, false, 103},
		{"wrong offset, at the end", base(1 << 40), 100, true, 101},
		{"the maximum offset", base(1<<63 - 1), 100, false, 103},
		{"before the first", base(1 << 63), 100, false, 103},
		{"later in the log", base(356), 100, false, 103},
		{"within the next", base(102), 100, false, 103},
	} {
		t.Run(c.name, func(t *testing.T) {
			corrupt := at(100, "a", "b", "c")
			c.corrupt(corrupt)
			raw, highWater := corrupt, int64(103)
			if !c.last {
				raw, highWater = slices.Concat(corrupt, at(103, "d", "e", "f")), 5000
			}
			f := &fetcher{position: c.position}
			got, err := f.decode(partitionResponse(raw, highWater))
			var e *corruptError
			require.ErrorAs(t, err, &e, "next is %d", got.next)
			require.Equal(t, c.end, e.end)
			if !c.last {
				f.position = e.end
				got, err = f.decode(partitionResponse(raw[len(corrupt):], highWater))
				require.NoError(t, err)
				require.Len(t, got.messages, 3)
				require.EqualValues(t, 106, got.next)
			}

			// After a valid batch it is left to the next fetch.
			f.position = 99
			got, err = f.decode(partitionResponse(slices.Concat(at(99, "before"), raw), highWater))
			require.NoError(t, err)
			require.EqualValues(t, 100, got.next)
			require.Len(t, got.messages, 1)
		})
	}
}

func TestDecode_OldFormatStallsWithOneError(t *testing.T) {
	raw := slices.Concat(make([]byte, 12), []byte{0, 0, 0, 0, 1, 0}, make([]byte, 8),
		[]byte{255, 255, 255, 255, 0, 0, 0, 1, 'v'})
	binary.BigEndian.PutUint64(raw, 100)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[12:], crc32.ChecksumIEEE(raw[16:]))
	f := &fetcher{position: 100}
	_, err := f.decode(partitionResponse(slices.Concat(raw, at(101, "a")), 102))
	require.ErrorIs(t, err, recordbatch.ErrOldFormat)
	var corrupt *corruptError
	require.False(t, errors.As(err, &corrupt))

	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	fetches := 0
	f.client = &kafka.Client{Transport: roundTripFunc(func() kafka.Response {
		if fetches++; fetches > maxCorruptRetries+1 {
			cancel()
		}
		r := &fetchResponse{}
		p := kmsg.FetchResponseTopicPartition{RecordBatches: raw, HighWatermark: 101}
		r.Topics = []kmsg.FetchResponseTopic{{Partitions: []kmsg.FetchResponseTopicPartition{p}}}
		return r
	})}
	f.logger = slog.New(slog.NewTextHandler(&log, nil))
	f.run(ctx, func(context.Context, chunk) bool { return false })
	require.EqualValues(t, 100, f.position)
	require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"), log.String())
	require.Contains(t, log.String(), "offset=100")
}

// roundTripFunc is a transport that calls itself for every request.
type roundTripFunc func() kafka.Response

func (f roundTripFunc) RoundTrip(context.Context, net.Addr, kafka.Request) (kafka.Response, error) {
	return f(), nil
}

// Compaction leaves gaps, and a batch may be past the high watermark of the response.
func TestDecode_GapsAndBatchesPastHighWatermark(t *testing.T) {
	f := &fetcher{position: 101}
	got, err := f.decode(partitionResponse(slices.Concat(at(100, "a", "b"), at(200, "c"), at(201, "d")), 201))
	require.NoError(t, err)
	require.Len(t, got.messages, 3)
	require.EqualValues(t, 202, got.next)
}

func TestDecode_CopiesRecordsAndSharesHeaderNames(t *testing.T) {
	record := func(offset int64, key, value string, headers ...string) []byte {
		var b []byte
		for _, h := range headers {
			b = append(append(b, recordbatchtest.Varint(int64(len(h)))...), h...)
		}
		r := recordbatchtest.Record{
			OffsetDelta: offset, Key: key, Value: value, Headers: int64(len(headers) / 2), HeaderBytes: b,
		}
		return r.Bytes()
	}
	long := strings.Repeat("n", longHeaderName)
	var many []string
	for i := range 2 * len(headerNames{}) {
		many = append(many, "name"+strconv.Itoa(i), strconv.Itoa(i))
	}
	raw := recordbatchtest.Batch(recordbatchtest.None, 5, 4, slices.Concat(
		record(0, "k", "v", "a", "1", "b", "", long, "3"),
		record(1, "", "", "a", "4", "c", "5"),
		recordbatchtest.Record{OffsetDelta: 2, KeyLength: -1, ValueLength: -1, Headers: 1,
			HeaderBytes: slices.Concat(recordbatchtest.Varint(1), []byte("a"), recordbatchtest.Varint(-1))}.Bytes(),
		record(3, "k", "v", many...),
		record(4, "k", "v", many...)))
	batch, _, err := recordbatch.Next(raw)
	require.NoError(t, err)
	f := &fetcher{tp: topicPartition{"t", 1}}
	got, err := f.decode(partitionResponse(raw, 5))
	require.NoError(t, err)
	for i := range raw { // as when the buffer is reused
		raw[i] = 'x'
	}
	for i := range got.messages {
		m := &got.messages[i]
		_, _ = append(m.Key, "xx"...), append(m.Value, "xx"...)
		for _, h := range m.Headers {
			_ = append(h.Value, "xx"...)
		}
	}
	header := func(name, value string) kafka.Header { return kafka.Header{Key: name, Value: []byte(value)} }
	var all []kafka.Header
	for h := range slices.Chunk(many, 2) {
		all = append(all, header(h[0], h[1]))
	}
	at := func(offset int64, m kafka.Message) kafka.Message {
		m.Topic, m.Partition, m.Offset, m.Time = "t", 1, offset, time.UnixMilli(batch.FirstTimestamp)
		return m
	}
	require.Equal(t, []kafka.Message{
		at(0, kafka.Message{
			Key: []byte("k"), Value: []byte("v"),
			Headers: []kafka.Header{header("a", "1"), header("b", ""), header(long, "3")},
		}),
		at(1,
			kafka.Message{Key: []byte{}, Value: []byte{}, Headers: []kafka.Header{header("a", "4"), header("c", "5")}}),
		at(2, kafka.Message{Headers: []kafka.Header{{Key: "a"}}}),
		at(3, kafka.Message{Key: []byte("k"), Value: []byte("v"), Headers: all}),
		at(4, kafka.Message{Key: []byte("k"), Value: []byte("v"), Headers: all}),
	}, got.messages)
	name := func(message, header int) *byte { return unsafe.StringData(got.messages[message].Headers[header].Key) }
	require.Same(t, name(0, 0), name(1, 0))
	require.Same(t, name(3, 1), name(4, 1))
	require.NotSame(t, name(3, len(all)-1), name(4, len(all)-1), "only the first names are cached")
}
