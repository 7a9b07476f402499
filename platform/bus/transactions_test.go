package bus

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/internal/recordbatch/recordbatchtest"
)

// inTransaction makes a batch part of a producer's transaction.
func inTransaction(id int64, raw []byte) []byte {
	binary.BigEndian.PutUint64(raw[43:], uint64(id))
	binary.BigEndian.PutUint16(raw[21:], binary.BigEndian.Uint16(raw[21:])|0x10)
	recordbatchtest.Sign(raw)
	return raw
}

// endMarker returns the marker that ends a producer's transaction.
func endMarker(id, offset int64, kind byte) []byte {
	record := recordbatchtest.Record{Key: string([]byte{0, 0, 0, kind}), Value: "\x00\x00\x00\x00\x00\x00"}
	raw := recordbatchtest.Batch(0x20, 1, 0, record.Bytes())
	binary.BigEndian.PutUint64(raw, uint64(offset))
	return inTransaction(id, raw)
}

func TestDecode_SkipsUncommittedMessages(t *testing.T) {
	const abort, commit, leaderChange = 0, 1, 2
	type aborted = kmsg.FetchResponseTopicPartitionAbortedTransaction
	for name, c := range map[string]struct {
		batches  [][]byte
		aborted  []aborted
		stable   int64 // 0: the end
		position int64
		want     []int64
		next     int64
	}{
		"aborted, then committed": {
			batches: [][]byte{
				inTransaction(1, at(0, "a")), endMarker(1, 1, abort),
				inTransaction(1, at(2, "b")), endMarker(1, 3, commit),
			},
			aborted: []aborted{{ProducerID: 1, FirstOffset: 0}}, want: []int64{2}, next: 4,
		},
		"two producers, interleaved": {
			batches: [][]byte{
				inTransaction(1, at(0, "a")), inTransaction(2, at(1, "b")), at(2, "c"), inTransaction(1, at(3, "d")),
				endMarker(2, 4, commit), endMarker(1, 5, abort), at(6, "e"),
			},
			aborted: []aborted{{ProducerID: 1, FirstOffset: 0}}, want: []int64{1, 2, 6}, next: 7,
		},
		"the marker is in a later response": {
			batches: [][]byte{inTransaction(1, at(0, "a")), inTransaction(2, at(1, "b"))},
			aborted: []aborted{{ProducerID: 1, FirstOffset: 0}}, want: []int64{1}, next: 2,
		},
		"the transaction began before": {
			batches: [][]byte{inTransaction(1, at(7, "a")), inTransaction(1, at(8, "b"))}, position: 7,
			aborted: []aborted{{ProducerID: 1, FirstOffset: 3}}, next: 9,
		},
		"an aborted transaction after a committed one, its marker later": {
			batches: [][]byte{inTransaction(1, at(0, "a")), endMarker(1, 1, commit), inTransaction(1, at(2, "b"))},
			aborted: []aborted{{ProducerID: 1, FirstOffset: 2}}, want: []int64{0}, next: 3,
		},
		"compaction removed an aborted transaction with its marker, not the index": {
			batches: [][]byte{at(0, "a"), inTransaction(1, at(9, "b")), endMarker(1, 10, commit)},
			aborted: []aborted{{ProducerID: 1, FirstOffset: 4}}, want: []int64{0, 9}, next: 11,
		},
		"a marker of another kind": {
			batches: [][]byte{inTransaction(1, at(0, "a")), endMarker(1, 1, leaderChange), endMarker(1, 2, abort)},
			aborted: []aborted{{ProducerID: 1, FirstOffset: 0}}, next: 3,
		},
		"an idempotent producer without transactions": {
			batches: [][]byte{func() []byte {
				raw := inTransaction(1, at(0, "a"))
				raw[22] &^= 0x10
				recordbatchtest.Sign(raw)
				return raw
			}()},
			aborted: []aborted{{ProducerID: 1, FirstOffset: 0}}, want: []int64{0}, next: 1,
		},
		"after the last stable offset": {
			batches: [][]byte{at(0, "a"), inTransaction(1, at(1, "b")), at(2, "c")}, stable: 1, want: []int64{0},
			next: 1,
		},
		"only an open transaction": {
			batches: [][]byte{inTransaction(1, at(1, "b"))}, stable: 1, position: 1, next: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			raw := slices.Concat(c.batches...)
			p := partitionResponse(raw, 100)
			p.AbortedTransactions, p.LastStableOffset = c.aborted, 100
			if c.stable > 0 {
				p.LastStableOffset = c.stable
			}
			f := &fetcher{position: c.position}
			got, err := f.decode(p)
			require.NoError(t, err)
			var offsets []int64
			for _, m := range got.messages {
				offsets = append(offsets, m.Offset)
			}
			require.Equal(t, c.want, offsets)
			require.Equal(t, c.next, got.next)
		})
	}
}
