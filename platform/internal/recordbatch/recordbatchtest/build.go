// Package recordbatchtest builds record batches as nobody should send them.
package recordbatchtest

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The codecs of a batch's attributes.
const (
	None = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// Batch is a batch of which nothing but its length and checksum need be right.
func Batch(attributes int16, count, lastOffsetDelta int32, records []byte) []byte {
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: attributes, LastOffsetDelta: lastOffsetDelta,
		FirstTimestamp: 1_700_000_000_000, MaxTimestamp: 1_700_000_000_000,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: count, Records: records,
	}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12)) //nolint:gosec // small
	Sign(raw)
	return raw
}

// Sign gives a batch the checksum of what it holds.
func Sign(raw []byte) {
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
}

// Varint is a number as records hold it.
func Varint(n int64) []byte { return binary.AppendVarint(nil, n) }

// Record is a record whose parts may lie about themselves.
type Record struct {
	OffsetDelta         int64
	Key, Value          string
	KeyLength           int64 // 0: that of Key
	ValueLength         int64 // 0: that of Value
	Headers             int64 // how many it says there are
	HeaderBytes         []byte
	Length, ExtraLength int64 // instead of, and beside, the right length
}

// Bytes is the record's wire format.
func (r Record) Bytes() []byte {
	if r.KeyLength == 0 {
		r.KeyLength = int64(len(r.Key))
	}
	if r.ValueLength == 0 {
		r.ValueLength = int64(len(r.Value))
	}
	in := bytes.Join([][]byte{
		{0}, Varint(0), Varint(r.OffsetDelta), Varint(r.KeyLength), []byte(r.Key),
		Varint(r.ValueLength), []byte(r.Value), Varint(r.Headers), r.HeaderBytes,
	}, nil)
	if r.Length == 0 {
		r.Length = int64(len(in)) + r.ExtraLength
	}
	return append(Varint(r.Length), in...)
}

// Good is a batch of uncompressed records with these values.
func Good(values ...string) []byte {
	return Batch(None, int32(len(values)), int32(len(values)-1), Records(values...)) //nolint:gosec // small
}

// Records are the records with these values, one after the other.
func Records(values ...string) []byte {
	var out []byte
	for i, v := range values {
		out = append(out, Record{OffsetDelta: int64(i), Key: "k", Value: v}.Bytes()...)
	}
	return out
}

// Compress compresses with a codec, snappy without a frame.
func Compress(codec int16, data []byte) ([]byte, error) {
	var out bytes.Buffer
	var err error
	switch codec {
	case Gzip:
		w, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // a level that there is
		_, err = w.Write(data)
		if err == nil {
			err = w.Close()
		}
	case LZ4:
		w := lz4.NewWriter(&out)
		_, err = w.Write(data)
		if err == nil {
			err = w.Close()
		}
	case Snappy:
		return s2.EncodeSnappy(nil, data), nil
	case Zstd:
		var w *zstd.Encoder
		if w, err = zstd.NewWriter(&out); err == nil {
			if _, err = w.Write(data); err == nil {
				err = w.Close()
			}
		}
	default:
		return data, nil
	}
	return out.Bytes(), err
}

// A Case is a batch that is not what it says.
type Case struct {
	Name string
	Raw  []byte
}

// Poison are batches that Kafka's own checks refuse, with a right checksum each.
func Poison() []Case {
	good := Record{Key: "k", Value: "vv"}
	one := func(r Record) []byte { return Batch(None, 1, 0, r.Bytes()) }
	with := func(change func(r *Record)) []byte {
		r := good
		change(&r)
		return one(r)
	}
	return []Case{
		{"no record but text", Batch(None, 1, 0, []byte("garbage that is no record at all"))},
		{"no record", Batch(None, 1, 0, nil)},
		{"fewer records than said", Batch(None, 3, 2, good.Bytes())},
		{"more records than said", Batch(None, 1, 0, append(good.Bytes(), good.Bytes()...))},
		{"a negative number of records", Batch(None, -100, -101, good.Bytes())},
		{"none", Batch(None, 0, -1, nil)},
		{"a hundred thousand headers too many", with(func(r *Record) { r.Headers, r.HeaderBytes = 200_000, make([]byte, 400_000) })},
		{"two thousand millions of records", Batch(None, 2_000_000_000, 1_999_999_999, good.Bytes())},
		{"a long key", with(func(r *Record) { r.KeyLength = 1 << 40 })},
		{"a key past the record", with(func(r *Record) { r.KeyLength = 100 })},
		{"a long value", with(func(r *Record) { r.ValueLength = 1 << 60 })},
		{"2^30 headers", with(func(r *Record) { r.Headers = 1 << 30 })},
		{"2^62 headers", with(func(r *Record) { r.Headers = 1 << 62 })},
		{"minus five headers", with(func(r *Record) { r.Headers = -5 })},
		{"a header without a key", with(func(r *Record) { r.Headers, r.HeaderBytes = 1, append(Varint(-1), Varint(-1)...) })},
		{"a header that is cut off", with(func(r *Record) { r.Headers, r.HeaderBytes = 1, append(Varint(9), 'h') })},
		{"a long record", with(func(r *Record) { r.Length = 1 << 30 })},
		{"a negative record", with(func(r *Record) { r.Length = -1 })},
		{"bytes after the headers", with(func(r *Record) { r.HeaderBytes = []byte("abc") })},
		{"an offset past the batch", with(func(r *Record) { r.OffsetDelta = 5 })},
		{"a negative offset", with(func(r *Record) { r.OffsetDelta = -5 })},
		{"one offset twice", Batch(None, 2, 1, append(good.Bytes(), good.Bytes()...))},
		{"no gzip", Batch(Gzip, 1, 0, []byte("not gzip at all"))},
		{"no snappy", Batch(Snappy, 1, 0, []byte("\xff\xff\xff\xff\x0fnot snappy at all"))},
		{"no framed snappy", Batch(Snappy, 1, 0, []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\xff\xff\xff\xff"))},
		{"no lz4", Batch(LZ4, 1, 0, []byte("not lz4 at all"))},
		{"no zstd", Batch(Zstd, 1, 0, []byte("not zstd at all"))},
	}
}

// Bomb is a small batch of one record with a value of so many bytes.
func Bomb(codec int16, size int) ([]byte, error) {
	records := Record{Key: "k", Value: string(make([]byte, size))}.Bytes()
	compressed, err := Compress(codec, records)
	if err != nil {
		return nil, err
	}
	return Batch(codec, 1, 0, compressed), nil
}
