package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// MaxInflated is the maximum size of the inflated records of a batch, in bytes. Batches on topics are at most 2 MiB, so
// it allows a compression ratio of 32.
const MaxInflated = 64 << 20

// maxScratch is the largest buffer that a decoder keeps for the next batch.
const maxScratch = 512 << 10

const (
	codecNone = iota
	codecGzip
	codecSnappy
	codecLZ4
	codecZstd
)

// Decoder reads the records of batches. Its zero value is ready to use; it is not safe for concurrent use.
type Decoder struct {
	scratch []byte
	source  bytes.Reader
	gzip    *gzip.Reader
	lz4     *lz4.Reader
	zstd    *zstd.Decoder
}

// Compressed reports whether the batch is compressed, so that reading its records takes memory.
func (b *Batch) Compressed() bool { return b.Attributes&codecMask != codecNone }

// inflate returns the bytes of the records, which are valid until the next call.
func (d *Decoder) inflate(b *Batch) ([]byte, error) {
	raw := b.Raw[HeaderBytes:]
	codec := b.Attributes & codecMask
	if codec == codecNone {
		return raw, nil
	}
	dst := d.scratch[:0]
	d.scratch = nil
	var out []byte
	var err error
	switch codec {
	case codecGzip:
		out, err = d.inflateGzip(dst, raw)
	case codecSnappy:
		out, err = inflateSnappy(dst, raw)
	case codecLZ4:
		out, err = d.inflateLZ4(dst, raw)
	case codecZstd:
		out, err = d.inflateZstd(dst, raw)
	default:
		return nil, fmt.Errorf("unknown compression codec %d", codec)
	}
	if cap(out) <= maxScratch {
		d.scratch = out
	}
	return out, err
}

func (d *Decoder) inflateGzip(dst, src []byte) ([]byte, error) {
	if d.gzip == nil {
		d.gzip = new(gzip.Reader)
	}
	d.source.Reset(src)
	if err := d.gzip.Reset(&d.source); err != nil {
		return dst, fmt.Errorf("gzip: %w", err)
	}
	out, err := readAll(dst, d.gzip)
	if err != nil {
		return out, fmt.Errorf("gzip: %w", err)
	}
	return out, nil
}

func (d *Decoder) inflateLZ4(dst, src []byte) ([]byte, error) {
	d.source.Reset(src)
	if d.lz4 == nil {
		d.lz4 = lz4.NewReader(&d.source)
	} else {
		d.lz4.Reset(&d.source)
	}
	out, err := readAll(dst, d.lz4)
	if err != nil {
		return out, fmt.Errorf("lz4: %w", err)
	}
	return out, nil
}

func (d *Decoder) inflateZstd(dst, src []byte) ([]byte, error) {
	if d.zstd == nil {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(MaxInflated))
		if err != nil {
			return dst, fmt.Errorf("zstd: %w", err)
		}
		d.zstd = z
	}
	out, err := d.zstd.DecodeAll(src, dst)
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded),
		err == nil && len(out) > MaxInflated:
		return dst, fmt.Errorf("zstd: %w", ErrTooLarge)
	case err != nil:
		return dst, fmt.Errorf("zstd: %w", err)
	}
	return out, nil
}

// xerialMagic starts the framing that Java clients put around snappy. It is followed by two versions of four bytes
// each, and then by blocks with their lengths.
const (
	xerialMagic  = "\x82SNAPPY\x00"
	xerialHeader = len(xerialMagic) + 4 + 4
)

// maxSnappyRatio is above the maximum ratio of snappy, 64 bytes for three.
const maxSnappyRatio = 22

// inflateSnappy allocates once, for all blocks.
func inflateSnappy(dst, src []byte) ([]byte, error) {
	size := 0
	if err := eachSnappyBlock(src, func(block []byte) error {
		n, err := s2.DecodedLen(block)
		switch {
		case err != nil:
			return err
		case n > maxSnappyRatio*len(block): // an impossible length: reject it before allocating
			return fmt.Errorf("%d bytes of %d: %w", n, len(block), errMalformed)
		case n > MaxInflated-size:
			return ErrTooLarge
		}
		size += n
		return nil
	}); err != nil {
		return dst, fmt.Errorf("snappy: %w", err)
	}
	dst = slices.Grow(dst, size)
	if err := eachSnappyBlock(src, func(block []byte) error {
		out, err := s2.Decode(dst[len(dst):cap(dst)], block)
		dst = dst[:len(dst)+len(out)]
		return err
	}); err != nil {
		return dst, fmt.Errorf("snappy: %w", err)
	}
	return dst, nil
}

// eachSnappyBlock calls fn for each block of a framed src, or once for an unframed src.
func eachSnappyBlock(src []byte, fn func(block []byte) error) error {
	if len(src) < xerialHeader || string(src[:len(xerialMagic)]) != xerialMagic {
		return fn(src)
	}
	src = src[xerialHeader:]
	for len(src) > 0 {
		if len(src) < 4 {
			return fmt.Errorf("block length: %w", errMalformed)
		}
		n := binary.BigEndian.Uint32(src)
		src = src[4:]
		if uint64(n) > uint64(len(src)) {
			return fmt.Errorf("block length: %w", errMalformed)
		}
		if err := fn(src[:n]); err != nil {
			return err
		}
		src = src[n:]
	}
	return nil
}

// readAll appends everything that r returns to dst.
func readAll(dst []byte, r io.Reader) ([]byte, error) {
	for {
		if len(dst) == cap(dst) {
			room := max(64<<10, min(2*len(dst), MaxInflated+1))
			dst = append(make([]byte, 0, room), dst...)
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > MaxInflated:
			return dst, ErrTooLarge
		case errors.Is(err, io.EOF):
			return dst, nil
		case err != nil:
			return dst, err
		}
	}
}
