package source

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// maxValues is the maximum number of values in a row, which bounds its processing time: a few bytes
// of a page may stand for billions of values.
const maxValues = 1 << 26

var (
	errUnequalRows  = errors.New("damaged: columns have different row counts")
	errMissingValue = errors.New("damaged: row without a value for a column")
	errRowTooLong   = fmt.Errorf("damaged: row with more than %d values", maxValues)
)

// columnReader reads the values of a row group one at a time, in column order, so that a row of any
// length needs only the memory of its pages.
type columnReader struct {
	all    []*columnCursor
	values int // in the current row
	err    error
}

// columnCursor is a position in a column.
type columnCursor struct {
	source *chunkPages
	pages  *parquet.FilePages
	page   parquet.Page
	values parquet.ValueReader
	buffer []parquet.Value
	read   []parquet.Value // the part of buffer not used yet
	first  bool            // the next value is the row's first
}

// cursorBuffer is how many values of a column are read from a page at a time.
const cursorBuffer = 128

// load ensures that read has the next value.
func (c *columnCursor) load() error {
	for len(c.read) == 0 {
		if c.page == nil {
			page, err := c.pages.ReadPage()
			if err != nil {
				return err
			}
			c.page, c.values = page, page.Values()
		}
		n, err := c.values.ReadValues(c.buffer)
		c.read = c.buffer[:n]
		switch {
		case n > 0:
		case errors.Is(err, io.EOF):
			parquet.Release(c.page)
			c.page, c.values = nil, nil
		case err != nil:
			return err
		default:
			return io.ErrNoProgress
		}
	}
	return nil
}

func (c *columnCursor) close() error {
	if c.page != nil {
		parquet.Release(c.page)
		c.page = nil
	}
	c.source.release()
	return c.pages.Close()
}

// begin starts the next row. It returns false if all columns are at their end.
func (r *columnReader) begin() (bool, error) {
	ended := 0
	for _, c := range r.all {
		c.first = true
		if len(c.read) > 0 {
			continue
		}
		switch err := c.load(); {
		case errors.Is(err, io.EOF):
			ended++
		case err != nil:
			return false, err
		}
	}
	r.values = 0
	switch ended {
	case 0:
		return true, nil
	case len(r.all):
		return false, nil
	}
	return false, errUnequalRows
}

// peek returns the next value of a column; ok is false if it belongs to the next row.
func (r *columnReader) peek(i int) (parquet.Value, bool) {
	c := r.all[i]
	if len(c.read) == 0 && !r.hasMore(c) {
		return parquet.Value{}, false
	}
	v := c.read[0]
	return v, c.first || v.RepetitionLevel() != 0
}

// hasMore reports whether a column has a next value. It is called when read is empty.
func (r *columnReader) hasMore(c *columnCursor) bool {
	if r.err != nil {
		return false
	}
	err := c.load()
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return err == nil
}

// skip skips the next value of a column.
func (r *columnReader) skip(i int) {
	c := r.all[i]
	if len(c.read) == 0 && !r.hasMore(c) || !c.first && c.read[0].RepetitionLevel() == 0 {
		if r.err == nil {
			r.err = errMissingValue
		}
		return
	}
	c.read, c.first = c.read[1:], false
	if r.values++; r.values > maxValues && r.err == nil {
		r.err = errRowTooLong
	}
}

// end skips the rest of the row.
func (r *columnReader) end() error {
	for i := range r.all {
		for _, ok := r.peek(i); ok; _, ok = r.peek(i) {
			r.skip(i)
		}
	}
	return r.err
}

func (r *columnReader) close() error {
	var errs []error
	for _, c := range r.all {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}
