package native

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Revisions of the protocol that change the framing (ClickHouse, Core/ProtocolDefines.h).
const (
	revisionCustomSerialization = 54454
	// MaxRevision is the newest supported revision. A client that requests a newer one gets this one, as from a server.
	MaxRevision = 54460
)

// blockInfo encodes: field 1 (is_overflows) false, field 2 (bucket_num) -1, end.
var blockInfo = []byte{1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0}

// ErrTruncated means that the data ends within a block.
var ErrTruncated = errors.New("native: the data ends within a block")

// AppendBlocks appends the complete blocks of revision 0 in src to dst in the given revision.
func AppendBlocks(dst, src []byte, revision uint64) ([]byte, error) {
	return AppendRenamed(dst, src, revision, nil)
}

// AppendRenamed is AppendBlocks with new names for the columns in names.
func AppendRenamed(dst, src []byte, revision uint64, names map[string]string) ([]byte, error) {
	if revision == 0 && len(names) == 0 {
		return append(dst, src...), nil
	}
	r := reader{data: src}
	for len(r.data) > r.pos {
		start := r.pos
		columns := r.uvarint()
		rows := r.uvarint()
		if r.failed {
			return dst, ErrTruncated
		}
		if revision > 0 {
			dst = append(dst, blockInfo...)
		}
		dst = append(dst, src[start:r.pos]...)
		for range columns {
			start = r.pos
			name := r.string()
			if other, ok := names[name]; ok {
				dst = appendString(dst, other)
				start = r.pos
			}
			typeName := r.string()
			if r.failed {
				return dst, ErrTruncated
			}
			dst = append(dst, src[start:r.pos]...)
			if revision >= revisionCustomSerialization {
				dst = append(dst, 0)
			}
			if rows == 0 {
				continue
			}
			start = r.pos
			t, err := typeOf(typeName)
			if err != nil {
				return dst, err
			}
			if err := r.skipColumn(t, int(rows)); err != nil {
				return dst, fmt.Errorf("native: column of type %s: %w", typeName, err)
			}
			if r.failed {
				return dst, ErrTruncated
			}
			dst = append(dst, src[start:r.pos]...)
		}
	}
	return dst, nil
}

// Block is the header of a block.
type Block struct {
	Length       int // bytes
	Rows         int
	Names, Types []string
}

// ReadBlock returns the header of the first block in src, which has revision 0.
func ReadBlock(src []byte) (Block, error) {
	r := reader{data: src}
	columns := r.uvarint()
	b := Block{Rows: int(r.uvarint())}
	for i := uint64(0); i < columns && !r.failed; i++ {
		name, typeName := r.string(), r.string()
		b.Names, b.Types = append(b.Names, name), append(b.Types, typeName)
		if b.Rows == 0 || r.failed {
			continue
		}
		t, err := typeOf(typeName)
		if err != nil {
			return Block{}, err
		}
		if err := r.skipColumn(t, b.Rows); err != nil {
			return Block{}, fmt.Errorf("native: column of type %s: %w", typeName, err)
		}
	}
	if r.failed {
		return Block{}, ErrTruncated
	}
	b.Length = r.pos
	return b, nil
}

// AppendHeader appends a block without rows.
func AppendHeader(dst []byte, names, types []string, revision uint64) []byte {
	if revision > 0 {
		dst = append(dst, blockInfo...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(names)))
	dst = binary.AppendUvarint(dst, 0)
	for i := range names {
		dst = appendString(dst, names[i])
		dst = appendString(dst, types[i])
		if revision >= revisionCustomSerialization {
			dst = append(dst, 0)
		}
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// reader reads a buffer. After a read past the end, failed stays true.
type reader struct {
	data   []byte
	pos    int
	failed bool
}

func (r *reader) uvarint() uint64 {
	if r.pos < len(r.data) && r.data[r.pos] < 0x80 {
		r.pos++
		return uint64(r.data[r.pos-1])
	}
	v, n := binary.Uvarint(r.data[min(r.pos, len(r.data)):])
	if n <= 0 {
		r.fail()
		return 0
	}
	r.pos += n
	return v
}

func (r *reader) uint64() uint64 {
	if len(r.data)-r.pos < 8 {
		r.fail()
		return 0
	}
	r.pos += 8
	return binary.LittleEndian.Uint64(r.data[r.pos-8:])
}

func (r *reader) byte() byte {
	if r.pos >= len(r.data) {
		r.fail()
		return 0
	}
	r.pos++
	return r.data[r.pos-1]
}

func (r *reader) fail() {
	r.failed = true
	r.pos = len(r.data)
}

func (r *reader) skip(n uint64) {
	if n > uint64(len(r.data)-r.pos) {
		r.fail()
		return
	}
	r.pos += int(n)
}

func (r *reader) skipString() { r.skip(r.uvarint()) }

func (r *reader) string() string {
	n := r.uvarint()
	if n > uint64(len(r.data)-r.pos) {
		r.fail()
		return ""
	}
	r.pos += int(n)
	return string(r.data[r.pos-int(n) : r.pos])
}
