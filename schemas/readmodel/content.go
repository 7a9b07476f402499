package readmodel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// fieldEnd ends each field of a content column. A content column holds all that the API reads of a row:
// fields, then pieces. One column instead of one per field halves the cost of reads by key
// (deploy/docs/benchmarks.md). Records with a NUL are rejected (records.md), so no value contains fieldEnd.
const fieldEnd = "\x00"

// pieceMark starts a piece: fields of a JSON object, or the beginning or end of an array or object of it. It
// is followed by a letter whose low bits are the shapes that include the piece. JSON has no such byte outside
// escapes.
const pieceMark = '\x1e'

// A Shape is a representation of a record in responses.
type Shape byte

// The shapes.
const (
	ShapeEnrich  Shape = 1 << iota // person.codehost, person.network
	ShapeWebset                    // a webset record without personal_email; of the code host also with it
	ShapeAddon                     // the add-on codehost or network without personal_email; no e-mail addresses
	ShapeOpen                      // with personal_email: the add-on codehost, or a record of the network webset
	shapeSpecial                   // codehost: the owner of repositories; combined with a shape: its position
)

// ShapeEmails marks the pieces that personal_email adds to a record of the network webset in ShapeOpen.
const ShapeEmails = shapeSpecial

const shapesAll = ShapeEnrich | ShapeWebset | ShapeAddon | ShapeOpen

// letter returns the letter of a piece in these shapes.
func (s Shape) letter() string { return string(rune('@' + s)) }

// appendPieces appends the pieces of a shape.
func appendPieces(b []byte, pieces string, shape Shape, owner string) []byte {
	b = slices.Grow(b, len(pieces))
	for rest := pieces; len(rest) > 1; {
		letter, text := Shape(rest[1]-'@'), rest[2:]
		next := strings.IndexByte(text, pieceMark)
		if next < 0 {
			next = len(text)
		}
		text, rest = text[:next], text[next:]
		switch {
		case letter&shape == 0:
		case letter == shape|shapeSpecial && owner != "":
			b = append(append(separate(b, '"'), `"owner":`...), owner...)
		case text != "":
			b = append(separate(b, text[0]), text...)
		}
	}
	return b
}

// separate appends a comma if one is required between the end of b and a text that begins with next.
func separate(b []byte, next byte) []byte {
	if n := len(b); n == 0 || b[n-1] == '{' || b[n-1] == '[' || next == '}' || next == ']' {
		return b
	}
	return append(b, ',')
}

// Members returns an SQL expression for the content of a row in a shape: fields without braces for a person,
// an object for a repository or commit.
func Members(shape Shape) string {
	return "arrayStringConcat(arrayMap(p -> substring(p, 2), arrayFilter(p -> length(p) > 1 AND bitAnd(ascii(p), " +
		strconv.Itoa(int(shape)) +
		") != 0, arrayPopFront(splitByChar('\\x1e', splitByChar(char(0), content)[-1])))), ',')"
}

// appendField appends a field.
func appendField[T string | []byte](b []byte, text T) []byte {
	return append(append(b, text...), fieldEnd...)
}

// appendList appends the length of a list, and each item as a field.
func appendList(b []byte, list []string) []byte {
	b = appendUnsigned(b, uint64(len(list)))
	for _, item := range list {
		b = appendField(b, item)
	}
	return b
}

func appendUnsigned(b []byte, n uint64) []byte {
	return append(strconv.AppendUint(b, n, 10), fieldEnd...)
}

func appendSigned(b []byte, n int64) []byte {
	return append(strconv.AppendInt(b, n, 10), fieldEnd...)
}

func appendFlag(b []byte, set bool) []byte {
	if set {
		return appendField(b, "1")
	}
	return appendField(b, "0")
}

// appendPiece appends a piece for shapes, unless it is empty.
func appendPiece(b, text []byte, shapes Shape) []byte {
	if len(text) == 0 {
		return b
	}
	return append(appendMark(b, shapes), text...)
}

// appendMark appends the start of a piece for shapes.
func appendMark(b []byte, shapes Shape) []byte { return append(b, pieceMark, '@'+byte(shapes)) }

// servedList is a list as served: its first MaxEntries entries and the total count.
type servedList struct {
	items []string
	count int
}

// appendServed appends a list without its empty entries.
func appendServed(b []byte, list []string) []byte {
	var items [MaxEntries]string
	n := 0
	for _, s := range list {
		if s == "" {
			continue
		}
		if n < MaxEntries {
			items[n] = s
		}
		n++
	}
	return appendList(appendUnsigned(b, uint64(n)), items[:min(n, MaxEntries)])
}

func (f *fields) served() servedList {
	n := f.unsigned()
	return servedList{count: int(min(n, 1<<40)), items: f.list()}
}

// fields reads the fields of a content column in order. Missing fields are an error.
type fields struct {
	rest string
	err  error
}

func (f *fields) text() string {
	text, rest, ok := strings.Cut(f.rest, fieldEnd)
	if !ok && f.err == nil {
		f.err = errShortContent
	}
	f.rest = rest
	return text
}

var errShortContent = fmt.Errorf("content column has missing fields: rebuild the table (muster replay)")

func (f *fields) list() []string {
	n := f.unsigned()
	if n == 0 || n > uint64(len(f.rest)) { // each item has a fieldEnd
		return nil
	}
	out := make([]string, n)
	for i := range out {
		out[i] = f.text()
	}
	return out
}

func (f *fields) flag() bool { return f.text() == "1" }

func (f *fields) signed() int64 {
	n, err := strconv.ParseInt(f.text(), 10, 64)
	f.setErr(err)
	return n
}

func (f *fields) unsigned() uint64 {
	n, err := strconv.ParseUint(f.text(), 10, 64)
	f.setErr(err)
	return n
}

func (f *fields) setErr(err error) {
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("content column has an invalid field: %w", err)
	}
}

// contentText returns a scanned String value as fields.
func contentText(value any) (fields, error) {
	text, ok := value.(string)
	if !ok {
		return fields{}, fmt.Errorf("content column has type %T", value)
	}
	return fields{rest: text}, nil
}
