package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

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

// foreignFormat is a format that is not read, by the bytes that it begins with.
type foreignFormat struct {
	magic, name, fix string
}

const (
	fixSaveAs   = "save the table as CSV"
	fixConvert  = "convert it to NDJSON, CSV or Parquet"
	fixCompress = "decompress it; gzip and zstd are read as they are"
	fixEncode   = "convert it to UTF-8, as with: iconv -f UTF-16 -t UTF-8"
)

// foreignFormats lists formats that crawlers, archives and spreadsheet programs use and that would otherwise be
// reported as thousands of malformed lines.
func foreignFormats() []foreignFormat {
	return []foreignFormat{
		{"BZh", "bzip2", fixCompress},
		{"\xFD7zXZ\x00", "xz", fixCompress},
		{"\x04\x22\x4D\x18", "lz4", fixCompress},
		{"PK\x03\x04", "a zip archive or an Excel workbook", "unpack it and ingest the files in it, or save the table as CSV"},
		{"PK\x05\x06", "an empty zip archive", fixConvert},
		{"7z\xBC\xAF\x27\x1C", "a 7z archive", "unpack it and ingest the files in it"},
		{"Rar!\x1A\x07", "a rar archive", "unpack it and ingest the files in it"},
		{"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", "an Excel workbook", fixSaveAs},
		{"PAR1", "Parquet", "ingest it as a file; it is not read from pipes or inside gzip and zstd"},
		{"Obj\x01", "Avro", fixConvert},
		{"SQLite format 3\x00", "an SQLite database", fixConvert},
		{"%PDF-", "PDF", fixConvert},
		{"\xFF\xFE", "UTF-16", fixEncode},
		{"\xFE\xFF", "UTF-16", fixEncode},
	}
}

// refuseForeign returns an error that wraps [ErrFormat] if an input that begins with head is in a format that is not
// read.
func refuseForeign(head []byte) error {
	for _, f := range foreignFormats() {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return fmt.Errorf("%w: the input is %s; %s", ErrFormat, f.name, f.fix)
		}
	}
	if isTar(head) {
		return fmt.Errorf("%w: the input is a tar archive; unpack it and ingest the files in it, "+
			"or pipe one of them: tar -xOf ARCHIVE MEMBER | muster ingest KIND -", ErrFormat)
	}
	return nil
}

const tarHeaderSize = 512

// isTar reports whether head begins with a header of tar (POSIX.1, ustar; GNU; the seventh edition): its checksum is
// the sum of its bytes, with blanks in the place of the checksum itself.
func isTar(head []byte) bool {
	const begin, end = 148, 156
	if len(head) < tarHeaderSize || head[0] == 0 {
		return false
	}
	sum := int64(end-begin) * ' '
	for i, b := range head[:tarHeaderSize] {
		if i < begin || i >= end {
			sum += int64(b)
		}
	}
	stored, err := strconv.ParseInt(string(bytes.Trim(head[begin:end], " \x00")), 8, 64)
	return err == nil && stored == sum
}

// decompressor is a reader of the uncompressed bytes.
type decompressor struct {
	io.Reader
	op    string
	close func()
}

// decompress looks at the first bytes of an input and returns a reader of what
// it holds: RFC 1952 (gzip, several members too), RFC 8878 (zstd, several
// frames too), or the bytes as they are.
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
