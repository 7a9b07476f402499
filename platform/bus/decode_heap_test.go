package bus

import (
	"context"
	"log/slog"
	"runtime"
	"strconv"
	"testing"
	"unsafe"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/internal/recordbatch/recordbatchtest"
)

// Each partition has a batch of tiny messages, and its first chunk waits for the consumer.
func TestFetcher_RetainsFewTinyMessagesOfEachPartition(t *testing.T) {
	const partitions, count, maxHeap = 8, 50_000, 32 << 20
	records := make([]byte, 0, 16*count)
	for i := range int64(count) {
		records = append(records, recordbatchtest.Record{OffsetDelta: i, Key: "k", Value: "v"}.Bytes()...)
	}
	for codec, name := range map[int16]string{recordbatchtest.None: "uncompressed", recordbatchtest.Zstd: "zstd"} {
		t.Run(name, func(t *testing.T) {
			raw, err := recordbatchtest.Compress(codec, records)
			require.NoError(t, err)
			raw = recordbatchtest.Batch(codec, count, count-1, raw)
			before := heapAfterGC()
			var fetchers [partitions]*fetcher
			var retained [partitions]chunk
			fetches := 0
			for i := range fetchers {
				f := &fetcher{tp: topicPartition{"t", i}, logger: slog.New(slog.DiscardHandler)}
				f.client = &kafka.Client{Transport: roundTripFunc(func() kafka.Response {
					fetches++
					r := &fetchResponse{}
					p := partitionResponse(raw, count)
					p.LastStableOffset = count
					r.Topics = []kmsg.FetchResponseTopic{{Partitions: []kmsg.FetchResponseTopicPartition{*p}}}
					return r
				})}
				f.run(t.Context(), func(_ context.Context, c chunk) bool {
					retained[i] = c
					return false
				})
				require.NotEmpty(t, retained[i].messages)
				fetchers[i] = f
			}
			require.Less(t, heapAfterGC()-min(before, heapAfterGC()), uint64(maxHeap))

			for i, f := range fetchers {
				next := retained[i].next
				got := len(retained[i].messages)
				f.run(t.Context(), func(_ context.Context, c chunk) bool {
					require.Equal(t, next, c.from)
					for j := range c.messages {
						require.EqualValues(t, got, c.messages[j].Offset, "partition "+strconv.Itoa(i))
						got++
					}
					next = c.next
					return next < count
				})
				require.Equal(t, count, got)
			}
			require.Equal(t, partitions, fetches, "a response is decoded to its end without another fetch")
		})
	}
}

func TestAssembler_LargeBatchIsCopiedFewTimes(t *testing.T) {
	const count, chunks = 20_000, 10
	c := chunk{tp: topicPartition{"t", 0}, messages: make([]kafka.Message, count/chunks)}
	a := &assembler{maxMessages: count, maxBytes: 1 << 30}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range chunks {
		a.add(c)
	}
	runtime.ReadMemStats(&after)
	require.Len(t, a.messages, count)
	batch := uint64(count) * uint64(unsafe.Sizeof(kafka.Message{}))
	require.Less(t, after.TotalAlloc-before.TotalAlloc, 3*batch)
}

func heapAfterGC() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
