package source

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// maxValues bounds the values of one row, and so the time that it takes: a few bytes of
// a page may stand for thousands of millions of them.
const maxValues = 1 << 26

var (
	errUneven  = errors.New("damaged: columns end at different rows")
	errMissing = errors.New("damaged: a row has no value of a column")
	errValues  = fmt.Errorf("damaged: a row of more than %d values", maxValues)
)

// columnReader reads the values of a row group one by one, each column's in its order,
// so that a row of any length takes no more memory than the pages it stands in.
type columnReader struct {
	all    []*columnCursor
	values int // of the row at hand
	err    error
}

// columnCursor is a place in a column.
type columnCursor struct {
	source *chunkPages
	pages  *parquet.FilePages
	page   parquet.Page
	values parquet.ValueReader
	buffer []parquet.Value
	read   []parquet.Value // of buffer
	first  bool            // the next value is the row's first
}

// cursorBuffer is how many values of a column are taken out of a page at once.
const cursorBuffer = 128

// load makes the next value the first of read.
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

// begin begins the next row. There is none when the columns are at their end.
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
	return false, errUneven
}

// peek returns the next value of a column, if it belongs to the row.
func (r *columnReader) peek(i int) (parquet.Value, bool) {
	c := r.all[i]
	if len(c.read) == 0 && !r.more(c) {
		return parquet.Value{}, false
	}
	v := c.read[0]
	return v, c.first || v.RepetitionLevel() != 0
}

// more tells whether a column has a next value, once those that were read are used.
func (r *columnReader) more(c *columnCursor) bool {
	if r.err != nil {
		return false
	}
	err := c.load()
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return err == nil
}

// use passes over the next value of a column.
func (r *columnReader) use(i int) {
	c := r.all[i]
	if len(c.read) == 0 && !r.more(c) || !c.first && c.read[0].RepetitionLevel() == 0 {
		if r.err == nil {
			r.err = errMissing
		}
		return
	}
	c.read, c.first = c.read[1:], false
	if r.values++; r.values > maxValues && r.err == nil {
		r.err = errValues
	}
}

// end passes over what is left of the row.
func (r *columnReader) end() error {
	for i := range r.all {
		for _, ok := r.peek(i); ok; _, ok = r.peek(i) {
			r.use(i)
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
