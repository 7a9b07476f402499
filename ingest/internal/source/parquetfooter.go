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

// Limits of a Parquet footer: its bytes, its columns, their nesting, and its total number of parts,
// mainly columns of row groups. Each of these may have up to four small parts.
const (
	maxFooter     = 32 << 20
	maxLeaves     = 10_000
	maxNesting    = 64
	maxParts      = 1 << 18
	maxSmallParts = 4 * maxParts
)

const parquetMagic = "PAR1"

var errFooter = errors.New("damaged: footer is inconsistent")

// chunkLocation is the location and the format of a column's pages in the file.
type chunkLocation struct {
	begin, end int64
	data       int64 // offset of the first data page, as declared
	codec      format.CompressionCodec
	size       int64 // size of each value, if it is fixed
	kind       parquet.Kind
	rep, def   int
}

// openFooter reads a file's footer. The library gets a copy in which no page is compressed, because
// it would decompress pages to any size and allocate whatever a footer declares. It reads pages
// through [chunkPages].
func openFooter(f *os.File, size int64) (*parquet.File, [][]chunkLocation, error) {
	const trailer = 8
	var end [trailer]byte
	if size < trailer+int64(len(parquetMagic)) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	if _, err := f.ReadAt(end[:], size-trailer); err != nil {
		return nil, nil, fmt.Errorf("read trailer: %w", err)
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	switch magic := string(end[4:]); {
	case magic == "PARE":
		return nil, nil, errors.New("encrypted files are not supported")
	case magic != parquetMagic:
		return nil, nil, fmt.Errorf("damaged: file ends with %q", magic)
	case length > size-trailer-int64(len(parquetMagic)):
		return nil, nil, errFooter
	case length > maxFooter:
		return nil, nil, fmt.Errorf("footer is larger than %d MiB", maxFooter>>20)
	}
	raw := make([]byte, length)
	if _, err := f.ReadAt(raw, size-trailer-length); err != nil {
		return nil, nil, fmt.Errorf("read footer: %w", err)
	}
	v := thriftCheck{data: raw}
	if err := v.structure(0); err != nil {
		return nil, nil, err
	}
	if v.parts > maxParts || v.smallParts > maxSmallParts {
		return nil, nil, fmt.Errorf("footer has more than %d parts (columns times row groups)", maxParts)
	}
	var md format.FileMetaData
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), raw, &md); err != nil {
		return nil, nil, fmt.Errorf("damaged: %w", err)
	}
	if err := checkSchema(md.Schema, md.RowGroups); err != nil {
		return nil, nil, err
	}
	locations, err := extractLocations(&md, size)
	if err != nil {
		return nil, nil, err
	}
	copied, err := thrift.Marshal(new(thrift.CompactProtocol), &md)
	if err != nil {
		return nil, nil, fmt.Errorf("copy footer: %w", err)
	}
	rebuilt := append([]byte(parquetMagic), copied...)
	rebuilt = binary.LittleEndian.AppendUint32(rebuilt, uint32(len(copied))) //nolint:gosec // shorter than the original
	rebuilt = append(rebuilt, parquetMagic...)
	// Indexes and filters serve queries; all rows are read here.
	file, err := parquet.OpenFile(bytes.NewReader(rebuilt), int64(len(rebuilt)), parquet.SkipPageIndex(true),
		parquet.SkipBloomFilters(true))
	if err != nil {
		// The error names the operation.
		return nil, nil, err
	}
	addSchema(file.Root(), locations)
	return file, locations, nil
}

// checkSchema checks the limits of columns and nesting, and that each row group has all columns.
func checkSchema(schema []format.SchemaElement, groups []format.RowGroup) error {
	leaves := 0
	var open []int32 // number of outstanding children, by depth
	for i, e := range schema {
		if i > 0 && len(open) == 0 {
			return errFooter
		}
		if len(open) > 0 {
			open[len(open)-1]--
		}
		if e.Type.Valid {
			leaves++
		}
		if n := e.NumChildren; !e.Type.Valid && n.Valid && n.V > 0 {
			if open = append(open, n.V); len(open) > maxNesting {
				return fmt.Errorf("columns are nested deeper than %d levels", maxNesting)
			}
		}
		for len(open) > 0 && open[len(open)-1] == 0 {
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		return errFooter
	}
	if leaves > maxLeaves {
		return fmt.Errorf("more than %d columns", maxLeaves)
	}
	for _, g := range groups {
		if len(g.Columns) != leaves || g.NumRows < 0 {
			return errFooter
		}
	}
	return nil
}

// extractLocations removes the page locations from a footer and returns them.
func extractLocations(md *format.FileMetaData, size int64) ([][]chunkLocation, error) {
	locations := make([][]chunkLocation, len(md.RowGroups))
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
				return nil, errors.New("pages in other files are not supported")
			case len(c.EncryptedColumnMetadata) > 0 || c.CryptoMetadata.Value != nil:
				return nil, errors.New("encrypted files are not supported")
			case begin < 0 || begin > size || m.TotalCompressedSize < 0 || m.NumValues < 0:
				return nil, errFooter
			}
			end := begin + min(m.TotalCompressedSize, size-begin)
			locations[g] = append(locations[g],
				chunkLocation{begin: begin, end: end, data: m.DataPageOffset, codec: m.Codec})
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
	return locations, nil
}

// addSchema completes the locations with the schema of each column.
func addSchema(c *parquet.Column, locations [][]chunkLocation) {
	for _, child := range c.Columns() {
		addSchema(child, locations)
	}
	if !c.Leaf() {
		return
	}
	for _, group := range locations {
		p := &group[c.Index()]
		p.kind, p.rep, p.def = c.Type().Kind(), c.MaxRepetitionLevel(), c.MaxDefinitionLevel()
		if p.kind == parquet.FixedLenByteArray {
			p.size = int64(c.Type().Length())
		}
	}
}
