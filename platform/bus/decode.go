package bus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

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

// decode copies the committed records at or after the position out of an answer. What it
// cannot read it leaves to the next fetch, which then begins with it.
func (f *fetcher) decode(p *kmsg.FetchResponseTopicPartition) (chunk, error) {
	raw, highWater := p.RecordBatches, p.HighWatermark
	c := chunk{tp: f.tp, from: f.position, next: f.position, highWater: highWater}
	answered := len(raw) > 0
	ended := f.transactions(p)
	for cost := 0; len(raw) > 0 && cost < maxChunkBytes; {
		b, rest, err := recordbatch.Next(raw)
		switch {
		case errors.Is(err, recordbatch.ErrIncomplete), errors.Is(err, recordbatch.ErrOldFormat) && oldFormat(raw):
			return c.orError(err)
		case err == nil && !b.ChecksumOK():
			err = recordbatch.ErrChecksum
		case err == nil && misplaced(&b, rest, c.next, highWater):
			err = fmt.Errorf("a record batch at offset %d, which is not its place", b.BaseOffset)
		}
		if err != nil {
			return c.orError(&damagedError{end: damageEnd(raw, f.position, highWater), highWater: highWater, err: err})
		}
		raw = rest
		end := batchEnd(&b)
		if end <= c.next { // it ended before the position
			continue
		}
		if p.LastStableOffset >= 0 && b.BaseOffset >= p.LastStableOffset { // its transaction may be open
			return c, nil
		}
		if ended.aborted(&b) {
			c.next = end
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

// batchEnd is the offset after a batch's last.
func batchEnd(b *recordbatch.Batch) int64 { return b.BaseOffset + int64(b.LastOffsetDelta) + 1 }

// misplaced says that a batch cannot be where it says, which its checksum does not
// cover: it is past the end of the log, or does not end before the next one begins.
func misplaced(b *recordbatch.Batch, rest []byte, position, highWater int64) bool {
	if b.BaseOffset < 0 || b.BaseOffset >= highWater && position < highWater {
		return true
	}
	next, _, err := recordbatch.Next(rest)
	return err == nil && next.BaseOffset > position && next.BaseOffset < batchEnd(b) && next.ChecksumOK()
}

// oldFormat says that the first batch of raw is indeed one from before Kafka 0.11, by
// the checksum that those have, and not a newer one with a damaged format.
func oldFormat(raw []byte) bool {
	end := 12 + binary.BigEndian.Uint32(raw[8:]) // checked: it is not cut off
	return crc32.ChecksumIEEE(raw[16:end]) == binary.BigEndian.Uint32(raw[12:])
}

// damageEnd is where to go on after the first batch of raw, which cannot be read. What
// its header says is believed only as far as it agrees with itself, the position, and
// the batch behind it; if nothing can be believed, one offset is given up.
func damageEnd(raw []byte, position, highWater int64) int64 {
	next := highWater + 1                                                                             // not known
	if length := int(int32(binary.BigEndian.Uint32(raw[8:]))); length >= 0 && length <= len(raw)-12 { //nolint:gosec // the protocol's numbers are signed
		if b, _, err := recordbatch.Next(raw[12+length:]); err == nil && b.BaseOffset > position && b.ChecksumOK() {
			next = min(next, b.BaseOffset)
		}
	}
	if len(raw) >= recordbatch.HeaderBytes {
		base := int64(binary.BigEndian.Uint64(raw))              //nolint:gosec // the protocol's numbers are signed
		delta := int64(int32(binary.BigEndian.Uint32(raw[23:]))) //nolint:gosec // the protocol's numbers are signed
		count := int64(int32(binary.BigEndian.Uint32(raw[57:]))) //nolint:gosec // the protocol's numbers are signed
		if end := base + delta + 1; count == delta+1 && 0 <= base && base <= position && position < end && end <= min(next, highWater) {
			return end
		}
	}
	if next <= highWater {
		return next
	}
	return position + 1
}

// take adds the records of a batch from the position on.
func (f *fetcher) take(c *chunk, b *recordbatch.Batch, cost *int) error {
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
	size := len(r.Key) + len(r.Value)
	r.EachHeader(func(h recordbatch.Header) { size += len(h.Value) })
	// One allocation for all: a record is kept or dropped as a whole.
	room := make([]byte, 0, size)
	own := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		from := len(room)
		room = append(room, b...)
		return room[from:len(room):len(room)]
	}
	m.Key, m.Value = own(r.Key), own(r.Value)
	if r.HeaderCount > 0 {
		m.Headers = make([]kafka.Header, 0, r.HeaderCount)
		r.EachHeader(func(h recordbatch.Header) {
			m.Headers = append(m.Headers, kafka.Header{Key: f.names.at(len(m.Headers), h.Key), Value: own(h.Value)})
		})
	}
	return m
}

// headerNames are the last names of the first headers: in a topic they hardly change from
// message to message.
type headerNames [eventHeaders + 2]string

// longHeaderName is longer than any of those that are kept, in bytes.
const longHeaderName = 64

// at returns the name of the header of a number.
func (n *headerNames) at(i int, name []byte) string {
	if i >= len(n) || len(name) >= longHeaderName {
		return string(name)
	}
	if n[i] != string(name) {
		n[i] = string(name)
	}
	return n[i]
}
