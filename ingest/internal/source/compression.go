package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxZstdWindow bounds the memory that a file may demand: 128 MiB is what the
// zstd program itself accepts unless it is told otherwise.
const maxZstdWindow = 128 << 20

// magicSize is how many bytes are looked at to tell the formats apart.
const magicSize = 8

// ErrFormat is wrapped by the error for an input in a format that is not read
// here.
var ErrFormat = errors.New("unsupported format")

// foreign lists formats that crawlers and archives use and that would otherwise
// be reported as thousands of malformed lines.
func foreign() []foreignFormat {
	return []foreignFormat{
		{[]byte("BZh"), "bzip2"},
		{[]byte{0xFD, '7', 'z', 'X', 'Z', 0x00}, "xz"},
		{[]byte("PK\x03\x04"), "zip"},
		{[]byte{0x04, 0x22, 0x4D, 0x18}, "lz4"},
		{[]byte("PAR1"), "Parquet, which is read from files only"},
		{[]byte("7z\xBC\xAF\x27\x1C"), "7z"},
		{[]byte{0xFF, 0xFE}, "UTF-16"},
		{[]byte{0xFE, 0xFF}, "UTF-16"},
	}
}

// foreignFormat is a format by the bytes that it begins with.
type foreignFormat struct {
	magic []byte
	name  string
}

// decompressor is a reader of the uncompressed bytes.
type decompressor struct {
	io.Reader
	op    string
	close func()
}

// decompress looks at the first bytes of an input and returns a reader of what
// it holds: RFC 1952 (gzip, several members too), RFC 8878 (zstd, several
// frames too), or the bytes as they are, without a UTF-8 byte order mark.
func decompress(magic []byte, r io.Reader) (decompressor, error) {
	plain := decompressor{Reader: r, op: "read", close: func() {}}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1F, 0x8B}):
		d := decompressor{op: "decompress gzip", close: func() {}}
		gz, err := gzip.NewReader(r)
		if err != nil {
			return d, err
		}
		d.Reader = gz
		return d, nil
	case isZstd(magic):
		d := decompressor{op: "decompress zstd", close: func() {}}
		zs, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return d, err
		}
		d.Reader, d.close = zs, zs.Close
		return d, nil
	}
	for _, f := range foreign() {
		if bytes.HasPrefix(magic, f.magic) {
			return plain, fmt.Errorf("%w: the input is %s; NDJSON and CSV are read plain, gzip or zstd", ErrFormat, f.name)
		}
	}
	return plain, nil
}

// isPlain tells that an input that begins with magic is not compressed, as far
// as decompress knows.
func isPlain(magic []byte) bool {
	return !bytes.HasPrefix(magic, []byte{0x1F, 0x8B}) && !isZstd(magic)
}

// isZstd knows a zstd frame and a skippable frame, which parallel compressors
// put first (RFC 8878, 3.1).
func isZstd(magic []byte) bool {
	if bytes.HasPrefix(magic, []byte{0x28, 0xB5, 0x2F, 0xFD}) {
		return true
	}
	return len(magic) >= 4 && magic[0]&0xF0 == 0x50 && bytes.Equal(magic[1:4], []byte{0x2A, 0x4D, 0x18})
}
