package record

import (
	"bytes"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"github.com/go-json-experiment/json/jsontext"
)

//go:generate go run ./internal/decodergen

// streamDecoder decodes, validates and hashes a record in one pass. It supports well-formed, compact records
// only: on anything invalid or unusual it gives up, and the reference implementation codec.decodeGeneric decides
// and reports errors. It must never accept a record that decodeGeneric rejects or decodes differently; a fuzz test
// compares the two.
//
// The methods for the Go types are generated. Every method that reads a value starts at the value's first
// byte, moves past its last, returns its part of the content hash, as scanner does, and sets empty.
type streamDecoder struct {
	s      string // the record; decoded strings share its memory
	i      int
	failed bool
	name   string   // of the current field
	names  []string // unknown names of the enclosing objects
	empty  bool     // the last value was null or empty
	absent bool     // an array element or an object was null or empty
	buf    []byte   // scratch space for unescaping
}

// maxUnknownNames is the maximum number of unknown names in one object; they are compared linearly.
const maxUnknownNames = 48

// decodeFast decodes raw. ok is false if raw needs decodeGeneric.
func (c codec) decodeFast(raw []byte) (body, content, bool) {
	trimmed := bytes.Trim(raw, " \t\r\n")
	d := streamDecoder{s: string(trimmed)}
	if d.at() != '{' || !utf8.ValidString(d.s) {
		return nil, content{}, false
	}
	b := c.new()
	hash := d.body(b)
	if d.failed || d.i != len(d.s) {
		return nil, content{}, false
	}
	return b, content{hash: hash, compact: trimmed[:len(trimmed):len(trimmed)], absent: d.absent}, true
}

// fail stops decoding. It moves to the end, so every loop ends.
func (d *streamDecoder) fail() uint64 {
	d.failed = true
	d.i = len(d.s)
	return 0
}

// at returns the current byte, 0 at the end.
func (d *streamDecoder) at() byte {
	if d.i < len(d.s) {
		return d.s[d.i]
	}
	return 0
}

// object is the state of an object being decoded.
type object struct {
	sum, count uint64
	seen       uint64 // known fields, one bit each
	names      int    // index in streamDecoder.names of this object's first name
	started    bool
	filled     bool // a field is not empty
}

// open starts an object. depth is as in scanner.
func (d *streamDecoder) open(depth int) object {
	if d.at() != '{' || depth > MaxDepth {
		d.fail()
		return object{}
	}
	d.i++
	return object{names: len(d.names)}
}

// next moves to the next field's value and sets name, or moves past the object and returns false.
func (d *streamDecoder) next(o *object) bool {
	switch c := d.at(); {
	case c == '}':
		d.i++
		return false
	case !o.started:
		o.started = true
	case c == ',':
		d.i++
	default:
		d.fail()
		return false
	}
	begin := d.i + 1
	if d.at() != '"' {
		d.fail()
		return false
	}
	end := begin + plain(d.s[begin:])
	if end+1 >= len(d.s) || d.s[end] != '"' || d.s[end+1] != ':' { // Including escaped names.
		d.fail()
		return false
	}
	d.name, d.i = d.s[begin:end], end+2
	return true
}

// member records a known field: bit identifies it within its type, hash is the hash of its name.
func (d *streamDecoder) member(o *object, bit, hash, value uint64) {
	d.unhashed(o, bit, value)
	o.sum += mix(hash, value)
	o.count++
}

// unhashed is member for fields outside the hash.
func (d *streamDecoder) unhashed(o *object, bit, _ uint64) {
	if o.seen&bit != 0 {
		d.fail()
	}
	o.seen |= bit
	o.filled = o.filled || !d.empty
}

// unknown reads an unknown field into the type's Unknown.
func (d *streamDecoder) unknown(o *object, into *jsontext.Value, depth int) {
	begin := d.i - len(d.name) - len(`"":`)
	d.foreign(o, depth)
	if d.failed {
		return
	}
	kept := *into
	if n := len(kept); n > 0 {
		kept[n-1] = ','
	} else {
		kept = append(kept, '{')
	}
	kept = append(kept, d.s[begin:d.i]...)
	*into = append(kept, '}')
}

// foreign reads a field with an unknown name.
func (d *streamDecoder) foreign(o *object, depth int) {
	before := d.names[o.names:]
	if len(before) == maxUnknownNames || slices.Contains(before, d.name) {
		d.fail()
		return
	}
	d.names = append(d.names, d.name)
	hash := xxhash.Sum64String(d.name)
	value := d.any(depth + 1)
	o.filled = o.filled || !d.empty
	o.sum += mix(hash, value)
	o.count++
}

// close ends an object.
func (d *streamDecoder) close(o *object) uint64 {
	if d.failed {
		return 0
	}
	d.names = d.names[:o.names]
	d.empty = !o.filled
	d.absent = d.absent || d.empty
	return mix(o.sum, o.count^tagObject)
}

// any reads a value of any type.
func (d *streamDecoder) any(depth int) uint64 {
	switch d.at() {
	case '{':
		o := d.open(depth)
		for d.next(&o) {
			d.foreign(&o, depth)
		}
		return d.close(&o)
	case '[':
		return d.elements(depth, func() uint64 { return d.any(depth + 1) })
	case '"':
		var s string
		return d.str(&s)
	case 't', 'f':
		var b bool
		return d.bool(&b)
	case 'n':
		return d.null()
	}
	_, h := d.number()
	return h
}

// elements reads an array.
func (d *streamDecoder) elements(depth int, read func() uint64) uint64 {
	if d.at() != '[' || depth > MaxDepth {
		return d.fail()
	}
	d.i++
	h := uint64(tagArray)
	empty := true
	for first := true; ; first = false {
		switch c := d.at(); {
		case c == ']' && first: // not after a comma
			d.i++
			d.empty = empty
			return h
		case c == 0:
			return d.fail()
		}
		h = mix(bits.RotateLeft64(h, 23), read())
		empty = empty && d.empty
		d.absent = d.absent || d.empty
		switch d.at() {
		case ',':
			d.i++
		case ']':
			d.i++
			d.empty = empty
			return h
		default:
			return d.fail()
		}
	}
}

// list reads an array of objects, or null.
func list[T any](d *streamDecoder, into *[]T, depth int, read func(*streamDecoder, *T, int) uint64) uint64 {
	if d.at() == 'n' {
		return d.null()
	}
	all := make([]T, 0, 4)
	h := d.elements(depth, func() uint64 {
		var zero T
		all = append(all, zero)
		if d.at() == 'n' {
			return d.null()
		}
		return read(d, &all[len(all)-1], depth+1)
	})
	*into = all
	return h
}

// pointer reads an object, or null.
func pointer[T any](d *streamDecoder, into **T, depth int, read func(*streamDecoder, *T, int) uint64) uint64 {
	if d.at() == 'n' {
		return d.null()
	}
	*into = new(T)
	return read(d, *into, depth)
}

// value reads an object, or null, which leaves it zero.
func value[T any](d *streamDecoder, into *T, depth int, read func(*streamDecoder, *T, int) uint64) uint64 {
	if d.at() == 'n' {
		return d.null()
	}
	return read(d, into, depth)
}

// strs reads an array of strings, or null.
func (d *streamDecoder) strs(into *[]string, depth int) uint64 {
	if d.at() == 'n' {
		return d.null()
	}
	all := []string{}
	h := d.elements(depth, func() uint64 {
		var s string
		h := d.str(&s)
		all = append(all, s)
		return h
	})
	*into = all
	return h
}

// raws reads an array of any values, or null.
func (d *streamDecoder) raws(into *[]jsontext.Value, depth int) uint64 {
	if d.at() == 'n' {
		return d.null()
	}
	all := []jsontext.Value{}
	h := d.elements(depth, func() uint64 {
		var v jsontext.Value
		h := d.raw(&v, depth+1)
		all = append(all, v)
		return h
	})
	*into = all
	return h
}

// raw reads any value unchanged.
func (d *streamDecoder) raw(into *jsontext.Value, depth int) uint64 {
	begin := d.i
	h := d.any(depth)
	*into = jsontext.Value(d.s[begin:d.i])
	return h
}

func (d *streamDecoder) null() uint64 {
	if !d.literal("null") {
		return d.fail()
	}
	d.empty = true
	return hashNull
}

func (d *streamDecoder) literal(text string) bool {
	if !strings.HasPrefix(d.s[d.i:], text) {
		return false
	}
	d.i += len(text)
	return true
}

// str reads a string, or null.
func (d *streamDecoder) str(into *string) uint64 {
	if d.at() != '"' {
		return d.null()
	}
	begin := d.i + 1
	n := plain(d.s[begin:])
	if begin+n >= len(d.s) {
		return d.fail()
	}
	if d.s[begin+n] != '"' {
		return d.escaped(into, begin+n)
	}
	s := d.s[begin : begin+n]
	d.i = begin + n + 1
	d.empty = n == 0
	*into = s
	return xxhash.Sum64String(s) ^ tagString
}

// date reads a date in RFC 3339 form, or null.
func (d *streamDecoder) date(into *PartialDate) uint64 {
	h := d.str((*string)(into))
	if *into != "" && !isNormal(string(*into)) {
		return d.fail()
	}
	return h
}

// escaped reads the string at the current position. i is the index of its first special byte.
func (d *streamDecoder) escaped(into *string, i int) uint64 {
	for i < len(d.s) && d.s[i] != '"' {
		if d.s[i] != '\\' { // control character
			return d.fail()
		}
		if i += 2; i < len(d.s) {
			i += plain(d.s[i:])
		}
	}
	if i >= len(d.s) {
		return d.fail()
	}
	var err error
	d.buf, err = jsontext.AppendUnquote(d.buf[:0], d.s[d.i:i+1])
	if err != nil || bytes.IndexByte(d.buf, 0) >= 0 {
		return d.fail()
	}
	d.i = i + 1
	d.empty = false
	*into = string(d.buf)
	return xxhash.Sum64(d.buf) ^ tagString
}

// plain returns the number of bytes before the first quote, backslash or control character. It scans eight
// bytes at a time.
func plain(s string) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; len(s)-i >= 8; i += 8 {
		w := s[i : i+8]
		x := uint64(w[0]) | uint64(w[1])<<8 | uint64(w[2])<<16 | uint64(w[3])<<24 |
			uint64(w[4])<<32 | uint64(w[5])<<40 | uint64(w[6])<<48 | uint64(w[7])<<56
		// A borrow causes false positives only above a true one.
		quote, backslash := x^(ones*'"'), x^(ones*'\\')
		hit := ((x-ones*0x20)&^x | (quote-ones)&^quote | (backslash-ones)&^backslash) & highs
		if hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// number reads a number and returns its text.
func (d *streamDecoder) number() (string, uint64) {
	begin := d.i
	if d.at() == '-' {
		d.i++
	}
	if d.at() == '0' {
		d.i++
	} else if !d.digits() {
		return "", d.fail()
	}
	if d.at() == '.' {
		d.i++
		if !d.digits() {
			return "", d.fail()
		}
	}
	if c := d.at(); c == 'e' || c == 'E' {
		d.i++
		if c := d.at(); c == '+' || c == '-' {
			d.i++
		}
		if !d.digits() {
			return "", d.fail()
		}
	}
	text := d.s[begin:d.i]
	d.empty = false
	return text, xxhash.Sum64String(text) ^ tagNumber
}

// digits skips digits and reports whether there were any.
func (d *streamDecoder) digits() bool {
	begin := d.i
	for c := d.at(); '0' <= c && c <= '9'; c = d.at() {
		d.i++
	}
	return d.i > begin
}

// int reads an integer, or null.
func (d *streamDecoder) int(into **int64) uint64 {
	if d.at() == 'n' {
		return d.null()
	}
	text, h := d.number()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return d.fail()
	}
	*into = &n
	return h
}

// float reads a number, or null.
func (d *streamDecoder) float(into **float64) uint64 {
	if d.at() == 'n' {
		return d.null()
	}
	text, h := d.number()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return d.fail()
	}
	*into = &n
	return h
}

// bool reads true, false or null, which counts as false.
func (d *streamDecoder) bool(into *bool) uint64 {
	switch {
	case d.literal("true"):
		d.empty = false
		*into = true
		return hashTrue
	case d.literal("false"):
		d.empty = false
		return hashFalse
	}
	return d.null()
}

// truth reads true, false or null.
func (d *streamDecoder) truth(into **bool) uint64 {
	if d.at() == 'n' {
		return d.null()
	}
	*into = new(bool)
	return d.bool(*into)
}
