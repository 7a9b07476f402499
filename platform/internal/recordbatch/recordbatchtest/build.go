// Package recordbatchtest builds record batches for tests, including malformed ones.
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

// The compression codecs in a batch's attributes.
const (
	None = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// Batch returns a batch with a valid length and checksum; the rest need not be valid.
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

// Sign sets the checksum of a batch to match its content.
func Sign(raw []byte) {
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
}

// Varint returns a number in the encoding of records.
func Varint(n int64) []byte { return binary.AppendVarint(nil, n) }

// Record is a record whose lengths and counts may be wrong.
type Record struct {
	OffsetDelta         int64
	Key, Value          string
	KeyLength           int64 // 0: length of Key
	ValueLength         int64 // 0: length of Value
	Headers             int64 // declared number of headers
	HeaderBytes         []byte
	Length, ExtraLength int64 // Length replaces the correct length, ExtraLength is added to it
}

// Bytes returns the record in wire format.
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

// Good returns a valid, uncompressed batch of records with the given values.
func Good(values ...string) []byte {
	return Batch(None, int32(len(values)), int32(len(values)-1), Records(values...)) //nolint:gosec // small
}

// Records returns the encoded records with the given values.
func Records(values ...string) []byte {
	var out []byte
	for i, v := range values {
		out = append(out, Record{OffsetDelta: int64(i), Key: "k", Value: v}.Bytes()...)
	}
	return out
}

// Compress compresses data with a codec; snappy is unframed.
func Compress(codec int16, data []byte) ([]byte, error) {
	var out bytes.Buffer
	var err error
	switch codec {
	case Gzip:
		w, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // fails only for an invalid level
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

// Case is a malformed batch.
type Case struct {
	Name string
	Raw  []byte
}

// Poison returns batches with a valid checksum that Kafka rejects.
func Poison() []Case {
	good := Record{Key: "k", Value: "vv"}
	one := func(r Record) []byte { return Batch(None, 1, 0, r.Bytes()) }
	with := func(change func(r *Record)) []byte {
		r := good
		change(&r)
		return one(r)
	}
	return []Case{
		{"text instead of records", Batch(None, 1, 0, []byte("garbage instead of a record"))},
		{"no record", Batch(None, 1, 0, nil)},
		{"fewer records than declared", Batch(None, 3, 2, good.Bytes())},
		{"more records than declared", Batch(None, 1, 0, append(good.Bytes(), good.Bytes()...))},
		{"negative number of records", Batch(None, -100, -101, good.Bytes())},
		{"empty", Batch(None, 0, -1, nil)},
		{"too many headers", with(func(r *Record) { r.Headers, r.HeaderBytes = 200_000, make([]byte, 400_000) })},
		{"two billion records", Batch(None, 2_000_000_000, 1_999_999_999, good.Bytes())},
		{"long key", with(func(r *Record) { r.KeyLength = 1 << 40 })},
		{"key past the record", with(func(r *Record) { r.KeyLength = 100 })},
		{"long value", with(func(r *Record) { r.ValueLength = 1 << 60 })},
		{"2^30 headers", with(func(r *Record) { r.Headers = 1 << 30 })},
		{"2^62 headers", with(func(r *Record) { r.Headers = 1 << 62 })},
		{"negative number of headers", with(func(r *Record) { r.Headers = -5 })},
		{
			"header without key",
			with(func(r *Record) { r.Headers, r.HeaderBytes = 1, append(Varint(-1), Varint(-1)...) }),
		},
		{"truncated header", with(func(r *Record) { r.Headers, r.HeaderBytes = 1, append(Varint(9), 'h') })},
		{"long record", with(func(r *Record) { r.Length = 1 << 30 })},
		{"negative record length", with(func(r *Record) { r.Length = -1 })},
		{"bytes after headers", with(func(r *Record) { r.HeaderBytes = []byte("abc") })},
		{"offset past the batch", with(func(r *Record) { r.OffsetDelta = 5 })},
		{"negative offset", with(func(r *Record) { r.OffsetDelta = -5 })},
		{"duplicate offset", Batch(None, 2, 1, append(good.Bytes(), good.Bytes()...))},
		{"invalid gzip", Batch(Gzip, 1, 0, []byte("not gzip at all"))},
		{"invalid snappy", Batch(Snappy, 1, 0, []byte("\xff\xff\xff\xff\x0fnot snappy at all"))},
		{
			"invalid framed snappy",
			Batch(Snappy, 1, 0, []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\xff\xff\xff\xff")),
		},
		{"invalid lz4", Batch(LZ4, 1, 0, []byte("not lz4 at all"))},
		{"invalid zstd", Batch(Zstd, 1, 0, []byte("not zstd at all"))},
	}
}

// Bomb returns a small batch of one record whose value has size bytes.
func Bomb(codec int16, size int) ([]byte, error) {
	records := Record{Key: "k", Value: string(make([]byte, size))}.Bytes()
	compressed, err := Compress(codec, records)
	if err != nil {
		return nil, err
	}
	return Batch(codec, 1, 0, compressed), nil
}
