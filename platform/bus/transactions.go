package bus

import (
	"context"
	"fmt"
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
			end := marker{offset: b.BaseOffset, committed: committed}
			t.markers[b.ProducerID] = append(t.markers[b.ProducerID], end)
		}
	}
	for id, m := range f.ends { // behind those of the answer, or one of them
		if known := t.markers[id]; len(known) == 0 || known[len(known)-1].offset < m.offset {
			if t.markers == nil {
				t.markers = make(map[int64][]marker)
			}
			t.markers[id] = append(known, m)
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

// aborted reports whether the records of a batch were taken back. The producer's next marker says so. Without one the
// index does: a transaction in it reaches up to the producer's next marker.
func (t transactions) aborted(b *recordbatch.Batch) bool {
	aborted, _ := t.end(b)
	return aborted
}

// end reports whether a batch belongs to an aborted transaction, and whether the marker that says so is known.
func (t transactions) end(b *recordbatch.Batch) (aborted, marked bool) {
	if !b.InTransaction() {
		return false, true
	}
	before := int64(math.MinInt64) // where the producer's transaction before ended
	for _, m := range t.markers[b.ProducerID] {
		if m.offset > b.BaseOffset {
			return !m.committed, true
		}
		before = m.offset
	}
	for _, first := range t.index[b.ProducerID] {
		if first > before && first <= b.BaseOffset {
			return true, false
		}
	}
	return false, false
}

// findEnds looks beyond an answer for the ends of transactions that are aborted by the index alone, and remembers them.
// The embedded broker's compaction removes markers of aborted transactions whose records it removes, and keeps the
// index: a later transaction of the producer would seem to be aborted, too.
func (f *fetcher) findEnds(ctx context.Context, p *kmsg.FetchResponseTopicPartition) error {
	if len(p.AbortedTransactions) == 0 {
		return nil
	}
	t := f.transactions(p)
	next := f.position // behind the answer
	unmarked := make(map[int64]bool)
	for raw := p.RecordBatches; len(raw) > 0; {
		b, rest, err := recordbatch.Next(raw)
		if err != nil {
			break
		}
		raw, next = rest, max(next, batchEnd(&b))
		if aborted, marked := t.end(&b); aborted && !marked {
			unmarked[b.ProducerID] = true
		}
	}
	for id := range unmarked {
		m, ok, err := f.findEnd(ctx, id, next)
		if err != nil {
			return fmt.Errorf("find the end of a transaction: %w", err)
		}
		if ok {
			if f.ends == nil {
				f.ends = make(map[int64]marker)
			}
			f.ends[id] = m
		}
	}
	return nil
}

// findEnd returns a producer's first marker from an offset on, up to the last stable offset.
func (f *fetcher) findEnd(ctx context.Context, id, offset int64) (m marker, ok bool, err error) {
	for {
		_, p, err := f.ask(ctx, offset, nil)
		if err != nil {
			return marker{}, false, err
		}
		next := offset
		for raw := p.RecordBatches; len(raw) > 0; {
			b, rest, err := recordbatch.Next(raw)
			if err != nil {
				break
			}
			raw, next = rest, max(next, batchEnd(&b))
			if committed, ok := f.decoder.EndOfTransaction(&b); ok && b.ProducerID == id && b.BaseOffset >= offset {
				return marker{offset: b.BaseOffset, committed: committed}, true, nil
			}
		}
		if next == offset || next >= p.LastStableOffset {
			return marker{}, false, nil
		}
		offset = next
	}
}
