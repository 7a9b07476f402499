package bus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/internal/recordbatch"
)

// maxChunkBytes is about how much memory the messages of one chunk take: every partition may hold one.
const maxChunkBytes = 1 << 20

// maxHeldBytes is how much an answer and its inflated batch may take to be held until the following chunks have been
// read from them. What takes more is let go of and fetched again.
const maxHeldBytes = 4 << 20

// maxDroppedChunkBytes replaces maxChunkBytes where the answer is not held: a small record batch can inflate to very
// much, and each chunk inflates it again.
const maxDroppedChunkBytes = 16 << 20

// What a message and a header take beside their bytes, about.
const (
	messageOverhead = 256
	headerOverhead  = 64
)

// reading is an answer that is read chunk by chunk.
type reading struct {
	answer *kmsg.FetchResponseTopicPartition
	from   int64  // the position that was asked for
	raw    []byte // batches that are not open yet
	ended  transactions
	batch  recordbatch.Batch
	open   *recordbatch.Reader // of batch; nil: none is open
	count  int                 // of messages of the previous chunk, to size the next one
}

// holdable reports whether the answer may be held while its chunk waits to be taken.
func (r *reading) holdable() bool {
	held := len(r.answer.RecordBatches)
	if r.open != nil {
		held += r.open.Inflated()
	}
	return held <= maxHeldBytes
}

// chunkFull reports whether a chunk of a cost takes no more records.
func (r *reading) chunkFull(cost int) bool {
	return cost >= maxDroppedChunkBytes || cost >= maxChunkBytes && r.holdable()
}

// decode copies the committed records at or after the position out of an answer, up to a chunk. What it
// cannot read it leaves to the next fetch, which then begins with it.
func (f *fetcher) decode(p *kmsg.FetchResponseTopicPartition) (chunk, error) {
	f.reading = &reading{answer: p, from: f.position, raw: p.RecordBatches, ended: f.transactions(p)}
	return f.decodeNext()
}

// decodeNext reads the next chunk of the answer. It keeps the answer if the chunk is full.
func (f *fetcher) decodeNext() (chunk, error) {
	r := f.reading
	f.reading = nil
	highWater := r.answer.HighWatermark
	c := chunk{tp: f.tp, from: f.position, next: f.position, highWater: highWater}
	if r.count > 0 {
		c.messages = make([]kafka.Message, 0, r.count)
	}
	cost := 0
	for r.open != nil || len(r.raw) > 0 {
		before := c
		if r.open == nil {
			if r.chunkFull(cost) {
				f.hold(r, len(c.messages))
				return c, nil
			}
			readable, err := f.nextBatch(r, &c)
			if err != nil {
				return c.orError(err)
			}
			if !readable {
				return c, nil
			}
			if r.open == nil {
				continue
			}
		}
		end := batchEnd(&r.batch)
		full, err := f.take(&c, r, &cost)
		switch {
		case err != nil:
			return before.orError(r.damaged(f.position, err))
		case full:
			f.hold(r, len(c.messages))
			return c, nil
		}
		c.next = end
		r.open = nil
	}
	if c.next == r.from && len(r.answer.RecordBatches) > 0 && c.next < highWater {
		// Only batches that end before the position: what compaction left of them. Feel
		// the way forward.
		c.next++
	}
	return c, nil
}

// hold keeps the answer, whose chunk of count messages is full, for the next chunk if it is small enough.
func (f *fetcher) hold(r *reading, count int) {
	if r.holdable() {
		r.count = count
		f.reading = r
	}
}

// damaged is the error of the open batch.
func (r *reading) damaged(position int64, err error) error {
	highWater := r.answer.HighWatermark
	return &damagedError{end: max(min(batchEnd(&r.batch), highWater), position+1), highWater: highWater, err: err}
}

// nextBatch opens the next batch, or passes over it if nothing in it is to be delivered. It returns false if the
// transaction of the batch may be open.
func (f *fetcher) nextBatch(r *reading, c *chunk) (readable bool, err error) {
	raw, highWater := r.raw, r.answer.HighWatermark
	b, rest, err := recordbatch.Next(raw)
	switch {
	case errors.Is(err, recordbatch.ErrIncomplete), errors.Is(err, recordbatch.ErrOldFormat) && oldFormat(raw):
		return false, err
	case err == nil && !b.ChecksumOK():
		err = recordbatch.ErrChecksum
	case err == nil && misplaced(&b, rest, c.next, highWater):
		err = fmt.Errorf("a record batch at offset %d, which is not its place", b.BaseOffset)
	}
	if err != nil {
		return false, &damagedError{end: damageEnd(raw, f.position, highWater), highWater: highWater, err: err}
	}
	r.raw = rest
	end := batchEnd(&b)
	if end <= c.next { // it ended before the position
		return true, nil
	}
	if lso := r.answer.LastStableOffset; lso >= 0 && b.BaseOffset >= lso { // its transaction may be open
		return false, nil
	}
	if b.Control() || r.ended.aborted(&b) {
		c.next = end
		return true, nil
	}
	r.batch = b
	if r.open, err = f.decoder.Open(&r.batch); err != nil {
		return false, r.damaged(f.position, err)
	}
	return true, nil
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

// take adds the records of the open batch from the position on, and reports whether the chunk is full before the
// batch's end.
func (f *fetcher) take(c *chunk, r *reading, cost *int) (full bool, err error) {
	for !r.chunkFull(*cost) {
		rec, err := r.open.Next()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		offset := r.batch.BaseOffset + int64(rec.OffsetDelta)
		if offset < f.position { // the batch began before the position
			continue
		}
		m := f.message(rec)
		m.Offset = offset
		m.Time = time.UnixMilli(r.batch.FirstTimestamp + rec.TimestampDelta)
		c.messages = append(c.messages, m)
		size := int(messageSize(&m))
		c.bytes += size
		c.next = offset + 1
		*cost += size + messageOverhead + headerOverhead*rec.HeaderCount
	}
	return true, nil
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
