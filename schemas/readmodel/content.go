package readmodel

import (
	"fmt"
	"strconv"
	"strings"
)

// A content column holds all that the API reads of a row: fields, each of which fieldEnd ends, then pieces. One text in
// place of a column each halves what a read by key costs (deploy/docs/benchmarks.md). A record with a NUL is refused
// (records.md), so that no text has fieldEnd.
const fieldEnd = "\x00"

// Pieces are members of a JSON object, or what begins or ends a list or an object of it. Each piece follows pieceMark
// and a letter, whose low bits are the shapes that show it. JSON has no such byte outside of an escape.
const pieceMark = '\x1e'

// A Shape is a form in which an answer shows a record.
type Shape byte

// The shapes.
const (
	ShapeEnrich  Shape = 1 << iota // person.codehost, person.network
	ShapeWebset                    // a record of the webset without personal_email; of the code host with or without
	ShapeAddon                     // the add-on codehost or network without personal_email. No e-mail
	ShapeOpen                      // with personal_email: the add-on codehost; a record of the network webset
	shapeSpecial                   // of the code host the owner of repositories; with another: there it stands
)

// ShapeEmails shows what personal_email adds to a record of the network webset with ShapeOpen.
const ShapeEmails = shapeSpecial

const shapesAll = ShapeEnrich | ShapeWebset | ShapeAddon | ShapeOpen

// letter is the letter of a piece that shapes show.
func (s Shape) letter() string { return string(rune('@' + s)) }

// appendPieces appends those pieces that a shape shows.
func appendPieces(b []byte, pieces string, shape Shape, owner string) []byte {
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

// separate appends the comma that stands between what b ends with and a text that begins with next.
func separate(b []byte, next byte) []byte {
	if n := len(b); n == 0 || b[n-1] == '{' || b[n-1] == '[' || next == '}' || next == ']' {
		return b
	}
	return append(b, ',')
}

// Members is an expression for what a shape shows of a row with the column content, if its pieces are whole: members
// without braces of a person, an object of a repository or commit.
func Members(shape Shape) string {
	return "arrayStringConcat(arrayMap(p -> substring(p, 2), arrayFilter(p -> length(p) > 1 AND bitAnd(ascii(p), " +
		strconv.Itoa(int(shape)) + ") != 0, arrayPopFront(splitByChar('\\x1e', splitByChar(char(0), content)[-1])))), ',')"
}

// appendField appends a field.
func appendField[T string | []byte](b []byte, text T) []byte {
	return append(append(b, text...), fieldEnd...)
}

// appendList appends the number of items of a list, and each item as a field.
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

// appendPiece appends a piece that shapes show, unless it is empty.
func appendPiece(b, text []byte, shapes Shape) []byte {
	if len(text) == 0 {
		return b
	}
	return append(appendMark(b, shapes), text...)
}

// appendMark appends what a piece begins with that shapes show.
func appendMark(b []byte, shapes Shape) []byte { return append(b, pieceMark, '@'+byte(shapes)) }

// servedList is a list as an answer shows it: its first MaxEntries entries and the number of all.
type servedList struct {
	items []string
	count int
}

// appendServed appends a list, empty entries left out.
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

// fields reads the fields of a content column, one after the other. A content without the expected ones is an error.
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

var errShortContent = fmt.Errorf("a content column lacks fields: rebuild the table (muster replay)")

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
	f.keep(err)
	return n
}

func (f *fields) unsigned() uint64 {
	n, err := strconv.ParseUint(f.text(), 10, 64)
	f.keep(err)
	return n
}

func (f *fields) keep(err error) {
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("a content column has a field of another kind: %w", err)
	}
}

// contentText is the value of a String column, which scanners get.
func contentText(value any) (fields, error) {
	text, ok := value.(string)
	if !ok {
		return fields{}, fmt.Errorf("a content column is a %T", value)
	}
	return fields{rest: text}, nil
}
