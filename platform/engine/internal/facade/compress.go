package facade

import (
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"muster/platform/engine/internal/chdb"
)

// decodedBody decodes the body's Content-Encoding and, if framed, ClickHouse's block framing.
func decodedBody(r *http.Request, framed bool) (io.ReadCloser, *chdb.Error) {
	body := r.Body
	var err error
	switch encoding := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		if body, err = gzip.NewReader(body); err != nil {
			return emptyOnEOF(err, "gzip")
		}
	case "deflate":
		if body, err = zlib.NewReader(body); err != nil {
			return emptyOnEOF(err, "deflate")
		}
	case "zstd":
		d, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return emptyOnEOF(err, "zstd")
		}
		body = d.IOReadCloser()
	case "lz4":
		body = io.NopCloser(lz4.NewReader(body))
	case "br":
		body = io.NopCloser(brotli.NewReader(body))
	default:
		return nil, errUnknownCompression.errorf("Unknown compression method: %s", encoding)
	}
	if framed {
		body = io.NopCloser(newFrameReader(body))
	}
	return body, nil
}

// frameReader decodes ClickHouse's block framing. It returns io.EOF between two blocks and io.ErrUnexpectedEOF within
// one; compress.Reader does not distinguish them.
type frameReader struct {
	blocks *compress.Reader
	source *countingReader
}

func newFrameReader(r io.Reader) *frameReader {
	source := &countingReader{r: r}
	return &frameReader{blocks: compress.NewReader(source), source: source}
}

func (f *frameReader) Read(p []byte) (int, error) {
	f.source.n = 0
	n, err := f.blocks.Read(p)
	if err != nil && errors.Is(err, io.EOF) {
		if f.source.n == 0 {
			return n, io.EOF
		}
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

type countingReader struct {
	r io.Reader
	n int
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

func emptyOnEOF(err error, encoding string) (io.ReadCloser, *chdb.Error) {
	if errors.Is(err, io.EOF) {
		return http.NoBody, nil
	}
	return nil, errCannotDecompress.errorf("Cannot read the %s body: %s", encoding, err)
}

// acceptedEncoding selects an encoding as ClickHouse does: in its own order of preference, without regard to weights.
func acceptedEncoding(header string) string {
	accepted := make(map[string]bool)
	for part := range strings.SplitSeq(header, ",") {
		name, weight, _ := strings.Cut(part, ";")
		if strings.ReplaceAll(weight, " ", "") == "q=0" {
			continue
		}
		accepted[strings.ToLower(strings.TrimSpace(name))] = true
	}
	for _, encoding := range []string{"br", "gzip", "deflate", "zstd", "lz4"} {
		if accepted[encoding] {
			return encoding
		}
	}
	return ""
}

// encoder is a compressor with a Flush.
type encoder interface {
	io.WriteCloser
	Flush() error
}

func newEncoder(w io.Writer, encoding string, level int) (encoder, error) {
	switch encoding {
	case "gzip":
		return gzip.NewWriterLevel(w, min(max(level, 1), 9))
	case "deflate":
		return zlib.NewWriterLevel(w, min(max(level, 1), 9))
	case "br":
		return brotli.NewWriterLevel(w, min(max(level, 1), 11)), nil
	case "zstd":
		return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)),
			zstd.WithEncoderConcurrency(1))
	case "lz4":
		return lz4.NewWriter(w), nil
	}
	return nil, errUnknownCompression.errorf("Unknown compression method: %s", encoding)
}

// framer encodes ClickHouse's block framing.
type framer struct {
	w      *compress.Writer
	buffer []byte
}

// frameSize is the maximum size of a block before compression, ClickHouse's max_compress_block_size.
const frameSize = 1 << 20

func newFramer(codec string, level int) (*framer, *chdb.Error) {
	method := compress.LZ4
	switch codec {
	case "", "LZ4":
	case "LZ4HC":
		method = compress.LZ4HC
	case "ZSTD":
		method = compress.ZSTD
	case "NONE":
		method = compress.None
	default:
		return nil, errUnknownCompression.errorf("Unknown codec family code: %s", codec)
	}
	return &framer{w: compress.NewWriter(compress.Level(level), method)}, nil
}

// frame returns data as blocks. The result is valid until the next call.
func (f *framer) frame(data []byte) ([]byte, error) {
	f.buffer = f.buffer[:0]
	for len(data) > 0 {
		n := min(len(data), frameSize)
		if err := f.w.Compress(data[:n]); err != nil {
			return nil, err
		}
		f.buffer = append(f.buffer, f.w.Data...)
		data = data[n:]
	}
	return f.buffer, nil
}
