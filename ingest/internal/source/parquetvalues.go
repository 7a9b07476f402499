package source

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// sizeOf returns the PLAIN size of each value of the column, or 0 if it varies.
func (c *chunkPages) sizeOf() int64 {
	switch c.kind {
	case parquet.Int32, parquet.Float:
		return 4
	case parquet.Int64, parquet.Double:
		return 8
	case parquet.Int96:
		return 12
	case parquet.FixedLenByteArray:
		return c.size
	}
	return 0
}

// plain decodes exactly the declared number of values to PLAIN.
func (c *chunkPages) plain(h *format.PageHeader, e format.Encoding, body []byte, values int64) ([]byte, error) {
	if values == 0 || c.kind < 0 { // the library reads no values of unknown types
		return nil, nil
	}
	size := c.sizeOf()
	if c.kind == parquet.FixedLenByteArray && size <= 0 {
		return nil, errTruncatedPage
	}
	switch {
	case e == format.Plain && c.kind == parquet.Boolean:
		return firstBytes(body, (values+7)/8)
	case e == format.Plain && c.kind == parquet.ByteArray:
		return plainStrings(body, values)
	case e == format.Plain:
		return firstBytes(body, values*size)
	case e == format.RLE && c.kind == parquet.Boolean:
		return plainBits(body, values)
	case e == format.DeltaBinaryPacked && (c.kind == parquet.Int32 || c.kind == parquet.Int64):
		return plainIntegers(body, values, size)
	case e == format.DeltaLengthByteArray && c.kind == parquet.ByteArray:
		return plainLengths(body, values)
	case e == format.DeltaByteArray && (c.kind == parquet.ByteArray || c.kind == parquet.FixedLenByteArray):
		return c.plainPrefixes(h, body, values)
	case e == format.ByteStreamSplit && size > 0:
		return plainStreams(body, values, size)
	}
	return nil, unsupported("values", e)
}

func firstBytes(body []byte, n int64) ([]byte, error) {
	if n > int64(len(body)) {
		return nil, errTruncatedPage
	}
	return body[:n], nil
}

// plainStrings truncates the data after the last string.
func plainStrings(body []byte, values int64) ([]byte, error) {
	rest := body
	var err error
	for range values {
		if _, rest, err = prefixed(rest); err != nil {
			return nil, err
		}
	}
	return body[:len(body)-len(rest)], nil
}

// plainBits decodes RLE-encoded booleans.
func plainBits(body []byte, values int64) ([]byte, error) {
	body, _, err := prefixed(body)
	if err != nil {
		return nil, err
	}
	out := make([]byte, (values+7)/8)
	all, err := eachRun(body, 1, values, func(at int64, r run) {
		for i := range r.values {
			if r.value(i, 1) != 0 {
				out[(at+i)/8] |= 1 << ((at + i) % 8)
			}
		}
	})
	if err == nil && all < values {
		err = errTruncatedPage
	}
	return out, err
}

// plainStreams decodes BYTE_STREAM_SPLIT.
func plainStreams(body []byte, values, size int64) ([]byte, error) {
	perBlock := int64(len(body)) / size
	if perBlock < values || perBlock*size != int64(len(body)) {
		return nil, errTruncatedPage
	}
	out := make([]byte, values*size)
	for s := range size {
		stream := body[s*perBlock:][:values]
		for i, b := range stream {
			out[int64(i)*size+s] = b
		}
	}
	return out, nil
}

// eachDelta calls use for each of exactly the given number of DELTA_BINARY_PACKED integers, and
// returns the data after them.
func eachDelta(data []byte, values int64, visit func(v int64)) ([]byte, error) {
	var head [3]int64 // block size, miniblocks per block, number of values
	for i := range head {
		u, n := numberOf(data)
		if n <= 0 {
			return nil, errTruncatedPage
		}
		head[i], data = u, data[n:]
	}
	last, n := binary.Varint(data)
	if n <= 0 {
		return nil, errTruncatedPage
	}
	data = data[n:]
	size, parts, left := head[0], head[1], head[2]
	switch {
	case left > values:
		return nil, errTooManyValues
	case left < values, size == 0, size > 1<<16, parts == 0, parts > size, size/parts%8 != 0:
		return nil, errTruncatedPage
	case left == 0:
		return data, nil
	}
	perBlock := size / parts
	visit(last)
	for left--; left > 0; {
		minDelta, n := binary.Varint(data)
		if n <= 0 || n == len(data) {
			return nil, errTruncatedPage
		}
		widths := data[n:][:min(parts, int64(len(data)-n))]
		data = data[n:][len(widths):]
		for _, w := range widths {
			width, count := int64(w), min(left, perBlock)
			if width > 64 || (count*width+7)/8 > int64(len(data)) {
				return nil, errTruncatedPage
			}
			for i := range count {
				last += minDelta + int64(bitsAt(data, i*width, width)) //nolint:gosec // wraps by specification
				visit(last)
			}
			// Some writers omit the end of the last miniblock.
			data = data[min(perBlock*width/8, int64(len(data))):]
			if left -= count; left == 0 {
				break
			}
		}
	}
	return data, nil
}

// plainIntegers decodes DELTA_BINARY_PACKED integers.
func plainIntegers(body []byte, values, size int64) ([]byte, error) {
	out := make([]byte, 0, values*size)
	_, err := eachDelta(body, values, func(v int64) {
		if size == 4 {
			out = binary.LittleEndian.AppendUint32(out, uint32(v)) //nolint:gosec // 32-bit arithmetic by specification
		} else {
			out = binary.LittleEndian.AppendUint64(out, uint64(v)) //nolint:gosec // same bits
		}
	})
	return out, err
}

// lengthsOf decodes lengths and returns the data after them.
func lengthsOf(body []byte, values int64) (lengths []int32, all int64, rest []byte, err error) {
	lengths = make([]int32, 0, values)
	bad := false
	rest, err = eachDelta(body, values, func(v int64) {
		bad = bad || v < 0 || v > math.MaxInt32
		lengths = append(lengths, int32(v)) //nolint:gosec // see above
		all += v
	})
	if err == nil && bad {
		err = errTruncatedPage
	}
	return lengths, all, rest, err
}

// plainLengths decodes DELTA_LENGTH_BYTE_ARRAY.
func plainLengths(body []byte, values int64) ([]byte, error) {
	lengths, all, rest, err := lengthsOf(body, values)
	if err != nil {
		return nil, err
	}
	if all > int64(len(rest)) {
		return nil, errTruncatedPage
	}
	out := make([]byte, 0, lengthSize*values+all)
	for _, n := range lengths {
		out = binary.LittleEndian.AppendUint32(out, uint32(n)) //nolint:gosec // not negative
		out, rest = append(out, rest[:n]...), rest[n:]
	}
	return out, nil
}

// plainPrefixes decodes DELTA_BYTE_ARRAY.
func (c *chunkPages) plainPrefixes(h *format.PageHeader, body []byte, values int64) ([]byte, error) {
	prefixes, common, body, err := lengthsOf(body, values)
	if err != nil {
		return nil, err
	}
	lengths, all, body, err := lengthsOf(body, values)
	if err != nil {
		return nil, err
	}
	if all > int64(len(body)) {
		return nil, errTruncatedPage
	}
	// The data written here, and the library's copy.
	if err := c.reserve(h, 2*common, 0); err != nil {
		return nil, err
	}
	out := make([]byte, 0, lengthSize*values+common+all)
	fixed := c.kind == parquet.FixedLenByteArray
	var previous, end int // bounds of the previous value
	for i, n := range lengths {
		p := prefixes[i]
		size := int64(p) + int64(n)
		if int(p) > end-previous || size > math.MaxInt32 || fixed && size != c.size {
			return nil, errTruncatedPage
		}
		if !fixed {
			out = binary.LittleEndian.AppendUint32(out, uint32(size)) //nolint:gosec // see above
		}
		begin := len(out)
		out = append(out, out[previous:][:p]...)
		out = append(out, body[:n]...)
		body, previous, end = body[n:], begin, len(out)
	}
	return slices.Clip(out), nil
}
