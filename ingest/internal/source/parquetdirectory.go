package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// The bounds of a Parquet file's directory: its bytes, its columns, how deep they are
// nested, and the parts that it has in all: columns of row groups before all, each of which
// has up to four small parts more.
const (
	maxDirectory = 32 << 20
	maxLeaves    = 10_000
	maxNesting   = 64
	maxParts     = 1 << 18
	maxSmall     = 4 * maxParts
)

const parquetMagic = "PAR1"

var errDirectory = errors.New("damaged: the directory does not fit together")

// chunkPlace is where a column's pages stand in the file, and how.
type chunkPlace struct {
	begin, end int64
	data       int64 // where the first page of data is said to stand
	codec      format.CompressionCodec
	size       int64 // of each value, if all have the same
	kind       parquet.Kind
	rep, def   int
}

// openDirectory reads a file's directory. The library is given a copy in which no page is
// compressed: it would inflate pages to any size, and make room for whatever a directory
// says that there is. It reads pages through [chunkPages].
func openDirectory(f *os.File, size int64) (*parquet.File, [][]chunkPlace, error) {
	const trailer = 8
	var end [trailer]byte
	if size < trailer+int64(len(parquetMagic)) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	if _, err := f.ReadAt(end[:], size-trailer); err != nil {
		return nil, nil, fmt.Errorf("read its end: %w", err)
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	switch magic := string(end[4:]); {
	case magic == "PARE":
		return nil, nil, errors.New("it is encrypted")
	case magic != parquetMagic:
		return nil, nil, fmt.Errorf("damaged: it ends with %q", magic)
	case length > size-trailer-int64(len(parquetMagic)):
		return nil, nil, errDirectory
	case length > maxDirectory:
		return nil, nil, fmt.Errorf("its directory is larger than %d MiB", maxDirectory>>20)
	}
	raw := make([]byte, length)
	if _, err := f.ReadAt(raw, size-trailer-length); err != nil {
		return nil, nil, fmt.Errorf("read its directory: %w", err)
	}
	v := thriftCheck{data: raw}
	if err := v.structure(0); err != nil {
		return nil, nil, err
	}
	if v.parts > maxParts || v.small > maxSmall {
		return nil, nil, fmt.Errorf("its directory has more than %d parts, columns times row groups", maxParts)
	}
	var md format.FileMetaData
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), raw, &md); err != nil {
		return nil, nil, fmt.Errorf("damaged: %w", err)
	}
	if err := checkSchema(md.Schema, md.RowGroups); err != nil {
		return nil, nil, err
	}
	places, err := takePlaces(&md, size)
	if err != nil {
		return nil, nil, err
	}
	copied, err := thrift.Marshal(new(thrift.CompactProtocol), &md)
	if err != nil {
		return nil, nil, fmt.Errorf("copy the directory: %w", err)
	}
	whole := append([]byte(parquetMagic), copied...)
	whole = binary.LittleEndian.AppendUint32(whole, uint32(len(copied))) //nolint:gosec // shorter than what it was read from
	whole = append(whole, parquetMagic...)
	// Indexes and filters serve queries; nothing here asks for a part.
	file, err := parquet.OpenFile(bytes.NewReader(whole), int64(len(whole)), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, nil, err // says what it was doing
	}
	complete(file.Root(), places)
	return file, places, nil
}

// checkSchema checks that the columns are few, are not nested too deep, and are all there
// in each row group.
func checkSchema(schema []format.SchemaElement, groups []format.RowGroup) error {
	leaves := 0
	var open []int32 // children that are still to come, by depth
	for i, e := range schema {
		if i > 0 && len(open) == 0 {
			return errDirectory
		}
		if len(open) > 0 {
			open[len(open)-1]--
		}
		if e.Type.Valid {
			leaves++
		}
		if n := e.NumChildren; !e.Type.Valid && n.Valid && n.V > 0 {
			if open = append(open, n.V); len(open) > maxNesting {
				return fmt.Errorf("its columns are nested deeper than %d levels", maxNesting)
			}
		}
		for len(open) > 0 && open[len(open)-1] == 0 {
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		return errDirectory
	}
	if leaves > maxLeaves {
		return fmt.Errorf("it has more than %d columns", maxLeaves)
	}
	for _, g := range groups {
		if len(g.Columns) != leaves || g.NumRows < 0 {
			return errDirectory
		}
	}
	return nil
}

// takePlaces takes out of a directory where the pages are.
func takePlaces(md *format.FileMetaData, size int64) ([][]chunkPlace, error) {
	places := make([][]chunkPlace, len(md.RowGroups))
	for g := range md.RowGroups {
		group := &md.RowGroups[g]
		group.SortingColumns = nil
		for i := range group.Columns {
			c := &group.Columns[i]
			m := &c.MetaData
			begin := m.DataPageOffset
			if m.DictionaryPageOffset != 0 {
				begin = m.DictionaryPageOffset
			}
			switch {
			case c.FilePath != "":
				return nil, errors.New("its pages are in other files")
			case len(c.EncryptedColumnMetadata) > 0 || c.CryptoMetadata.Value != nil:
				return nil, errors.New("it is encrypted")
			case begin < 0 || begin > size || m.TotalCompressedSize < 0 || m.NumValues < 0:
				return nil, errDirectory
			}
			end := begin + min(m.TotalCompressedSize, size-begin)
			places[g] = append(places[g], chunkPlace{begin: begin, end: end, data: m.DataPageOffset, codec: m.Codec})
			*c = format.ColumnChunk{MetaData: format.ColumnMetaData{
				Type: m.Type, Encoding: m.Encoding, PathInSchema: m.PathInSchema, NumValues: m.NumValues,
				DataPageOffset: pagesBegin, TotalCompressedSize: math.MaxInt64 - pagesBegin,
			}}
		}
	}
	md.NumRows = 0
	for _, g := range md.RowGroups {
		md.NumRows += g.NumRows
	}
	md.KeyValueMetadata = nil
	return places, nil
}

// complete adds what the schema says of each column.
func complete(c *parquet.Column, places [][]chunkPlace) {
	for _, child := range c.Columns() {
		complete(child, places)
	}
	if !c.Leaf() {
		return
	}
	for _, group := range places {
		p := &group[c.Index()]
		p.kind, p.rep, p.def = c.Type().Kind(), c.MaxRepetitionLevel(), c.MaxDefinitionLevel()
		if p.kind == parquet.FixedLenByteArray {
			p.size = int64(c.Type().Length())
		}
	}
}
