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

// maxChunkBytes is the approximate memory of the messages of one chunk. Every partition may hold one.
const maxChunkBytes = 1 << 20

// maxRetainedBytes is the maximum size of a response and its decompressed batch that are retained while more chunks are
// to be decoded from them. Larger ones are dropped and fetched again.
const maxRetainedBytes = 4 << 20

// maxRefetchedChunkBytes replaces maxChunkBytes if the response is not retained: a small record batch may inflate to a
// large size, and each chunk inflates it again.
const maxRefetchedChunkBytes = 16 << 20

// Approximate memory of a message and of a header in addition to their bytes.
const (
	messageOverhead = 256
	headerOverhead  = 64
)

// partitionReader decodes the response for one partition in chunks.
type partitionReader struct {
	response *kmsg.FetchResponseTopicPartition
	from     int64  // requested position
	raw      []byte // batches that are not open yet
	ended    transactions
	batch    recordbatch.Batch
	open     *recordbatch.Reader // of batch; nil: none is open
	count    int                 // messages of the previous chunk, the capacity for the next one
}

// isRetainable reports whether the response may stay in memory while its chunk waits for the consumer.
func (r *partitionReader) isRetainable() bool {
	held := len(r.response.RecordBatches)
	if r.open != nil {
		held += r.open.Inflated()
	}
	return held <= maxRetainedBytes
}

// isChunkFull reports whether a chunk of the given memory cost is full.
func (r *partitionReader) isChunkFull(cost int) bool {
	return cost >= maxRefetchedChunkBytes || cost >= maxChunkBytes && r.isRetainable()
}

// decode returns the first chunk of committed records at or after the position. An unreadable batch ends the chunk; the
// next fetch begins with it.
func (f *fetcher) decode(p *kmsg.FetchResponseTopicPartition) (chunk, error) {
	f.reader = &partitionReader{response: p, from: f.position, raw: p.RecordBatches, ended: f.transactions(p)}
	return f.decodeNext()
}

// decodeNext returns the next chunk of the response. It retains the response if the chunk is full.
func (f *fetcher) decodeNext() (chunk, error) {
	r := f.reader
	f.reader = nil
	highWater := r.response.HighWatermark
	c := chunk{tp: f.tp, from: f.position, next: f.position, highWater: highWater}
	if r.count > 0 {
		c.messages = make([]kafka.Message, 0, r.count)
	}
	cost := 0
	for r.open != nil || len(r.raw) > 0 {
		before := c
		if r.open == nil {
			if r.isChunkFull(cost) {
				f.retain(r, len(c.messages))
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
		full, err := f.appendRecords(&c, r, &cost)
		switch {
		case err != nil:
			return before.orError(r.corrupt(f.position, err))
		case full:
			f.retain(r, len(c.messages))
			return c, nil
		}
		c.next = end
		r.open = nil
	}
	if c.next == r.from && len(r.response.RecordBatches) > 0 && c.next < highWater {
		// All batches end before the position, as compaction leaves them. Advance by one.
		c.next++
	}
	return c, nil
}

// retain keeps the response for the next chunk if it is small enough. count is the number of messages of this chunk.
func (f *fetcher) retain(r *partitionReader, count int) {
	if r.isRetainable() {
		r.count = count
		f.reader = r
	}
}

// corrupt returns the error of the open batch.
func (r *partitionReader) corrupt(position int64, err error) error {
	highWater := r.response.HighWatermark
	return &corruptError{end: max(min(batchEnd(&r.batch), highWater), position+1), highWater: highWater, err: err}
}

// nextBatch opens the next batch, or skips it if it has nothing to deliver. It returns false if the transaction of the
// batch may be open.
func (f *fetcher) nextBatch(r *partitionReader, c *chunk) (readable bool, err error) {
	raw, highWater := r.raw, r.response.HighWatermark
	b, rest, err := recordbatch.Next(raw)
	switch {
	case errors.Is(err, recordbatch.ErrIncomplete), errors.Is(err, recordbatch.ErrOldFormat) && isOldFormat(raw):
		return false, err
	case err == nil && !b.ChecksumOK():
		err = recordbatch.ErrChecksum
	case err == nil && isMisplaced(&b, rest, c.next, highWater):
		err = fmt.Errorf("record batch has the wrong base offset %d", b.BaseOffset)
	}
	if err != nil {
		return false, &corruptError{end: corruptEnd(raw, f.position, highWater), highWater: highWater, err: err}
	}
	r.raw = rest
	end := batchEnd(&b)
	if end <= c.next { // it ends before the position
		return true, nil
	}
	if lso := r.response.LastStableOffset; lso >= 0 && b.BaseOffset >= lso { // its transaction may be open
		return false, nil
	}
	if b.Control() || r.ended.aborted(&b) {
		c.next = end
		return true, nil
	}
	r.batch = b
	if r.open, err = f.decoder.Open(&r.batch); err != nil {
		return false, r.corrupt(f.position, err)
	}
	return true, nil
}

// orError returns the chunk if it advances the position, and err otherwise.
func (c chunk) orError(err error) (chunk, error) {
	if c.next > c.from {
		return c, nil
	}
	return c, err
}

// batchEnd returns the offset after the last one of a batch.
func batchEnd(b *recordbatch.Batch) int64 { return b.BaseOffset + int64(b.LastOffsetDelta) + 1 }

// isMisplaced reports whether the base offset of a batch, which the checksum does not cover, is wrong: the batch is
// past the end of the log or overlaps with the next one.
func isMisplaced(b *recordbatch.Batch, rest []byte, position, highWater int64) bool {
	if b.BaseOffset < 0 || b.BaseOffset >= highWater && position < highWater {
		return true
	}
	next, _, err := recordbatch.Next(rest)
	return err == nil && next.BaseOffset > position && next.BaseOffset < batchEnd(b) && next.ChecksumOK()
}

// isOldFormat reports whether the first batch of raw is from before Kafka 0.11, by the checksum of that format, and not
// a newer one with a corrupt format byte.
func isOldFormat(raw []byte) bool {
	end := 12 + binary.BigEndian.Uint32(raw[8:]) // the caller has checked that it is complete
	return crc32.ChecksumIEEE(raw[16:end]) == binary.BigEndian.Uint32(raw[12:])
}

// corruptEnd returns the offset after the first batch of raw, which is unreadable. It trusts the header only if that is
// consistent with itself, the position and the next batch; otherwise it skips one offset.
func corruptEnd(raw []byte, position, highWater int64) int64 {
	next := highWater + 1                                  // unknown
	length := int(int32(binary.BigEndian.Uint32(raw[8:]))) //nolint:gosec // signed in the protocol
	if length >= 0 && length <= len(raw)-12 {
		if b, _, err := recordbatch.Next(raw[12+length:]); err == nil && b.BaseOffset > position && b.ChecksumOK() {
			next = min(next, b.BaseOffset)
		}
	}
	if len(raw) >= recordbatch.HeaderBytes {
		base := int64(binary.BigEndian.Uint64(raw))              //nolint:gosec // signed in the protocol
		delta := int64(int32(binary.BigEndian.Uint32(raw[23:]))) //nolint:gosec // signed in the protocol
		count := int64(int32(binary.BigEndian.Uint32(raw[57:]))) //nolint:gosec // signed in the protocol
		end := base + delta + 1
		if count == delta+1 && 0 <= base && base <= position && position < end && end <= min(next, highWater) {
			return end
		}
	}
	if next <= highWater {
		return next
	}
	return position + 1
}

// appendRecords appends the records of the open batch from the position on, and reports whether the chunk is full
// before the batch ends.
func (f *fetcher) appendRecords(c *chunk, r *partitionReader, cost *int) (full bool, err error) {
	for !r.isChunkFull(*cost) {
		rec, err := r.open.Next()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		offset := r.batch.BaseOffset + int64(rec.OffsetDelta)
		if offset < f.position { // the batch begins before the position
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

// message returns a copy of a record.
func (f *fetcher) message(r recordbatch.Record) kafka.Message {
	m := kafka.Message{Topic: f.tp.topic, Partition: f.tp.partition}
	size := len(r.Key) + len(r.Value)
	r.EachHeader(func(h recordbatch.Header) { size += len(h.Value) })
	// One allocation for all: a record is retained or dropped as a whole.
	buf := make([]byte, 0, size)
	own := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		from := len(buf)
		buf = append(buf, b...)
		return buf[from:len(buf):len(buf)]
	}
	m.Key, m.Value = own(r.Key), own(r.Value)
	if r.HeaderCount > 0 {
		m.Headers = make([]kafka.Header, 0, r.HeaderCount)
		r.EachHeader(func(h recordbatch.Header) {
			m.Headers = append(m.Headers, kafka.Header{Key: f.names.name(len(m.Headers), h.Key), Value: own(h.Value)})
		})
	}
	return m
}

// headerNames caches the names of the first headers, which hardly change from message to message of a topic.
type headerNames [eventHeaders + 2]string

// longHeaderName is the length in bytes from which names are not cached.
const longHeaderName = 64

// name returns the name of the i-th header.
func (n *headerNames) name(i int, name []byte) string {
	if i >= len(n) || len(name) >= longHeaderName {
		return string(name)
	}
	if n[i] != string(name) {
		n[i] = string(name)
	}
	return n[i]
}
