package source

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
)

var (
	errTruncatedThrift = errors.New("damaged: footer or page header is truncated")
	errTruncatedPage   = errors.New("damaged: page is truncated")
	errTooManyValues   = errors.New("damaged: page has more values than declared")
)

// thriftCheck validates a structure of Thrift's compact protocol: lists and strings must not be
// longer than the data, and nesting is limited. The library allocates memory for them before it
// reads them, and follows any nesting.
type thriftCheck struct {
	data       []byte
	at         int
	parts      int // structures in lists: row groups and their columns
	smallParts int // structures in deeper lists
}

const maxThriftDepth = 16

// partDepth is the depth of the lists of row groups and of their columns. Deeper lists, such as the
// page counts per encoding, have elements of a few bytes.
const partDepth = 2

func (c *thriftCheck) byte() (byte, error) {
	if c.at >= len(c.data) {
		return 0, errTruncatedThrift
	}
	c.at++
	return c.data[c.at-1], nil
}

func (c *thriftCheck) number() (int64, error) {
	u, n := numberOf(c.data[c.at:])
	if n <= 0 {
		return 0, errTruncatedThrift
	}
	c.at += n
	return u, nil
}

func (c *thriftCheck) skip(n int64) error {
	if n > int64(len(c.data)-c.at) {
		return errTruncatedThrift
	}
	c.at += int(n)
	return nil
}

// numberOf reads a non-negative number and returns its encoded length. Numbers beyond the maximum
// are clamped to it.
func numberOf(data []byte) (int64, int) {
	u, n := binary.Uvarint(data)
	return int64(min(u, math.MaxInt64)), n
}

func (c *thriftCheck) structure(depth int) error {
	if depth > maxThriftDepth {
		return errTruncatedThrift
	}
	for {
		b, err := c.byte()
		if err != nil || b == 0 {
			return err
		}
		if b>>4 == 0 { // the field ID follows
			if _, err := c.number(); err != nil {
				return err
			}
		}
		if b &= 15; b == 1 || b == 2 { // true, false
			continue
		}
		if err := c.value(b, depth); err != nil {
			return err
		}
	}
}

func (c *thriftCheck) value(kind byte, depth int) error {
	switch kind {
	case 1, 2, 3: // a boolean in a list, a byte
		return c.skip(1)
	case 4, 5, 6: // integers
		_, err := c.number()
		return err
	case 7: // a double
		return c.skip(8)
	case 8: // a string or binary
		n, err := c.number()
		if err != nil {
			return err
		}
		return c.skip(n)
	case 9, 10: // a list, a set
		return c.list(depth)
	case 12:
		return c.structure(depth + 1)
	}
	return errTruncatedThrift // Parquet has no maps
}

func (c *thriftCheck) list(depth int) error {
	b, err := c.byte()
	n := int64(b >> 4)
	if err == nil && n == 15 {
		n, err = c.number()
	}
	if err != nil || n > int64(len(c.data)-c.at) || depth > maxThriftDepth {
		return errTruncatedThrift
	}
	kind := b & 15
	switch {
	case kind != 12:
	case depth > partDepth:
		c.smallParts += int(n)
	default:
		c.parts += int(n)
	}
	for range n {
		if err := c.value(kind, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// padding is how many values may follow the last one of a page, because values are written in groups.
const padding = 1024

// run is a run of equal values, or of bit-packed groups of eight values.
type run struct {
	data   []byte
	packed bool
	values int64 // number of values that belong to the page
}

// value returns the i-th value of the run.
func (r *run) value(i, width int64) uint64 {
	if !r.packed {
		i, width = 0, int64(len(r.data))*8
	}
	return bitsAt(r.data, i*width, width)
}

// bitsAt reads up to 64 bits. Bits after the end of data are zero.
func bitsAt(data []byte, at, width int64) uint64 {
	shift := uint(at % 8) //nolint:gosec // not negative
	data = data[min(at/8, int64(len(data))):]
	var v uint64
	if len(data) >= 8 {
		v = binary.LittleEndian.Uint64(data) >> shift
	} else {
		for i, b := range data {
			v |= uint64(b) << (8 * i)
		}
		v >>= shift
	}
	if shift > 0 && len(data) > 8 {
		v |= uint64(data[8]) << (64 - shift)
	}
	return v & (1<<width - 1)
}

// eachRun calls use for each run of RLE-encoded values (Encodings.md) and returns the number of
// values. It returns errTooManyValues if there are more than the page declares: a single run can stand
// for billions of values.
func eachRun(data []byte, width, values int64, visit func(at int64, r run)) (int64, error) {
	var all int64
	for len(data) > 0 {
		u, n := numberOf(data)
		if n <= 0 {
			return 0, errTruncatedPage
		}
		data = data[n:]
		r := run{packed: u&1 != 0}
		count, size := u>>1, (width+7)/8
		if count == 0 {
			continue // padding, such as zeros at the end of a page
		}
		if count > 1<<32 {
			return 0, errTooManyValues
		}
		if r.packed {
			count, size = count*8, count*width
		}
		if all+count > values+padding {
			return 0, errTooManyValues
		}
		r.values = max(min(count, values-all), 0)
		if r.packed && (r.values*width+7)/8 <= int64(len(data)) {
			// Some writers omit the end of the last group.
			size = min(size, int64(len(data)))
		}
		if size > int64(len(data)) {
			return 0, errTruncatedPage
		}
		r.data = data[:size]
		if r.values > 0 {
			visit(all, r)
		}
		all += r.values
		data = data[size:]
	}
	return all, nil
}

// cleanRuns re-encodes runs with exactly the values that the page declares, so that the library
// reads what was validated here. It returns the number of values and, for levels, how many have the
// maximum level full.
func cleanRuns(out, data []byte, width, values int64, full int) (_ []byte, all, count int64, err error) {
	valueBytes := (width + 7) / 8
	all, err = eachRun(data, width, values, func(_ int64, r run) {
		if !r.packed {
			out = binary.AppendUvarint(out, uint64(r.values)<<1) //nolint:gosec // not negative
			out = append(out, r.data...)
			if full > 0 && r.value(0, width) == uint64(full) {
				count += r.values
			}
			return
		}
		groups := r.values / 8
		if groups > 0 {
			out = binary.AppendUvarint(out, uint64(groups)<<1|1)
			out = append(out, r.data[:groups*width]...)
		}
		for i := groups * 8; i < r.values; i++ { // a packed group would have eight values
			out = append(out, 1<<1)
			out = append(out, binary.LittleEndian.AppendUint64(nil, r.value(i, width))[:valueBytes]...)
		}
		if full > 0 {
			for i := range r.values {
				if r.value(i, width) == uint64(full) {
					count++
				}
			}
		}
	})
	return out, all, count, err
}

// levelWidth returns the number of bits of a level.
func levelWidth(maxLevel int) int64 { return int64(bits.Len64(uint64(max(maxLevel, 0)))) }
