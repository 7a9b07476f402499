package source

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// Limits of the memory for open pages: one of each column, plus its dictionary. Writers create
// pages of 1 MiB; some write all of a column's rows in a row group as one page of up to 100 MB. The
// budget for pages is minPageMemory plus pageMemoryPerByte times the file size, at most
// maxPageMemory.
const (
	minPageMemory     = 512 << 20
	maxPageMemory     = 2 << 30
	pageMemoryPerByte = 16
)

// maxPageHeader is the maximum size of a page header in bytes. It may have the minimum and the
// maximum value.
const maxPageHeader = 4 << 20

// pagesBegin is the offset at which the library is told that each column's pages start.
const pagesBegin = 4

// pageBudget is the remaining memory for pages, and their shared state.
type pageBudget struct {
	ctx       context.Context
	total     int64
	remaining int64
	zstd      *zstd.Decoder
}

// newPageBudget returns the budget for a file of the given size.
func newPageBudget(ctx context.Context, size int64) *pageBudget {
	total := minPageMemory + min(size, maxPageMemory)*pageMemoryPerByte
	total = min(total, maxPageMemory)
	return &pageBudget{ctx: ctx, total: total, remaining: total}
}

func (r *pageBudget) close() {
	if r.zstd != nil {
		r.zstd.Close()
	}
}

// chunkPages serves the pages of a column to the library, uncompressed and in sequence. It
// validates each page first, because the library allocates whatever pages declare and decompresses
// them to any size. It is read once, from start to end.
type chunkPages struct {
	chunkLocation
	file       io.ReaderAt
	budget     *pageBudget
	head, body []byte // data to be read next
	at         int64
	page       int64 // memory of the current page
	dictionary int64
}

func newChunkPages(f io.ReaderAt, location chunkLocation, budget *pageBudget) *chunkPages {
	return &chunkPages{chunkLocation: location, file: f, budget: budget, at: pagesBegin}
}

// release returns the memory of the pages to the budget.
func (c *chunkPages) release() {
	c.budget.remaining += c.page + c.dictionary
	c.page, c.dictionary = 0, 0
}

// ReadAt reads the data at offset, which must be sequential. It may return less than requested.
func (c *chunkPages) ReadAt(p []byte, offset int64) (int, error) {
	if offset != c.at {
		return 0, errors.New("damaged: page at a wrong offset")
	}
	for len(c.head)+len(c.body) == 0 {
		if c.begin >= c.end {
			return 0, io.EOF
		}
		if err := c.budget.ctx.Err(); err != nil {
			return 0, err // the context's error
		}
		if err := c.fill(); err != nil {
			return 0, fmt.Errorf("page at byte %d: %w", c.begin, unexpectedEOF(err))
		}
	}
	n := copy(p, c.head)
	c.head = c.head[n:]
	copied := copy(p[n:], c.body)
	if c.body = c.body[copied:]; len(c.body) == 0 {
		c.body = nil // the library has a copy
	}
	n += copied
	c.at += int64(n)
	return n, nil
}

// fill reads the next page.
func (c *chunkPages) fill() error {
	h, length, err := c.header()
	if err != nil {
		return err
	}
	values, ok := valuesOf(h)
	if !ok {
		return fmt.Errorf("damaged: unexpected page type %s", h.Type)
	}
	stored, size := int64(h.CompressedPageSize), int64(h.UncompressedPageSize)
	if values < 0 || size < 0 || stored < 0 || stored > c.end-c.begin-length || c.size < 0 {
		return errTruncatedPage
	}
	// Writers may set any size for uncompressed pages.
	size = max(size, stored)
	previous := c.page
	// The stored and the uncompressed page, and the library's copy.
	if err := c.reserve(h, c.cost(h, size, values), stored+2*size); err != nil {
		return err
	}
	body := make([]byte, stored)
	if _, err := c.file.ReadAt(body, c.begin+length); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if h.CRC != 0 && uint32(h.CRC) != crc32.ChecksumIEEE(body) { //nolint:gosec // stored as signed
		return errors.New("damaged: checksum mismatch")
	}
	body, err = c.inflate(h, body)
	if err != nil {
		return err
	}
	clean, levels, body, err := c.rewrite(h, body, values)
	if err != nil {
		return err
	}
	size = int64(len(levels) + len(body))
	if size > math.MaxInt32 {
		return errTruncatedPage
	}
	clean.CompressedPageSize, clean.UncompressedPageSize = int32(size), int32(size)
	head, err := thrift.Marshal(new(thrift.CompactProtocol), clean)
	if err != nil {
		return fmt.Errorf("copy page header: %w", err)
	}
	c.head, c.body = append(head, levels...), body
	c.begin += length + stored
	// The page replaces the previous one.
	if h.Type != format.DictionaryPage {
		c.budget.remaining += previous
		c.page -= previous
	}
	return nil
}

// valuesOf returns the number of values that a page declares; ok is false for page types without values.
func valuesOf(h *format.PageHeader) (int64, bool) {
	switch h.Type {
	case format.DataPage:
		return int64(h.DataPageHeader.V.NumValues), h.DataPageHeader.Valid
	case format.DataPageV2:
		return int64(h.DataPageHeaderV2.V.NumValues), h.DataPageHeaderV2.Valid
	case format.DictionaryPage:
		return int64(h.DictionaryPageHeader.V.NumValues), h.DictionaryPageHeader.Valid
	}
	return 0, false
}

// reserve takes memory for a page from the budget. transient bytes must also be available but are not taken.
func (c *chunkPages) reserve(h *format.PageHeader, cost, transient int64) error {
	if cost+transient > c.budget.remaining {
		return fmt.Errorf("pages require more than %d MiB of memory", c.budget.total>>20)
	}
	c.budget.remaining -= cost
	if h.Type == format.DictionaryPage {
		c.dictionary += cost
	} else {
		c.page += cost
	}
	return nil
}

// Sizes in the library's memory of a string offset, a string length, and a dictionary index.
const (
	offsetSize = 4
	lengthSize = 4
	indexSize  = 4
)

// cost returns the memory for a page without its values: its bytes as stored, and a byte per level.
func (c *chunkPages) cost(h *format.PageHeader, size, values int64) int64 {
	if h.Type == format.DictionaryPage {
		return size + values*(c.size+offsetSize)
	}
	if dictionaryEncoded(h) {
		size = 0
	}
	if c.rep > 0 {
		size += values
	}
	if c.def > 0 {
		size += values
	}
	return size
}

// valueCost returns the additional memory for values. Some encodings grow when decoded, and the
// library holds a transient copy of them.
func (c *chunkPages) valueCost(h *format.PageHeader, values int64) (cost, transient int64) {
	switch e := encodingOf(h); {
	case h.Type == format.DictionaryPage:
		return 0, 0 // included in cost
	case dictionaryEncoded(h):
		return values * indexSize, 0
	case e == format.RLE: // one bit each
		return values/8 + 1, values/8 + 1
	case c.kind == parquet.ByteArray && e == format.Plain:
		return values * offsetSize, 0
	case c.kind == parquet.ByteArray: // lengths, with transient copies
		return values * (lengthSize + offsetSize), values * 3 * lengthSize
	case e == format.Plain:
		return 0, 0
	case e == format.ByteStreamSplit: // same size
		return 0, values * c.sizeOf()
	}
	return values * c.sizeOf(), values * (c.sizeOf() + 2*lengthSize)
}

// header reads the next page's header and returns its length.
func (c *chunkPages) header() (*format.PageHeader, int64, error) {
	for size := int64(4 << 10); ; size *= 32 {
		raw := make([]byte, min(size, c.end-c.begin))
		if _, err := c.file.ReadAt(raw, c.begin); err != nil {
			return nil, 0, fmt.Errorf("read: %w", err)
		}
		v := thriftCheck{data: raw}
		if err := v.structure(0); err != nil {
			if size < maxPageHeader && size < c.end-c.begin {
				continue
			}
			return nil, 0, err
		}
		h := new(format.PageHeader)
		if err := thrift.Unmarshal(new(thrift.CompactProtocol), raw[:v.at], h); err != nil {
			return nil, 0, fmt.Errorf("damaged: %w", err)
		}
		return h, int64(v.at), nil
	}
}

func encodingOf(h *format.PageHeader) format.Encoding {
	switch h.Type {
	case format.DataPageV2:
		return h.DataPageHeaderV2.V.Encoding
	case format.DictionaryPage:
		return h.DictionaryPageHeader.V.Encoding
	}
	return h.DataPageHeader.V.Encoding
}

func dictionaryEncoded(h *format.PageHeader) bool {
	e := encodingOf(h)
	return h.Type != format.DictionaryPage &&
		(e == format.RLEDictionary || e == format.PlainDictionary) //nolint:staticcheck // written by old writers
}

// inflate decompresses a page. The levels of a version 2 page are not compressed.
func (c *chunkPages) inflate(h *format.PageHeader, body []byte) ([]byte, error) {
	size, levels := int64(h.UncompressedPageSize), int64(0)
	if v2 := &h.DataPageHeaderV2; h.Type == format.DataPageV2 {
		rep, def := int64(v2.V.RepetitionLevelsByteLength), int64(v2.V.DefinitionLevelsByteLength)
		if levels = rep + def; rep < 0 || def < 0 || levels > min(int64(len(body)), size) {
			return nil, errTruncatedPage
		}
		if v2.V.IsCompressed.Valid && !v2.V.IsCompressed.V {
			return body, nil
		}
	}
	if c.codec == format.Uncompressed {
		return body, nil
	}
	if levels > 0 && levels == int64(len(body)) {
		return body, nil // all values are null
	}
	out := make([]byte, size)
	copy(out, body[:levels])
	if err := c.uncompress(out[levels:], body[levels:]); err != nil {
		return nil, fmt.Errorf("damaged: uncompress %s: %w", c.codec, err)
	}
	return out, nil
}

// uncompress decompresses src to dst, which must have exactly the decompressed size.
func (c *chunkPages) uncompress(dst, src []byte) error {
	var r io.Reader
	var err error
	switch c.codec {
	case format.Snappy:
		n, err := snappy.DecodedLen(src)
		if err != nil || n != len(dst) {
			return errors.Join(err, errTruncatedPage)
		}
		_, err = snappy.Decode(dst, src)
		return err // wrapped by the caller
	case format.Lz4Raw:
		if len(dst) == 0 {
			return nil
		}
		n, err := lz4.UncompressBlock(src, dst)
		if err != nil || n != len(dst) {
			return errors.Join(err, errTruncatedPage)
		}
		return nil
	case format.Gzip:
		r, err = gzip.NewReader(bytes.NewReader(src))
	case format.Brotli:
		r = brotli.NewReader(bytes.NewReader(src))
	case format.Zstd:
		if c.budget.zstd == nil {
			c.budget.zstd, err = zstd.NewReader(nil, zstd.WithDecoderMaxWindow(maxZstdWindow),
				zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		}
		if err == nil {
			r, err = c.budget.zstd, c.budget.zstd.Reset(bytes.NewReader(src))
		}
	default:
		return errors.ErrUnsupported
	}
	if err != nil {
		return err // wrapped by the caller
	}
	if _, err := io.ReadFull(r, dst); err != nil {
		return err // wrapped by the caller
	}
	if n, _ := io.ReadFull(r, make([]byte, 1)); n > 0 {
		return errTruncatedPage
	}
	return nil
}

// rewrite re-encodes a page in the only form that the library gets: levels and dictionary indices
// as clean runs, all other values as PLAIN. So the file's bytes are decoded in one place, here,
// with limits. Validating without re-encoding would be useless wherever the library decodes
// differently.
func (c *chunkPages) rewrite(
	h *format.PageHeader, body []byte, values int64,
) (clean *format.PageHeader, levels, out []byte, err error) {
	if h.Type == format.DictionaryPage {
		e := encodingOf(h)
		if e != format.Plain && e != format.PlainDictionary { //nolint:staticcheck // written by old writers
			return nil, nil, nil, unsupported("dictionaries", e)
		}
		body, err = c.plain(h, format.Plain, body, values)
		return &format.PageHeader{Type: h.Type, DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{
			NumValues: h.DictionaryPageHeader.V.NumValues, Encoding: format.Plain,
		})}, nil, body, err
	}
	encoded, body, err := c.levels(h, body)
	if err != nil {
		return nil, nil, nil, err
	}
	present := values
	for i, maxLevel := range []int{c.rep, c.def} {
		if maxLevel == 0 {
			continue
		}
		at := len(levels)
		var total, full int64
		levels, total, full, err = cleanRuns(append(levels, 0, 0, 0, 0), encoded[i], levelWidth(maxLevel), values,
			maxLevel)
		if err != nil {
			return nil, nil, nil, err
		}
		if total < values {
			return nil, nil, nil, errTruncatedPage
		}
		binary.LittleEndian.PutUint32(levels[at:], uint32(len(levels)-at-4)) //nolint:gosec // about the original length
		if i == 1 {
			present = full
		}
	}
	cost, transient := c.valueCost(h, present)
	if err := c.reserve(h, cost, transient); err != nil {
		return nil, nil, nil, err
	}
	page := format.DataPageHeader{
		NumValues: int32(values), Encoding: format.Plain, //nolint:gosec // checked by fill
		RepetitionLevelEncoding: format.RLE, DefinitionLevelEncoding: format.RLE,
	}
	switch {
	case !dictionaryEncoded(h):
		out, err = c.plain(h, encodingOf(h), body, present)
	case len(body) > 0 && body[0] > 32:
		err = errTruncatedPage
	default:
		page.Encoding = format.RLEDictionary
		if len(body) > 0 { // missing indices are 0
			out, _, _, err = cleanRuns(body[:1:1], body[1:], int64(body[0]), present, 0)
		}
	}
	return &format.PageHeader{Type: format.DataPage, DataPageHeader: thrift.New(page)}, levels, out, err
}

// levels splits off a page's repetition and definition levels.
func (c *chunkPages) levels(h *format.PageHeader, body []byte) (levels [2][]byte, rest []byte, err error) {
	if h.Type == format.DataPageV2 {
		v2 := &h.DataPageHeaderV2.V
		levels[0], body = body[:v2.RepetitionLevelsByteLength], body[v2.RepetitionLevelsByteLength:]
		levels[1], body = body[:v2.DefinitionLevelsByteLength], body[v2.DefinitionLevelsByteLength:]
		return levels, body, nil
	}
	v1 := &h.DataPageHeader.V
	encodings := []format.Encoding{v1.RepetitionLevelEncoding, v1.DefinitionLevelEncoding}
	for i, maxLevel := range []int{c.rep, c.def} {
		if maxLevel == 0 {
			continue
		}
		if encodings[i] != format.RLE {
			return levels, nil, unsupported("levels", encodings[i])
		}
		if levels[i], body, err = prefixed(body); err != nil {
			return levels, nil, err
		}
	}
	return levels, body, nil
}

func unsupported(what string, e format.Encoding) error {
	return fmt.Errorf("unsupported encoding of %s: %s", what, e)
}

// prefixed splits off bytes with a length prefix.
func prefixed(data []byte) (first, rest []byte, err error) {
	if len(data) < 4 {
		return nil, nil, errTruncatedPage
	}
	n := int64(binary.LittleEndian.Uint32(data))
	if n > int64(len(data)-4) {
		return nil, nil, errTruncatedPage
	}
	return data[4:][:n], data[4+n:], nil
}
