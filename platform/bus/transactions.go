package bus

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/internal/recordbatch"
)

// transactions tells which batches of one answer are of aborted transactions: brokers leave dropping them to consumers,
// with the isolation level read_committed too.
type transactions struct {
	markers map[int64][]marker // of each producer, by offset
	index   map[int64][]int64  // where the aborted transactions of each producer begin
}

// marker is the end of a producer's transaction.
type marker struct {
	offset    int64
	committed bool
}

// transactions reads the markers in an answer, and its index of aborted transactions.
func (f *fetcher) transactions(p *kmsg.FetchResponseTopicPartition) transactions {
	var t transactions
	for raw := p.RecordBatches; len(raw) > 0; {
		b, rest, err := recordbatch.Next(raw)
		if err != nil {
			break // decode does not read beyond it either
		}
		raw = rest
		if committed, ok := f.decoder.EndOfTransaction(&b); ok {
			if t.markers == nil {
				t.markers = make(map[int64][]marker)
			}
			t.markers[b.ProducerID] = append(t.markers[b.ProducerID], marker{offset: b.BaseOffset, committed: committed})
		}
	}
	for _, a := range p.AbortedTransactions {
		if t.index == nil {
			t.index = make(map[int64][]int64)
		}
		t.index[a.ProducerID] = append(t.index[a.ProducerID], a.FirstOffset)
	}
	return t
}

// aborted reports whether the records of a batch were taken back. The producer's next marker says so. If it is not in
// the answer, the index does: a transaction in it reaches up to the producer's next marker.
//
// The index alone would not do. The embedded broker's compaction removes markers of aborted transactions whose records
// it removes, and keeps the index: a later transaction of the producer would seem to be aborted, too.
func (t transactions) aborted(b *recordbatch.Batch) bool {
	if !b.InTransaction() {
		return false
	}
	ended := int64(math.MinInt64) // the producer's transaction before
	for _, m := range t.markers[b.ProducerID] {
		if m.offset > b.BaseOffset {
			return !m.committed
		}
		ended = m.offset
	}
	for _, first := range t.index[b.ProducerID] {
		if first > ended && first <= b.BaseOffset {
			return true
		}
	}
	return false
}
