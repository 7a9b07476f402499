package bus

import (
	"bytes"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"

	"muster/platform/internal/recordbatch"
)

// maxChunkBytes is about how much memory the messages of one chunk take: a small
// record batch can inflate to very much, and very many.
const maxChunkBytes = 16 << 20

// What a message and a header take beside their bytes, about.
const (
	messageOverhead = 256
	headerOverhead  = 64
)

// errChunkFull ends the reading of a batch.
var errChunkFull = errors.New("the chunk is full")

// decode copies the records at or after the position out of an answer. What it
// cannot read it leaves to the next fetch, which then begins with it.
func (f *fetcher) decode(raw []byte, highWater int64) (chunk, error) {
	c := chunk{tp: f.tp, from: f.position, next: f.position, highWater: highWater}
	answered := len(raw) > 0
	for cost := 0; len(raw) > 0 && cost < maxChunkBytes; {
		b, rest, err := recordbatch.Next(raw)
		switch {
		case errors.Is(err, recordbatch.ErrIncomplete), errors.Is(err, recordbatch.ErrOldFormat):
			return c.orError(err)
		case err != nil:
			return c.orError(&damagedError{end: max(f.position, b.BaseOffset) + 1, highWater: highWater, err: err})
		}
		raw = rest
		end := b.BaseOffset + int64(b.LastOffsetDelta) + 1
		if end <= c.next { // it ended before the position
			continue
		}
		before := c
		err = f.take(&c, &b, &cost)
		switch {
		case err == nil:
			c.next = end
		case errors.Is(err, errChunkFull):
			return c, nil
		default:
			return before.orError(&damagedError{end: max(min(end, highWater), f.position+1), highWater: highWater, err: err})
		}
	}
	if c.next == c.from && answered && c.next < highWater {
		// Only batches that end before the position: what compaction left of them. Feel
		// the way forward.
		c.next++
	}
	return c, nil
}

// orError is the chunk when it goes on from the position, and err when it does not.
func (c chunk) orError(err error) (chunk, error) {
	if c.next > c.from {
		return c, nil
	}
	return c, err
}

// take adds the records of a batch from the position on.
func (f *fetcher) take(c *chunk, b *recordbatch.Batch, cost *int) error {
	if !b.ChecksumOK() {
		return recordbatch.ErrChecksum
	}
	if b.Control() {
		return nil
	}
	return f.decoder.Records(b, func(r recordbatch.Record) error {
		offset := b.BaseOffset + int64(r.OffsetDelta)
		if offset < f.position { // the batch began before the position
			return nil
		}
		if *cost >= maxChunkBytes {
			return errChunkFull
		}
		m := f.message(r)
		m.Offset = offset
		m.Time = time.UnixMilli(b.FirstTimestamp + r.TimestampDelta)
		c.messages = append(c.messages, m)
		size := int(messageSize(&m))
		c.bytes += size
		c.next = offset + 1
		*cost += size + messageOverhead + headerOverhead*r.HeaderCount
		return nil
	})
}

// message copies a record.
func (f *fetcher) message(r recordbatch.Record) kafka.Message {
	m := kafka.Message{Topic: f.tp.topic, Partition: f.tp.partition}
	// One allocation for both: a record is kept or dropped as a whole.
	buf := make([]byte, len(r.Key)+len(r.Value))
	if r.Key != nil {
		m.Key = buf[:len(r.Key):len(r.Key)]
		copy(m.Key, r.Key)
	}
	if r.Value != nil {
		m.Value = buf[len(r.Key):]
		copy(m.Value, r.Value)
	}
	if r.HeaderCount > 0 {
		m.Headers = make([]kafka.Header, 0, r.HeaderCount)
		r.EachHeader(func(h recordbatch.Header) {
			m.Headers = append(m.Headers, kafka.Header{Key: string(h.Key), Value: bytes.Clone(h.Value)})
		})
	}
	return m
}
