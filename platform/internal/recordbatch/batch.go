// Package recordbatch reads record batches of the Kafka protocol (format 2, since Kafka 0.11) from untrusted sources:
// everything in them is checked before it is used, and no batch takes more memory than [MaxInflated].
package recordbatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// HeaderBytes is the offset of the records in a batch.
const HeaderBytes = 61

// lengthEnd is the offset of the bytes that a batch's length counts.
const lengthEnd = 12

// maxHeaders limits the headers of a record, because each takes much more memory than its minimum of two bytes.
const maxHeaders = 100_000

const (
	codecMask        = 0x07
	transactionalBit = 0x10
	controlBit       = 0x20
	currentFormat    = 2
)

// The types of control records that end a transaction.
const (
	abortMarker  = 0
	commitMarker = 1
)

var (
	// ErrIncomplete is returned for a truncated batch.
	ErrIncomplete = errors.New("record batch is truncated")
	// ErrOldFormat is returned for a batch in a format older than that of Kafka 0.11.
	ErrOldFormat = errors.New("record batch format is older than Kafka 0.11")
	// ErrTooLarge is returned for a batch that inflates to more than MaxInflated.
	ErrTooLarge = errors.New("record batch inflates to more than the limit")
	// ErrChecksum is returned for a corrupt batch.
	ErrChecksum = errors.New("record batch checksum does not match")
)

// Batch is a batch whose header has been read.
type Batch struct {
	BaseOffset      int64
	LastOffsetDelta int32
	FirstTimestamp  int64 // Unix milliseconds
	MaxTimestamp    int64
	Count           int32 // number of records
	Attributes      int16
	ProducerID      int64 // negative without idempotence
	ProducerEpoch   int16
	Raw             []byte // the whole batch
}

// Next splits the first batch off raw. With ErrOldFormat, BaseOffset is set.
func Next(raw []byte) (b Batch, rest []byte, err error) {
	if len(raw) < lengthEnd {
		return Batch{}, nil, ErrIncomplete
	}
	b.BaseOffset = int64(binary.BigEndian.Uint64(raw))     //nolint:gosec // the protocol's numbers are signed
	length := int(int32(binary.BigEndian.Uint32(raw[8:]))) //nolint:gosec // the protocol's numbers are signed
	switch {
	case length < 0:
		return b, nil, fmt.Errorf("invalid record batch length %d", length)
	case length > len(raw)-lengthEnd:
		return b, nil, ErrIncomplete
	case length > 4 && raw[16] < currentFormat:
		return b, nil, ErrOldFormat
	case length < HeaderBytes-lengthEnd:
		return b, nil, fmt.Errorf("invalid record batch length %d", length)
	case raw[16] != currentFormat:
		return b, nil, fmt.Errorf("unknown record batch format %d", raw[16])
	}
	b.Raw = raw[: lengthEnd+length : lengthEnd+length]
	b.Attributes = int16(binary.BigEndian.Uint16(raw[21:]))      //nolint:gosec // the protocol's numbers are signed
	b.LastOffsetDelta = int32(binary.BigEndian.Uint32(raw[23:])) //nolint:gosec // the protocol's numbers are signed
	b.FirstTimestamp = int64(binary.BigEndian.Uint64(raw[27:]))  //nolint:gosec // the protocol's numbers are signed
	b.MaxTimestamp = int64(binary.BigEndian.Uint64(raw[35:]))    //nolint:gosec // the protocol's numbers are signed
	b.ProducerID = int64(binary.BigEndian.Uint64(raw[43:]))      //nolint:gosec // the protocol's numbers are signed
	b.ProducerEpoch = int16(binary.BigEndian.Uint16(raw[51:]))   //nolint:gosec // the protocol's numbers are signed
	b.Count = int32(binary.BigEndian.Uint32(raw[57:]))           //nolint:gosec // the protocol's numbers are signed
	return b, raw[lengthEnd+length:], nil
}

// Control reports whether the batch holds control records of a transaction.
func (b *Batch) Control() bool { return b.Attributes&controlBit != 0 }

// InTransaction reports whether the batch holds records of a transaction.
func (b *Batch) InTransaction() bool {
	return b.Attributes&transactionalBit != 0 && !b.Control()
}

// EndOfTransaction reports whether the batch is the marker that ends its producer's transaction, and whether the
// transaction was committed.
func (d *Decoder) EndOfTransaction(b *Batch) (committed, ok bool) {
	if !b.Control() || !b.ChecksumOK() {
		return false, false
	}
	err := d.Records(b, func(r Record) error {
		if len(r.Key) < 4 {
			return errMalformed
		}
		switch binary.BigEndian.Uint16(r.Key[2:]) { // after the version
		case abortMarker:
			committed, ok = false, true
		case commitMarker:
			committed, ok = true, true
		}
		return nil
	})
	return committed, ok && err == nil
}

// MakeControl turns the batch into a control batch, which brokers never accept from clients.
func (b *Batch) MakeControl() {
	b.Attributes |= controlBit
	b.Raw[22] |= controlBit
	binary.BigEndian.PutUint32(b.Raw[17:], b.checksum())
}

// SetMaxTimestamp sets the timestamp that brokers use as the age of the batch. The records do not change.
func (b *Batch) SetMaxTimestamp(ms int64) {
	b.MaxTimestamp = ms
	binary.BigEndian.PutUint64(b.Raw[35:], uint64(ms)) //nolint:gosec // the protocol's numbers are signed
	binary.BigEndian.PutUint32(b.Raw[17:], b.checksum())
}

// ChecksumOK reports whether the batch's checksum matches its content.
func (b *Batch) ChecksumOK() bool { return binary.BigEndian.Uint32(b.Raw[17:]) == b.checksum() }

func (b *Batch) checksum() uint32 {
	return crc32.Checksum(b.Raw[21:], crc32.MakeTable(crc32.Castagnoli))
}

// Record is a record of a batch. Its slices are valid until the next record is read.
type Record struct {
	OffsetDelta    int32
	TimestampDelta int64
	Key, Value     []byte
	HeaderCount    int

	headers []byte
}

// Header is a record's header.
type Header struct{ Key, Value []byte }

// EachHeader calls fn for each header.
func (r *Record) EachHeader(fn func(h Header)) {
	c := cursor{rest: r.headers}
	for range r.HeaderCount {
		h, _ := c.header() // valid: checked when the record was read
		fn(h)
	}
}

// Records calls fn for each record of the batch. Offsets increase and do not exceed the batch's last offset. An error
// is about the batch, or was returned by fn.
func (d *Decoder) Records(b *Batch, fn func(r Record) error) error {
	reader, err := d.Open(b)
	if err != nil {
		return err
	}
	for {
		r, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := fn(r); err != nil {
			return err
		}
	}
}

// Open inflates the batch and returns a reader of its records, which is valid until the decoder reads another batch.
func (d *Decoder) Open(b *Batch) (*Reader, error) {
	data, err := d.inflate(b)
	if err != nil {
		return nil, err
	}
	r := &Reader{cursor: cursor{rest: data}, count: b.Count, last: -1, end: b.LastOffsetDelta}
	if b.Compressed() {
		r.inflated = cap(data)
	}
	return r, nil
}

// Reader reads the records of one batch in order.
type Reader struct {
	cursor   cursor
	n, count int32
	last     int64 // offset delta of the previous record
	end      int32
	inflated int
}

// Inflated returns how many bytes the reader holds in addition to the batch.
func (r *Reader) Inflated() int { return r.inflated }

// Next returns the next record, or io.EOF after the last record of an intact batch.
func (r *Reader) Next() (Record, error) {
	if r.n >= r.count {
		if len(r.cursor.rest) > 0 || r.count < 0 {
			return Record{}, fmt.Errorf("%d bytes after %d records", len(r.cursor.rest), r.count)
		}
		return Record{}, io.EOF
	}
	rec, err := r.cursor.record()
	switch {
	case err != nil:
		return Record{}, fmt.Errorf("record %d of %d: %w", r.n, r.count, err)
	case int64(rec.OffsetDelta) <= r.last || rec.OffsetDelta > r.end:
		return Record{}, fmt.Errorf(
			"record %d of %d: offset delta %d is not between the previous one %d and the last one %d", r.n, r.count,
			rec.OffsetDelta, r.last, r.end)
	}
	r.n++
	r.last = int64(rec.OffsetDelta)
	return rec, nil
}

// cursor parses inflated records.
type cursor struct{ rest []byte }

var errMalformed = errors.New("malformed")

func (c *cursor) record() (Record, error) {
	size, ok := c.int32()
	if !ok || size < 0 || int(size) > len(c.rest) {
		return Record{}, fmt.Errorf("length: %w", errMalformed)
	}
	in := cursor{rest: c.rest[:size]}
	c.rest = c.rest[size:]
	if len(in.rest) == 0 {
		return Record{}, fmt.Errorf("attributes: %w", errMalformed)
	}
	in.rest = in.rest[1:] // attributes, all unused
	var r Record
	var n int
	if r.TimestampDelta, n = binary.Varint(in.rest); n <= 0 {
		return Record{}, fmt.Errorf("timestamp: %w", errMalformed)
	}
	in.rest = in.rest[n:]
	if r.OffsetDelta, ok = in.int32(); !ok {
		return Record{}, fmt.Errorf("offset: %w", errMalformed)
	}
	if r.Key, ok = in.bytes(); !ok {
		return Record{}, fmt.Errorf("key: %w", errMalformed)
	}
	if r.Value, ok = in.bytes(); !ok {
		return Record{}, fmt.Errorf("value: %w", errMalformed)
	}
	headers, ok := in.int32()
	if !ok || headers < 0 || headers > maxHeaders {
		return Record{}, fmt.Errorf("number of headers: %w", errMalformed)
	}
	r.HeaderCount, r.headers = int(headers), in.rest
	for range headers {
		if h, ok := in.header(); !ok || h.Key == nil {
			return Record{}, fmt.Errorf("header: %w", errMalformed)
		}
	}
	if len(in.rest) > 0 {
		return Record{}, fmt.Errorf("%d bytes after the last header: %w", len(in.rest), errMalformed)
	}
	return r, nil
}

func (c *cursor) header() (h Header, ok bool) {
	if h.Key, ok = c.bytes(); !ok {
		return h, false
	}
	h.Value, ok = c.bytes()
	return h, ok
}

// bytes reads a length and that many bytes; a negative length is nil.
func (c *cursor) bytes() ([]byte, bool) {
	n, ok := c.int32()
	if !ok || int(n) > len(c.rest) {
		return nil, false
	}
	if n < 0 {
		return nil, true
	}
	b := c.rest[:n:n]
	c.rest = c.rest[n:]
	return b, true
}

func (c *cursor) int32() (int32, bool) {
	v, n := binary.Varint(c.rest)
	if n <= 0 || n > binary.MaxVarintLen32 || v < math.MinInt32 || v > math.MaxInt32 {
		return 0, false
	}
	c.rest = c.rest[n:]
	return int32(v), true
}
