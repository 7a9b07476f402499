package source

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"

	"github.com/parquet-go/parquet-go/encoding/delta"
)

var (
	errThrift  = errors.New("damaged: a directory or a page's header says that it has more than there is")
	errPage    = errors.New("damaged: a page says that it has more than there is")
	errShrinks = errors.New("damaged: a page has more values than it says")
)

// thriftCheck walks through a structure of the compact protocol of Thrift, and checks that
// its lists and texts are no longer than the bytes there are: the library makes room for
// them before it reads them, and follows any nesting.
type thriftCheck struct {
	data  []byte
	at    int
	parts int // elements of lists that are structures: row groups, columns in them
	small int // those that are deeper
}

const maxThriftDepth = 16

// partDepth is how deep the lists of a directory's parts stand, those of the columns of a
// row group: deeper ones, such as how many pages have which encoding, have elements of a
// few bytes.
const partDepth = 2

func (c *thriftCheck) byte() (byte, error) {
	if c.at >= len(c.data) {
		return 0, errThrift
	}
	c.at++
	return c.data[c.at-1], nil
}

func (c *thriftCheck) number() (int64, error) {
	u, n := numberOf(c.data[c.at:])
	if n <= 0 {
		return 0, errThrift
	}
	c.at += n
	return u, nil
}

func (c *thriftCheck) skip(n int64) error {
	if n > int64(len(c.data)-c.at) {
		return errThrift
	}
	c.at += int(n)
	return nil
}

// numberOf reads a number that is not negative, and returns how many bytes it takes. One
// that is larger than it can be is as large as it can be.
func numberOf(data []byte) (int64, int) {
	u, n := binary.Uvarint(data)
	return int64(min(u, math.MaxInt64)), n
}

func (c *thriftCheck) structure(depth int) error {
	if depth > maxThriftDepth {
		return errThrift
	}
	for {
		b, err := c.byte()
		if err != nil || b == 0 {
			return err
		}
		if b>>4 == 0 { // the field's number follows
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
	case 4, 5, 6: // numbers
		_, err := c.number()
		return err
	case 7: // a floating-point number
		return c.skip(8)
	case 8: // text
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
	return errThrift // maps are nowhere in Parquet
}

func (c *thriftCheck) list(depth int) error {
	b, err := c.byte()
	n := int64(b >> 4)
	if err == nil && n == 15 {
		n, err = c.number()
	}
	if err != nil || n > int64(len(c.data)-c.at) || depth > maxThriftDepth {
		return errThrift
	}
	kind := b & 15
	switch {
	case kind != 12:
	case depth > partDepth:
		c.small += int(n)
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

// padding is how many values may follow behind the last one of a page: they come in
// groups.
const padding = 1024

// checkRuns checks that a page's run lengths (RLE, Encodings.md) make no more values than
// the page has: each run may be of thousands of millions. It returns how many of the
// page's are full, if they are levels.
func checkRuns(data []byte, width, values int64, full int) (int64, error) {
	var all, count int64
	for len(data) > 0 {
		u, n := numberOf(data)
		if n <= 0 {
			return 0, errPage
		}
		data = data[n:]
		run, size := u>>1, (width+7)/8
		if run > 1<<32 {
			return 0, errShrinks
		}
		if u&1 != 0 { // groups of eight
			run, size = run*8, run*width
		}
		if all+run > values+padding {
			return 0, errShrinks
		}
		if size > int64(len(data)) {
			return 0, errPage
		}
		if width <= 8 && full > 0 {
			count += countFull(data[:size], u&1 != 0, int(width), min(run, values-all), full)
		}
		all += run
		data = data[size:]
	}
	return count, nil
}

// countFull counts the full ones of the first levels of a run, or of groups of eight.
func countFull(data []byte, groups bool, width int, levels int64, full int) int64 {
	if levels <= 0 {
		return 0
	}
	if !groups {
		if int(data[0]) == full {
			return levels
		}
		return 0
	}
	var count int64
	for i := range levels {
		at := int(i) * width
		word := int(data[at/8])
		if at/8+1 < len(data) {
			word |= int(data[at/8+1]) << 8
		}
		if word>>(at%8)&(1<<width-1) == full {
			count++
		}
	}
	return count
}

// levelWidth is how many bits a level takes.
func levelWidth(most int) int64 { return int64(bits.Len64(uint64(max(most, 0)))) }

// checkDelta checks numbers that stand as differences (DELTA_BINARY_PACKED), and returns
// what is behind them.
func checkDelta(data []byte, values int64) ([]byte, error) {
	var head [4]int64 // size of blocks, parts of a block, values, the first one
	for i := range head {
		u, n := numberOf(data)
		if n <= 0 {
			return nil, errPage
		}
		head[i], data = u, data[n:]
	}
	size, parts, left := head[0], head[1], head[2]
	switch {
	case left > values:
		return nil, errShrinks
	case parts == 0 || size == 0 || size > 1<<20 || parts > size:
		return nil, errPage
	}
	each := size / parts
	for left = max(left, 1) - 1; left > 0; {
		_, n := binary.Uvarint(data)
		if n <= 0 || parts > int64(len(data)-n) {
			return nil, errPage
		}
		widths := data[n:][:parts]
		data = data[n:][parts:]
		for _, width := range widths {
			if left == 0 {
				break
			}
			// Some writers leave out the end of the last part.
			data = data[min(each*int64(width)/8, int64(len(data))):]
			left -= min(left, each)
		}
	}
	return data, nil
}

// checkPrefixes checks texts that begin like the one before (DELTA_BYTE_ARRAY), and
// returns how many bytes they have in common with those.
func checkPrefixes(data []byte, values int64) (int64, error) {
	rest, err := checkDelta(data, values)
	if err != nil {
		return 0, err
	}
	prefixes, err := new(delta.BinaryPackedEncoding).DecodeInt32(nil, data)
	if err != nil {
		return 0, errPage
	}
	if _, err := checkDelta(rest, values); err != nil {
		return 0, err
	}
	var all int64
	for _, n := range prefixes {
		all += int64(max(n, 0))
	}
	return all, nil
}
