package bus

import (
	"context"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/internal/recordbatch"
)

// transactions determines which batches of a response belong to aborted transactions. Brokers leave filtering them to
// consumers, also with the isolation level read_committed.
type transactions struct {
	markers map[int64][]marker // by producer, in offset order
	index   map[int64][]int64  // first offsets of aborted transactions, by producer
}

// marker is the end marker of a producer's transaction.
type marker struct {
	offset    int64
	committed bool
}

// transactions reads the end markers in a response, and its index of aborted transactions.
func (f *fetcher) transactions(p *kmsg.FetchResponseTopicPartition) transactions {
	var t transactions
	for raw := p.RecordBatches; len(raw) > 0; {
		b, rest, err := recordbatch.Next(raw)
		if err != nil {
			break // decode stops here as well
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
	for id, m := range f.ends { // after those of the response, or one of them
		if found := t.markers[id]; len(found) == 0 || found[len(found)-1].offset < m.offset {
			if t.markers == nil {
				t.markers = make(map[int64][]marker)
			}
			t.markers[id] = append(found, m)
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

// aborted reports whether a batch belongs to an aborted transaction.
func (t transactions) aborted(b *recordbatch.Batch) bool {
	aborted, _ := t.end(b)
	return aborted
}

// end reports whether a batch belongs to an aborted transaction, and whether its end marker was found. Without a marker
// the index decides: a transaction in it reaches up to the producer's next marker.
func (t transactions) end(b *recordbatch.Batch) (aborted, marked bool) {
	if !b.InTransaction() {
		return false, true
	}
	previous := int64(math.MinInt64) // end of the producer's previous transaction
	for _, m := range t.markers[b.ProducerID] {
		if m.offset > b.BaseOffset {
			return !m.committed, true
		}
		previous = m.offset
	}
	for _, first := range t.index[b.ProducerID] {
		if first > previous && first <= b.BaseOffset {
			return true, false
		}
	}
	return false, false
}

// findEnds searches after a response for the end markers of transactions that only the index reports as aborted, and
// caches them. The embedded broker's compaction removes the markers of aborted transactions whose records it removes,
// but keeps the index: a later transaction of the producer would seem aborted as well.
func (f *fetcher) findEnds(ctx context.Context, p *kmsg.FetchResponseTopicPartition) error {
	if len(p.AbortedTransactions) == 0 {
		return nil
	}
	t := f.transactions(p)
	next := f.position // after the response
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

// findEnd returns a producer's first end marker from an offset on, up to the last stable offset.
func (f *fetcher) findEnd(ctx context.Context, id, offset int64) (m marker, ok bool, err error) {
	for {
		_, p, err := f.request(ctx, offset, nil)
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
