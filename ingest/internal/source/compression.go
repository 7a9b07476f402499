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

// maxZstdWindow is the maximum window size of zstd input. 128 MiB is the default limit of the zstd program.
const maxZstdWindow = 128 << 20

// magicSize is the number of bytes that identify a compression format.
const magicSize = 8

// ErrFormat is wrapped by the error for an input in an unsupported format.
var ErrFormat = errors.New("unsupported format")

// unsupportedFormat is a format that is recognized by its first bytes to report it as unsupported.
type unsupportedFormat struct {
	magic, name, fix string
}

const (
	fixSaveAs   = "save the table as CSV"
	fixConvert  = "convert it to NDJSON, CSV or Parquet"
	fixCompress = "decompress it: only gzip and zstd are supported"
	fixEncode   = "convert it to UTF-8, as with: iconv -f UTF-16 -t UTF-8"
)

// unsupportedFormats returns formats that crawlers, archives and spreadsheet programs use, and that
// would otherwise be reported as thousands of malformed lines.
func unsupportedFormats() []unsupportedFormat {
	return []unsupportedFormat{
		{"BZh", "bzip2", fixCompress},
		{"\xFD7zXZ\x00", "xz", fixCompress},
		{"\x04\x22\x4D\x18", "lz4", fixCompress},
		{"PK\x03\x04", "a zip archive or an Excel workbook",
			"unpack it and ingest the files in it, or save the table as CSV"},
		{"PK\x05\x06", "an empty zip archive", fixConvert},
		{"7z\xBC\xAF\x27\x1C", "a 7z archive", "unpack it and ingest the files in it"},
		{"Rar!\x1A\x07", "a rar archive", "unpack it and ingest the files in it"},
		{"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", "an Excel workbook", fixSaveAs},
		{"PAR1", "Parquet", "ingest it as an uncompressed file, not from a pipe"},
		{"Obj\x01", "Avro", fixConvert},
		{"SQLite format 3\x00", "an SQLite database", fixConvert},
		{"%PDF-", "PDF", fixConvert},
		{"\xFF\xFE", "UTF-16", fixEncode},
		{"\xFE\xFF", "UTF-16", fixEncode},
	}
}

// rejectUnsupported returns an error that wraps [ErrFormat] if head is the start of an input in an
// unsupported format.
func rejectUnsupported(head []byte) error {
	for _, f := range unsupportedFormats() {
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

// isTar reports whether head starts with a tar header (POSIX.1 ustar, GNU or version 7): its
// checksum is the sum of its bytes, with the checksum field counted as blanks.
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

// decompress returns a reader of the uncompressed input, by its first bytes: RFC 1952 (gzip,
// multiple members), RFC 8878 (zstd, multiple frames), or no compression.
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

// isPlain reports whether an input that starts with magic is in no supported compression format.
func isPlain(magic []byte) bool {
	return !bytes.HasPrefix(magic, []byte{0x1F, 0x8B}) && !isZstd(magic)
}

// isZstd reports whether magic starts a zstd frame or a skippable frame, which parallel compressors
// write first (RFC 8878, 3.1).
func isZstd(magic []byte) bool {
	if bytes.HasPrefix(magic, []byte{0x28, 0xB5, 0x2F, 0xFD}) {
		return true
	}
	return len(magic) >= 4 && magic[0]&0xF0 == 0x50 && bytes.Equal(magic[1:4], []byte{0x2A, 0x4D, 0x18})
}
