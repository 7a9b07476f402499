package source

import (
	"context"
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
// that memory depends on the size of pages, of which there is a limit, and not on that
// of the file or of a row.
type Parquet struct {
	ctx      context.Context
	name     string
	opts     Options
	os       *os.File
	size     int64
	file     *parquet.File
	shape    *shape
	places   [][]chunkPlace // of each row group and column
	room     *pageRoom
	group    int           // the row group being read
	columns  *columnReader // its values; nil before it is begun
	pos      Position
	total    int64
	consumed atomic.Int64
	text     rowText
	broken   error // what the next call of Next returns
	failure  error
	closed   bool
}

func openParquet(ctx context.Context, path string, f *os.File, size int64, opts Options) (p *Parquet, err error) {
	if opts.ChunkSize <= 0 {
		opts.ChunkSize = defaultChunkSize
	}
	p = &Parquet{ctx: ctx, name: path, opts: opts, os: f, size: size}
	defer func() {
		if r := recover(); r != nil { // what the library makes of a damaged file
			err = fmt.Errorf("damaged: %v", r)
		}
		if err != nil {
			err = errors.Join(&Error{Name: path, Op: "read the directory of Parquet", Err: err}, f.Close())
			p = nil
		}
	}()
	if p.file, p.places, err = openDirectory(f, size); err != nil {
		return nil, err
	}
	p.room = newPageRoom(ctx, size)
	if p.shape, err = newShape(p.file.Root()); err != nil {
		return nil, err
	}
	p.total = p.file.NumRows()
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
	for ; p.pos.Line < row; p.pos.Line++ {
		more, err := p.columns.begin()
		if err == nil && more {
			err = p.columns.end()
		}
		if err == nil && !more {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("go to row %d: %w", row, err)
		}
	}
	return nil
}

// open begins the current row group.
func (p *Parquet) open() {
	p.columns = &columnReader{}
	for i, chunk := range p.file.RowGroups()[p.group].ColumnChunks() {
		place := p.places[p.group][i]
		if i == 0 {
			p.pos.Offset = place.data
		}
		source := newChunkPages(p.os, place, p.room)
		p.columns.all = append(p.columns.all, &columnCursor{
			source: source, pages: chunk.(*parquet.FileColumnChunk).PagesFrom(source), buffer: make([]parquet.Value, cursorBuffer),
		})
	}
	p.shape.columns = p.columns
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
	if p.columns != nil {
		err = p.columns.close()
	}
	p.room.close()
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
	for len(out) < p.opts.ChunkSize && len(c.Lines) < maxChunkLines {
		if err := p.ctx.Err(); err != nil {
			return nil, err
		}
		if p.group == len(p.file.RowGroups()) {
			break
		}
		more := false
		if err = p.broken; err == nil {
			out, more, err = p.step(c, out)
		}
		switch {
		case err != nil:
			if len(c.Lines) == 0 {
				return nil, err
			}
			// What is sound is delivered; the next call returns the error.
			p.broken = err
			c.End = p.pos
			return c, nil
		case !more:
			if err := p.columns.close(); err != nil {
				return nil, fmt.Errorf("close row group: %w", err)
			}
			p.columns = nil
			p.group++
		}
	}
	if len(c.Lines) == 0 {
		p.consumed.Store(p.size)
		return nil, io.EOF
	}
	p.consumed.Store(int64(float64(p.size) * float64(p.pos.Line) / float64(max(p.total, 1))))
	c.End = p.pos
	return c, nil
}

// step reads the next row, unless the row group has no more.
func (p *Parquet) step(c *Chunk, out []byte) (_ []byte, more bool, err error) {
	defer func() {
		if r := recover(); r != nil { // what the library makes of a damaged page
			more, err = false, fmt.Errorf("damaged: %v", r)
		}
	}()
	if p.columns == nil {
		p.open()
	}
	if more, err = p.columns.begin(); err == nil && more {
		out, err = p.row(c, out)
	}
	return out, more, err
}

// row appends a row's object to out and to the chunk.
func (p *Parquet) row(c *Chunk, out []byte) ([]byte, error) {
	t := &p.text
	*t = rowText{out: out, begin: len(out), most: p.opts.MaxLine, head: p.opts.Head}
	p.shape.append(t)
	if err := p.columns.end(); err != nil {
		return out, err
	}
	line := t.finish()
	p.pos.Line++
	line.Number, line.Offset = p.pos.Line, p.pos.Offset
	c.Lines = append(c.Lines, line)
	return t.out, nil
}
