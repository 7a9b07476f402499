package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/parquet-go/parquet-go"
)

// Parquet is a [Source] of the rows of an Apache Parquet file. A row becomes a
// JSON object with a member for each column that is not null; nested columns,
// lists and maps become objects and lists. Pages are read as they are needed, so
// that memory depends on the size of pages and not on that of the file.
type Parquet struct {
	ctx      context.Context
	name     string
	opts     Options
	os       *os.File
	file     *parquet.File
	shape    *shape
	group    int // the row group being read
	rows     parquet.Rows
	buffer   []parquet.Row
	pos      Position
	total    int64
	consumed atomic.Int64
	failure  error
	closed   bool
}

const parquetBatch = 64

func openParquet(ctx context.Context, path string, f *os.File, size int64, opts Options) (p *Parquet, err error) {
	if opts.ChunkSize <= 0 {
		opts.ChunkSize = defaultChunkSize
	}
	p = &Parquet{ctx: ctx, name: path, opts: opts, os: f}
	defer func() {
		if r := recover(); r != nil { // what the library makes of a damaged file
			err = fmt.Errorf("damaged: %v", r)
		}
		if err != nil {
			err = errors.Join(&Error{Name: path, Op: "read the directory of Parquet", Err: err}, f.Close())
			p = nil
		}
	}()
	// Indexes and filters serve queries; nothing here asks for a part.
	if p.file, err = parquet.OpenFile(f, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true)); err != nil {
		return nil, err
	}
	if p.shape, err = newShape(p.file.Root()); err != nil {
		return nil, err
	}
	p.total = p.file.NumRows()
	p.buffer = make([]parquet.Row, parquetBatch)
	return p, p.begin(opts.From.Line)
}

// begin finds the row to begin with.
func (p *Parquet) begin(row int64) error {
	if row > p.total {
		return fmt.Errorf("begin behind row %d: there are only %d", row, p.total)
	}
	for p.pos.Line < row {
		n := p.file.RowGroups()[p.group].NumRows()
		if p.pos.Line+n > row {
			break
		}
		p.pos.Line += n
		p.group++
	}
	if p.group == len(p.file.RowGroups()) {
		return nil
	}
	p.open()
	if skip := row - p.pos.Line; skip > 0 {
		if err := p.rows.SeekToRow(skip); err != nil {
			return fmt.Errorf("go to row %d: %w", row, err)
		}
		p.pos.Line = row
	}
	return nil
}

// open opens the current row group.
func (p *Parquet) open() {
	p.rows = p.file.RowGroups()[p.group].Rows()
	p.pos.Offset = 0
	if columns := p.file.Metadata().RowGroups[p.group].Columns; len(columns) > 0 {
		p.pos.Offset = columns[0].MetaData.DataPageOffset
	}
}

// Name implements [Source].
func (p *Parquet) Name() string { return p.name }

// Consumed implements [Source]: the share of the rows that were read, in bytes.
func (p *Parquet) Consumed() int64 { return p.consumed.Load() }

// Close implements [Source].
func (p *Parquet) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	var err error
	if p.rows != nil {
		err = p.rows.Close()
	}
	return errors.Join(err, p.os.Close())
}

// Next implements [Source].
func (p *Parquet) Next() (c *Chunk, err error) {
	if p.failure != nil {
		return nil, p.failure
	}
	defer func() {
		if r := recover(); r != nil {
			c, err = nil, fmt.Errorf("damaged: %v", r)
		}
		if err == nil {
			return
		}
		if !errors.Is(err, io.EOF) && p.ctx.Err() == nil {
			err = &Error{Name: p.name, At: p.pos, Consumed: p.Consumed(), Op: "read Parquet", Err: torn(err)}
		}
		p.failure = err
	}()
	c = &Chunk{}
	var out []byte
	for len(out) < p.opts.ChunkSize {
		if err := p.ctx.Err(); err != nil {
			return nil, err
		}
		if p.group == len(p.file.RowGroups()) {
			break
		}
		if p.rows == nil {
			p.open()
		}
		n, err := p.rows.ReadRows(p.buffer)
		for _, row := range p.buffer[:n] {
			out = p.row(c, out, row)
		}
		switch {
		case errors.Is(err, io.EOF):
			if err := p.rows.Close(); err != nil {
				return nil, fmt.Errorf("close row group: %w", err)
			}
			p.rows = nil
			p.group++
		case err != nil:
			if len(c.Lines) == 0 {
				return nil, err
			}
			// What is sound is delivered; the next call meets the error again.
			c.End = p.pos
			return c, nil
		case n == 0:
			return nil, io.ErrNoProgress
		}
	}
	if len(c.Lines) == 0 {
		p.consumed.Store(p.file.Size())
		return nil, io.EOF
	}
	p.consumed.Store(int64(float64(p.file.Size()) * float64(p.pos.Line) / float64(max(p.total, 1))))
	c.End = p.pos
	return c, nil
}

// row appends a row's object to out and to the chunk.
func (p *Parquet) row(c *Chunk, out []byte, row parquet.Row) []byte {
	p.pos.Line++
	begin := len(out)
	out = p.shape.append(out, row)
	raw := out[begin:len(out):len(out)]
	line := Line{Raw: raw, Number: p.pos.Line, Offset: p.pos.Offset}
	if len(raw) > p.opts.MaxLine {
		line.Oversize = &Oversize{Length: int64(len(raw)), SHA256: sha256.Sum256(raw)}
		line.Raw = append([]byte(nil), raw[:p.opts.Head]...)
		out = out[:begin]
	}
	c.Lines = append(c.Lines, line)
	return out
}
