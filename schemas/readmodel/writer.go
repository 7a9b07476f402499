package readmodel

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/derive"
)

// writer appends fields of JSON objects to a buffer. Every field ends with a comma; closing an object or a list, and
// taking a fragment, drop the last one. Keys are passed quoted and with their colon, ready to be copied.
//
// With noMail set it removes e-mail addresses from every string it writes (schemas/MAPPING.md, "E-mail removal") and
// then sets changed.
type writer struct {
	buf     []byte
	noMail  bool
	changed bool
	own     ownAddresses
	scratch []byte
	walker  walker
}

// reset begins the next fragment. own has the addresses of the record.
func (w *writer) reset(noMail bool) {
	w.buf = w.buf[:0]
	w.noMail, w.changed = noMail, false
}

// fragment returns the bytes written since reset, without the trailing comma. It is valid until the next reset.
func (w *writer) fragment() []byte {
	if n := len(w.buf); n > 0 && w.buf[n-1] == ',' {
		return w.buf[:n-1]
	}
	return w.buf
}

// quote appends a JSON string.
func (w *writer) quote(s string) {
	escape, mail := inspect(s)
	if mail && w.noMail {
		clean, changed := w.removeMail(s)
		if changed {
			w.changed = true
			w.quoteAsIs(clean)
			return
		}
	}
	if escape {
		w.quoteAsIs(s)
		return
	}
	w.buf = append(w.buf, '"')
	w.buf = append(w.buf, s...)
	w.buf = append(w.buf, '"')
}

func (w *writer) quoteAsIs(s string) {
	// Decoding has rejected invalid UTF-8, the only possible error.
	w.buf, _ = jsontext.AppendQuote(w.buf, s)
}

// inspect scans a string once, eight bytes at a time, since most strings can be copied as they are. escape: it has a
// byte that JSON escapes. mail: it has a byte that an at sign may begin with (removeMail).
func inspect(s string) (escape, mail bool) {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	var e, m uint64
	for ; len(s) >= 8; s = s[8:] {
		x := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		// A byte of a word is zero where it equals c after an exclusive or with
		// c; and (y-1) &^ y has a high bit set where a byte of y is zero.
		quote, backslash := x^(ones*'"'), x^(ones*'\\')
		e |= (x-ones*0x20)&^x | (quote-ones)&^quote | (backslash-ones)&^backslash
		at, percent, wide := x^(ones*'@'), x^(ones*'%'), x^(ones*0xef)
		m |= (at-ones)&^at | (percent-ones)&^percent | (wide-ones)&^wide
	}
	escape, mail = e&highs != 0, m&highs != 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c < 0x20, c == '"', c == '\\':
			escape = true
		case c == '@', c == '%', c == 0xef:
			mail = true
		}
	}
	return escape, mail
}

func (w *writer) str(key, value string) {
	if value == "" {
		return
	}
	w.buf = append(w.buf, key...)
	w.quote(value)
	w.buf = append(w.buf, ',')
}

func (w *writer) int(key string, value *int64) {
	if value == nil {
		return
	}
	w.integer(key, *value)
}

func (w *writer) integer(key string, value int64) {
	w.buf = append(w.buf, key...)
	w.buf = strconv.AppendInt(w.buf, value, 10)
	w.buf = append(w.buf, ',')
}

func (w *writer) float(key string, value *float64) {
	if value == nil {
		return
	}
	w.buf = append(w.buf, key...)
	w.buf = strconv.AppendFloat(w.buf, *value, 'g', -1, 64)
	w.buf = append(w.buf, ',')
}

func (w *writer) bool(key string, value *bool) {
	if value == nil {
		return
	}
	w.flag(key, *value)
}

func (w *writer) flag(key string, value bool) {
	w.buf = append(w.buf, key...)
	w.buf = strconv.AppendBool(w.buf, value)
	w.buf = append(w.buf, ',')
}

func (w *writer) null(key string) {
	w.buf = append(w.buf, key...)
	w.buf = append(w.buf, "null,"...)
}

// open begins an object or, with bracket '[', an array, and returns its start for close or closeEntry.
func (w *writer) open(key string, bracket byte) (mark int) {
	mark = len(w.buf)
	w.buf = append(w.buf, key...)
	w.buf = append(w.buf, bracket)
	return mark
}

// close ends what open began. An empty object or array is removed, including its key.
func (w *writer) close(mark int, bracket byte) {
	switch w.buf[len(w.buf)-1] {
	case '{', '[':
		w.buf = w.buf[:mark]
	default:
		w.buf[len(w.buf)-1] = bracket
		w.buf = append(w.buf, ',')
	}
}

// closeEntry ends an object that is kept even if it is empty.
func (w *writer) closeEntry() {
	if n := len(w.buf); w.buf[n-1] == ',' {
		w.buf = w.buf[:n-1]
	}
	w.buf = append(w.buf, "},"...)
}

// counted is the rule for writing <list>_count after a list.
type counted bool

const (
	always  counted = true  // lists of a record
	whenCut counted = false // deeper lists
)

// count writes <list>_count for a list whose key is given.
func (w *writer) count(key string, n int, when counted) {
	if n == 0 || (when == whenCut && n <= MaxEntries) {
		return
	}
	w.buf = append(w.buf, key[:len(key)-len(`":`)]...)
	w.buf = append(w.buf, `_count":`...)
	w.buf = strconv.AppendInt(w.buf, int64(n), 10)
	w.buf = append(w.buf, ',')
}

// strings writes an array of strings without empty ones, and its count.
func (w *writer) strings(key string, values []string, when counted) {
	if len(values) == 0 {
		return
	}
	n := 0
	mark := w.open(key, '[')
	for _, v := range values {
		if v == "" {
			continue
		}
		if n++; n <= MaxEntries {
			w.quote(v)
			w.buf = append(w.buf, ',')
		}
	}
	w.close(mark, ']')
	w.count(key, n, when)
}

// derived writes the paths of the derived fields that a shape includes.
func (w *writer) derived(fields derive.Fields, paths []derive.Path) {
	mark := w.open(`"derived":`, '[')
	for _, p := range paths {
		if fields&p.Field != 0 {
			w.quote(p.Name)
			w.buf = append(w.buf, ',')
		}
	}
	w.close(mark, ']')
}

// joined writes the non-empty values as one string.
func (w *writer) joined(key, separator string, values ...string) {
	w.scratch = w.scratch[:0]
	for _, v := range values {
		if v == "" {
			continue
		}
		if len(w.scratch) > 0 {
			w.scratch = append(w.scratch, separator...)
		}
		w.scratch = append(w.scratch, v...)
	}
	w.str(key, string(w.scratch))
}
