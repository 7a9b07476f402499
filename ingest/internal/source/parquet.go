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

// Parquet is a [Source] of the rows of an Apache Parquet file. A row becomes a JSON object with a
// field for each column that is not null; nested columns, lists and maps become objects and arrays.
// Pages are read on demand, so memory depends on the page size, which is limited, and not on the
// size of the file or of a row.
type Parquet struct {
	ctx         context.Context
	name        string
	opts        Options
	osFile      *os.File
	size        int64
	file        *parquet.File
	shape       *shape
	locations   [][]chunkLocation // by row group and column
	budget      *pageBudget
	group       int           // index of the current row group
	columns     *columnReader // values of the current row group; nil before it is opened
	pos         Position
	total       int64
	consumed    atomic.Int64
	text        rowText
	deferredErr error // returned by the next call of Next
	failure     error
	closed      bool
}

func openParquet(ctx context.Context, path string, f *os.File, size int64, opts Options) (p *Parquet, err error) {
	if opts.ChunkSize <= 0 {
		opts.ChunkSize = defaultChunkSize
	}
	p = &Parquet{ctx: ctx, name: path, opts: opts, osFile: f, size: size}
	defer func() {
		if r := recover(); r != nil { // the library panics on some corrupt files
			err = fmt.Errorf("damaged: %v", r)
		}
		if err != nil {
			err = errors.Join(&Error{Name: path, Op: "read Parquet footer", Err: err}, f.Close())
			p = nil
		}
	}()
	if p.file, p.locations, err = openFooter(f, size); err != nil {
		return nil, err
	}
	p.budget = newPageBudget(ctx, size)
	if p.shape, err = newShape(p.file.Root()); err != nil {
		return nil, err
	}
	p.total = p.file.NumRows()
	return p, p.seek(opts.From.Line)
}

// seek skips to the first row to read.
func (p *Parquet) seek(row int64) error {
	if row > p.total {
		return fmt.Errorf("start after row %d: the file has only %d rows", row, p.total)
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
			return fmt.Errorf("skip to row %d: %w", row, err)
		}
	}
	return nil
}

// open opens the current row group.
func (p *Parquet) open() {
	p.columns = &columnReader{}
	for i, chunk := range p.file.RowGroups()[p.group].ColumnChunks() {
		location := p.locations[p.group][i]
		if i == 0 {
			p.pos.Offset = location.data
		}
		source := newChunkPages(p.osFile, location, p.budget)
		p.columns.all = append(p.columns.all, &columnCursor{
			source: source, pages: chunk.(*parquet.FileColumnChunk).PagesFrom(source),
			buffer: make([]parquet.Value, cursorBuffer),
		})
	}
	p.shape.columns = p.columns
}

// Name implements [Source].
func (p *Parquet) Name() string { return p.name }

// Consumed implements [Source]. It is the share of the rows that were read, scaled to bytes.
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
	p.budget.close()
	return errors.Join(err, p.osFile.Close())
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
			err = &Error{Name: p.name, At: p.pos, Consumed: p.Consumed(), Op: "read Parquet", Err: unexpectedEOF(err)}
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
		if err = p.deferredErr; err == nil {
			out, more, err = p.step(c, out)
		}
		switch {
		case err != nil:
			if len(c.Lines) == 0 {
				return nil, err
			}
			// Return the rows before the error; the next call returns the error.
			p.deferredErr = err
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

// step reads the next row; more is false at the end of the row group.
func (p *Parquet) step(c *Chunk, out []byte) (_ []byte, more bool, err error) {
	defer func() {
		if r := recover(); r != nil { // the library panics on some corrupt pages
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
	*t = rowText{out: out, begin: len(out), maxLen: p.opts.MaxLine, head: p.opts.Head}
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
