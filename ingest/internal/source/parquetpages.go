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

// The bounds of about how much memory the pages take that are open at once, one of each
// column and its dictionary. Writers make pages of 1 MiB, some one of up to 100 MB for all
// of a column's rows in a row group. What small files only claim is bounded by leastPages;
// others may take pagesPerByte times their own size more, up to mostPages.
const (
	leastPages   = 512 << 20
	mostPages    = 2 << 30
	pagesPerByte = 16
)

// maxPageHeader bounds the header of a page, in bytes. It may hold the least and the
// largest value.
const maxPageHeader = 4 << 20

// pagesBegin is where the library is told that each column's pages begin.
const pagesBegin = 4

// pageRoom is the memory that pages may still take, and what they share.
type pageRoom struct {
	ctx  context.Context
	all  int64
	left int64
	zstd *zstd.Decoder
}

// newPageRoom makes room for the pages of a file of a size.
func newPageRoom(ctx context.Context, size int64) *pageRoom {
	all := leastPages + min(size, mostPages)*pagesPerByte
	all = min(all, mostPages)
	return &pageRoom{ctx: ctx, all: all, left: all}
}

func (r *pageRoom) close() {
	if r.zstd != nil {
		r.zstd.Close()
	}
}

// chunkPages gives the library the pages of a column, uncompressed, one behind the other,
// and checks each before: the library makes room for what pages say of themselves, and
// inflates them to any size. It is read from its beginning to its end, once.
type chunkPages struct {
	chunkPlace
	file       io.ReaderAt
	room       *pageRoom
	head, body []byte // what is read next, and where
	at         int64
	page       int64 // what the current page takes
	dictionary int64
}

func newChunkPages(f io.ReaderAt, place chunkPlace, room *pageRoom) *chunkPages {
	return &chunkPages{chunkPlace: place, file: f, room: room, at: pagesBegin}
}

// release gives back what the pages took.
func (c *chunkPages) release() {
	c.room.left += c.page + c.dictionary
	c.page, c.dictionary = 0, 0
}

// ReadAt gives what follows, and maybe less than is asked for.
func (c *chunkPages) ReadAt(p []byte, offset int64) (int, error) {
	if offset != c.at {
		return 0, errors.New("damaged: a page that is not where it should be")
	}
	for len(c.head)+len(c.body) == 0 {
		if c.begin >= c.end {
			return 0, io.EOF
		}
		if err := c.room.ctx.Err(); err != nil {
			return 0, err // the context's own
		}
		if err := c.fill(); err != nil {
			return 0, fmt.Errorf("page at byte %d: %w", c.begin, torn(err))
		}
	}
	n := copy(p, c.head)
	c.head = c.head[n:]
	more := copy(p[n:], c.body)
	if c.body = c.body[more:]; len(c.body) == 0 {
		c.body = nil // the library has a copy
	}
	n += more
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
		return fmt.Errorf("damaged: a page of type %s", h.Type)
	}
	stored, size := int64(h.CompressedPageSize), int64(h.UncompressedPageSize)
	if values < 0 || size < 0 || stored < 0 || stored > c.end-c.begin-length || c.size < 0 {
		return errPage
	}
	size = max(size, stored) // if it is not compressed, nobody looks at what it says
	before := c.page
	// As it is stored, uncompressed, and the library's copy of that.
	if err := c.take(h, c.cost(h, size, values), stored+2*size); err != nil {
		return err
	}
	body := make([]byte, stored)
	if _, err := c.file.ReadAt(body, c.begin+length); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if h.CRC != 0 && uint32(h.CRC) != crc32.ChecksumIEEE(body) { //nolint:gosec // as it is stored
		return errors.New("damaged: its checksum is another one's")
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
		return errPage
	}
	clean.CompressedPageSize, clean.UncompressedPageSize = int32(size), int32(size)
	head, err := thrift.Marshal(new(thrift.CompactProtocol), clean)
	if err != nil {
		return fmt.Errorf("copy the header: %w", err)
	}
	c.head, c.body = append(head, levels...), body
	c.begin += length + stored
	if h.Type != format.DictionaryPage { // it takes the place of the one before
		c.room.left += before
		c.page -= before
	}
	return nil
}

// valuesOf returns how many values a page says that it has, if it is one of those that
// have any.
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

// take takes room for a page, or more of it. Something more is needed only for the moment.
func (c *chunkPages) take(h *format.PageHeader, cost, moment int64) error {
	if cost+moment > c.room.left {
		return fmt.Errorf("pages that take more than %d MiB of memory at once", c.room.all>>20)
	}
	c.room.left -= cost
	if h.Type == format.DictionaryPage {
		c.dictionary += cost
	} else {
		c.page += cost
	}
	return nil
}

// Where a text begins, how long it is, and which value of the dictionary one is.
const (
	offsetSize = 4
	lengthSize = 4
	indexSize  = 4
)

// cost is what the library keeps of a page without its values: its bytes as they are, and
// a byte for each level.
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

// valueCost is what it keeps of the values beyond that. Some are longer as they are, and
// the library has a copy of them for the moment.
func (c *chunkPages) valueCost(h *format.PageHeader, values int64) (cost, moment int64) {
	switch e := encodingOf(h); {
	case h.Type == format.DictionaryPage:
		return 0, 0 // see cost
	case dictionaryEncoded(h):
		return values * indexSize, 0
	case e == format.RLE: // a bit each
		return values/8 + 1, values/8 + 1
	case c.kind == parquet.ByteArray && e == format.Plain:
		return values * offsetSize, 0
	case c.kind == parquet.ByteArray: // their lengths, twice for the moment
		return values * (lengthSize + offsetSize), values * 3 * lengthSize
	case e == format.Plain:
		return 0, 0
	case e == format.ByteStreamSplit: // as long as they were
		return 0, values * c.sizeOf()
	}
	return values * c.sizeOf(), values * (c.sizeOf() + 2*lengthSize)
}

// header reads the next page's header, and returns how long it is.
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
	return h.Type != format.DictionaryPage && (e == format.RLEDictionary || e == format.PlainDictionary) //nolint:staticcheck // old writers'
}

// inflate uncompresses a page. The levels of a page of version 2 are not compressed.
func (c *chunkPages) inflate(h *format.PageHeader, body []byte) ([]byte, error) {
	size, levels := int64(h.UncompressedPageSize), int64(0)
	if v2 := &h.DataPageHeaderV2; h.Type == format.DataPageV2 {
		rep, def := int64(v2.V.RepetitionLevelsByteLength), int64(v2.V.DefinitionLevelsByteLength)
		if levels = rep + def; rep < 0 || def < 0 || levels > min(int64(len(body)), size) {
			return nil, errPage
		}
		if v2.V.IsCompressed.Valid && !v2.V.IsCompressed.V {
			return body, nil
		}
	}
	if c.codec == format.Uncompressed {
		return body, nil
	}
	if levels > 0 && levels == int64(len(body)) {
		return body, nil // nothing but nulls
	}
	out := make([]byte, size)
	copy(out, body[:levels])
	if err := c.uncompress(out[levels:], body[levels:]); err != nil {
		return nil, fmt.Errorf("damaged: uncompress %s: %w", c.codec, err)
	}
	return out, nil
}

// uncompress fills dst with what src holds, which must be just as much.
func (c *chunkPages) uncompress(dst, src []byte) error {
	var r io.Reader
	var err error
	switch c.codec {
	case format.Snappy:
		n, err := snappy.DecodedLen(src)
		if err != nil || n != len(dst) {
			return errors.Join(err, errPage)
		}
		_, err = snappy.Decode(dst, src)
		return err // the caller does
	case format.Lz4Raw:
		if len(dst) == 0 {
			return nil
		}
		n, err := lz4.UncompressBlock(src, dst)
		if err != nil || n != len(dst) {
			return errors.Join(err, errPage)
		}
		return nil
	case format.Gzip:
		r, err = gzip.NewReader(bytes.NewReader(src))
	case format.Brotli:
		r = brotli.NewReader(bytes.NewReader(src))
	case format.Zstd:
		if c.room.zstd == nil {
			c.room.zstd, err = zstd.NewReader(nil, zstd.WithDecoderMaxWindow(maxZstdWindow), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		}
		if err == nil {
			r, err = c.room.zstd, c.room.zstd.Reset(bytes.NewReader(src))
		}
	default:
		return errors.ErrUnsupported
	}
	if err != nil {
		return err // the caller does
	}
	if _, err := io.ReadFull(r, dst); err != nil {
		return err // the caller does
	}
	if n, _ := io.ReadFull(r, make([]byte, 1)); n > 0 {
		return errPage
	}
	return nil
}

// rewrite writes a page anew, in the one form that the library is given: levels and places
// in a dictionary as clean runs, and all other values as they are. So there is one reading
// of a file's bytes, the one here, which has bounds: the library makes room for whatever it
// reads, and where it reads otherwise than a check, the check is of no use.
func (c *chunkPages) rewrite(h *format.PageHeader, body []byte, values int64) (clean *format.PageHeader, levels, out []byte, err error) {
	if h.Type == format.DictionaryPage {
		e := encodingOf(h)
		if e != format.Plain && e != format.PlainDictionary { //nolint:staticcheck // old writers'
			return nil, nil, nil, unsupported("dictionaries", e)
		}
		body, err = c.plain(h, format.Plain, body, values)
		return &format.PageHeader{Type: h.Type, DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{
			NumValues: h.DictionaryPageHeader.V.NumValues, Encoding: format.Plain,
		})}, nil, body, err
	}
	theirs, body, err := c.levels(h, body)
	if err != nil {
		return nil, nil, nil, err
	}
	present := values
	for i, most := range []int{c.rep, c.def} {
		if most == 0 {
			continue
		}
		at := len(levels)
		var all, full int64
		levels, all, full, err = cleanRuns(append(levels, 0, 0, 0, 0), theirs[i], levelWidth(most), values, most)
		if err != nil {
			return nil, nil, nil, err
		}
		if all < values {
			return nil, nil, nil, errPage
		}
		binary.LittleEndian.PutUint32(levels[at:], uint32(len(levels)-at-4)) //nolint:gosec // about as long as they were
		if i == 1 {
			present = full
		}
	}
	cost, moment := c.valueCost(h, present)
	if err := c.take(h, cost, moment); err != nil {
		return nil, nil, nil, err
	}
	page := format.DataPageHeader{
		NumValues: int32(values), Encoding: format.Plain, //nolint:gosec // as it says itself
		RepetitionLevelEncoding: format.RLE, DefinitionLevelEncoding: format.RLE,
	}
	switch {
	case !dictionaryEncoded(h):
		out, err = c.plain(h, encodingOf(h), body, present)
	case len(body) > 0 && body[0] > 32:
		err = errPage
	default:
		page.Encoding = format.RLEDictionary
		if len(body) > 0 { // those that are missing are the first one
			out, _, _, err = cleanRuns(body[:1:1], body[1:], int64(body[0]), present, 0)
		}
	}
	return &format.PageHeader{Type: format.DataPage, DataPageHeader: thrift.New(page)}, levels, out, err
}

// levels cuts off a page's levels, those of repetition and those of definition.
func (c *chunkPages) levels(h *format.PageHeader, body []byte) (levels [2][]byte, rest []byte, err error) {
	if h.Type == format.DataPageV2 {
		v2 := &h.DataPageHeaderV2.V
		levels[0], body = body[:v2.RepetitionLevelsByteLength], body[v2.RepetitionLevelsByteLength:]
		levels[1], body = body[:v2.DefinitionLevelsByteLength], body[v2.DefinitionLevelsByteLength:]
		return levels, body, nil
	}
	v1 := &h.DataPageHeader.V
	encodings := []format.Encoding{v1.RepetitionLevelEncoding, v1.DefinitionLevelEncoding}
	for i, most := range []int{c.rep, c.def} {
		if most == 0 {
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
	return fmt.Errorf("%s that are encoded as %s cannot be read", what, e)
}

// prefixed cuts off bytes whose length stands before them.
func prefixed(data []byte) (first, rest []byte, err error) {
	if len(data) < 4 {
		return nil, nil, errPage
	}
	n := int64(binary.LittleEndian.Uint32(data))
	if n > int64(len(data)-4) {
		return nil, nil, errPage
	}
	return data[4:][:n], data[4+n:], nil
}
