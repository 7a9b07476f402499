package sampledata

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// object appends one JSON value to a reused buffer. Commas depend on the last byte written, so fields can be
// omitted freely.
type object struct {
	b   []byte
	err error // first invalid UTF-8 string, an error in the word lists
}

func (o *object) reset() { o.b = o.b[:0] }

func (o *object) comma() {
	if n := len(o.b); n > 0 {
		if c := o.b[n-1]; c != '{' && c != '[' && c != ':' {
			o.b = append(o.b, ',')
		}
	}
}

func (o *object) open()      { o.comma(); o.b = append(o.b, '{') }
func (o *object) close()     { o.b = append(o.b, '}') }
func (o *object) closeList() { o.b = append(o.b, ']') }

func (o *object) key(k string) {
	o.comma()
	o.b = append(o.b, '"')
	o.b = append(o.b, k...)
	o.b = append(o.b, '"', ':')
}

func (o *object) openKey(k string)     { o.key(k); o.b = append(o.b, '{') }
func (o *object) openListKey(k string) { o.key(k); o.b = append(o.b, '[') }

func (o *object) quote(s string) {
	b, err := jsontext.AppendQuote(o.b, s)
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("quote %q: %w", s, err)
	}
	o.b = b
}

func (o *object) item(s string) { o.comma(); o.quote(s) }

func (o *object) str(k, v string) { o.key(k); o.quote(v) }

// text writes a field, omitted if empty.
func (o *object) text(k, v string) {
	if v != "" {
		o.str(k, v)
	}
}

// loose writes an optional field as crawls do: an empty one is mostly omitted, sometimes null or an empty
// string.
func (o *object) loose(r *rng, k, v string) {
	if v != "" {
		o.str(k, v)
		return
	}
	switch u := r.n(100); {
	case u < 25:
		o.null(k)
	case u < 45:
		o.str(k, "")
	}
}

func (o *object) num(k string, v int64) {
	o.key(k)
	o.b = strconv.AppendInt(o.b, v, 10)
}

func (o *object) float(k string, v float64) {
	o.key(k)
	o.b = strconv.AppendFloat(o.b, v, 'f', -1, 64)
}

func (o *object) boolean(k string, v bool) {
	o.key(k)
	o.b = strconv.AppendBool(o.b, v)
}

func (o *object) null(k string) {
	o.key(k)
	o.b = append(o.b, "null"...)
}

// instant writes a time in Unix milliseconds as ISO 8601 in UTC, with milliseconds only if non-zero.
func (o *object) instant(k string, ms int64) {
	o.key(k)
	o.b = append(o.b, '"')
	o.b = appendInstant(o.b, ms)
	o.b = append(o.b, '"')
}

func appendInstant(b []byte, ms int64) []byte {
	layout := "2006-01-02T15:04:05Z"
	if ms%1000 != 0 {
		layout = "2006-01-02T15:04:05.000Z"
	}
	return time.UnixMilli(ms).UTC().AppendFormat(b, layout)
}

func (o *object) list(k string, items []string) {
	o.openListKey(k)
	for _, s := range items {
		o.item(s)
	}
	o.closeList()
}
