package source

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"muster/schemas/record"
)

// Table is a [Source] of rows of text with a header: CSV (RFC 4180), with comma, semicolon or tab
// between fields. A row becomes a JSON object, see [columns]. A row's number is that of the line it
// starts on; the header is line 1. All lines end like the header: with "\n", "\r\n" or "\r".
//
// A quoted field may contain line ends. If a quote is never closed, everything after it is one
// rejected row, with its first bytes, length and hash.
type Table struct {
	*stream // input and position
	comma   byte
	lineEnd byte // '\n', or '\r' if lines end with it alone
	header  *columns
	fields  [][]byte
}

func newTable(l *stream) *Table {
	t := &Table{stream: l, lineEnd: '\n'}
	if l.opts.Format == FormatTSV {
		t.comma = '\t'
	}
	// The header is at the start.
	l.pos, l.skip = Position{}, 0
	return t
}

// rowScanner finds the ends of rows.
type rowScanner struct {
	comma   byte
	lineEnd byte
	state   rowState
	lines   int64 // line ends since reset
}

type rowState byte

const (
	atField rowState = iota
	inPlain
	inQuotes
	afterQuote
)

func (s *rowScanner) reset() { s.state, s.lines = atField, 0 }

// scan returns how many bytes of p it has read, and whether a row ends there.
func (s *rowScanner) scan(p []byte) (int, bool) {
	for i, c := range p {
		if c == s.lineEnd {
			s.lines++
		}
		switch {
		case s.state == inQuotes:
			if c == '"' {
				s.state = afterQuote
			}
		case c == s.lineEnd:
			return i + 1, true
		case c == s.comma:
			s.state = atField
		case c == '"' && s.state != inPlain: // the first of a field, or the second of a pair
			s.state = inQuotes
		case c == '\r' && s.state == afterQuote:
		default:
			s.state = inPlain
		}
	}
	return len(p), false
}

// Next implements [Source].
func (t *Table) Next() (*Chunk, error) {
	if t.failure != nil {
		return nil, t.failure
	}
	if t.header == nil {
		if err := t.begin(); err != nil {
			t.failure = err
			return nil, err
		}
	}
	buffer := t.buffers.Get().(*[]byte)
	buf := append((*buffer)[:0], t.carry...)
	var rows []row
	s := rowScanner{comma: t.comma, lineEnd: t.lineEnd}
	scanned := 0
	var err error
	for {
		for scanned < len(buf) && len(rows) < maxChunkLines {
			n, ended := s.scan(buf[scanned:])
			scanned += n
			if ended {
				rows = append(rows, row{end: scanned, lines: s.lines})
				s.reset()
			}
		}
		if len(rows) == 0 && len(buf) > t.opts.MaxLine+slack {
			return t.takeOversizeRow(buf, s)
		}
		if len(rows) > 0 && len(buf) >= t.opts.ChunkSize || len(rows) == maxChunkLines {
			break
		}
		var more bool
		if buf, more, err = t.pump.next(t.ctx, buf, len(rows) == 0); !more {
			break
		}
	}
	end := 0
	if len(rows) > 0 {
		end = rows[len(rows)-1].end
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		if end < len(buf) { // the last row may lack a line end
			end = len(buf)
			rows = append(rows, row{end: end, lines: s.lines + 1})
		}
		t.failure = io.EOF
	default:
		t.failure = t.explain(err)
	}
	if end == 0 {
		t.locate()
		return nil, t.failure
	}
	t.carry = append(t.carry[:0], buf[end:]...)
	c := t.convert(buf, rows)
	t.locate()
	*buffer = buf
	c.release = func(*Chunk) { t.buffers.Put(buffer) }
	return c, nil
}

// row is the end of a row in a buffer, and its number of lines.
type row struct {
	end   int
	lines int64
}

// begin reads the header and skips the input before the start position.
func (t *Table) begin() error {
	line, err := t.firstLine()
	if err != nil {
		return err
	}
	text := bytes.TrimPrefix(line, []byte(byteOrderMark))
	text = bytes.TrimRight(bytes.TrimSuffix(text, []byte(newline)), carriageReturn)
	if t.comma == 0 {
		t.comma = separator(text)
	}
	fields, bad := splitFields(nil, text, t.comma)
	if bad == nil {
		t.header, err = newColumns(fields, t.opts.Kind)
	} else {
		err = bad
	}
	if err != nil {
		return &Error{Name: t.name, Consumed: t.Consumed(), Op: "read header", Err: err}
	}
	t.pos = Position{Line: 1, Offset: int64(len(line))}
	if from := t.opts.From; from.Offset > t.pos.Offset {
		t.skip = from.Offset - t.pos.Offset
		if err := t.skipToStart(); err != nil {
			return t.explain(err)
		}
		t.pos = from
	}
	return nil
}

// firstLine reads the first line, including its line end. A header must not contain line ends.
func (t *Table) firstLine() ([]byte, error) {
	const maxHeader = 1 << 20
	for {
		if n := t.endLine(t.carry); n > 0 {
			line := bytes.Clone(t.carry[:n])
			t.carry = append(t.carry[:0], t.carry[n:]...)
			return line, nil
		}
		if len(t.carry) > maxHeader {
			return nil, &Error{
				Name:     t.name,
				Consumed: t.Consumed(),
				Op:       "read header",
				Err:      fmt.Errorf("first line is longer than %d bytes", maxHeader),
			}
		}
		var err error
		t.carry, _, err = t.pump.next(t.ctx, t.carry, true)
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && len(t.carry) > 0:
			line := bytes.Clone(t.carry)
			t.carry = t.carry[:0]
			return line, nil
		case errors.Is(err, io.EOF):
			return nil, io.EOF // empty input
		default:
			return nil, t.explain(err)
		}
	}
}

// endLine returns the length of the first line with its end, and sets the line end of the table. It
// returns 0 if b does not have the complete line end.
func (t *Table) endLine(b []byte) int {
	i := bytes.IndexAny(b, newline+carriageReturn)
	if i < 0 {
		return 0
	}
	// Some programs write "\r\r\n".
	end := i + len(b[i:]) - len(bytes.TrimLeft(b[i:], carriageReturn))
	switch {
	case end == len(b):
		return 0
	case b[end] == '\n':
		return end + 1
	}
	t.lineEnd = '\r'
	return i + 1
}

// separator returns the most frequent separator in a header.
func separator(header []byte) byte {
	best, highest := byte(','), 0
	for _, c := range []byte(",;\t") {
		if n := bytes.Count(header, []byte{c}); n > highest {
			best, highest = c, n
		}
	}
	return best
}

// convert converts the rows in data to a chunk and advances the position.
func (t *Table) convert(data []byte, rows []row) *Chunk {
	c := &Chunk{Lines: make([]Line, 0, len(rows))}
	begin := 0
	for _, r := range rows {
		raw := data[begin:r.end]
		line := Line{Number: t.pos.Line + 1, Offset: t.pos.Offset}
		t.pos.Line += r.lines
		t.pos.Offset += int64(r.end - begin)
		begin = r.end
		raw = bytes.TrimRight(bytes.TrimSuffix(raw, []byte(newline)), carriageReturn)
		switch {
		case len(raw) > t.opts.MaxLine:
			line.Raw = raw[:t.opts.Head]
			line.Oversize = &Oversize{Length: int64(len(raw)), SHA256: sha256.Sum256(raw)}
		case isBlank(raw) && (t.comma != '\t' || len(raw) == 0):
			c.Blank++
			continue
		default:
			line.Raw, line.Bad = t.object(raw)
			if line.Bad == nil && len(line.Raw) > t.opts.MaxLine {
				line.Oversize = &Oversize{Length: int64(len(line.Raw)), SHA256: sha256.Sum256(line.Raw)}
				line.Raw = line.Raw[:t.opts.Head]
			}
		}
		c.Lines = append(c.Lines, line)
	}
	c.End = t.pos
	return c
}

// object returns the object of a row, or the reason why the row is invalid.
func (t *Table) object(raw []byte) ([]byte, *record.ValidationError) {
	var bad *record.ValidationError
	t.fields, bad = splitFields(t.fields[:0], raw, t.comma)
	if bad != nil {
		return raw, bad
	}
	if len(t.fields) != t.header.width {
		return raw, &record.ValidationError{
			Code:   record.CodeSyntax,
			Reason: fmt.Sprintf("has %d fields, the header has %d", len(t.fields), t.header.width),
		}
	}
	return t.header.object(t.fields), nil
}

// splitFields appends the fields of a row, unquoted.
func splitFields(fields [][]byte, raw []byte, comma byte) ([][]byte, *record.ValidationError) {
	for {
		if len(raw) == 0 || raw[0] != '"' {
			field, rest, more := bytes.Cut(raw, []byte{comma})
			if bytes.IndexByte(field, '"') >= 0 {
				return nil, badField(len(fields), "contains a quote but is not quoted")
			}
			fields = append(fields, field)
			if !more {
				return fields, nil
			}
			raw = rest
			continue
		}
		field, rest, bad := parseQuoted(raw[1:])
		if bad != "" {
			return nil, badField(len(fields), bad)
		}
		fields = append(fields, field)
		if len(rest) == 0 {
			return fields, nil
		}
		if rest[0] != comma {
			return nil, badField(len(fields)-1, "has text after its closing quote")
		}
		raw = rest[1:]
	}
}

// parseQuoted parses a field after its opening quote.
func parseQuoted(raw []byte) (field, rest []byte, bad string) {
	var out []byte
	for {
		i := bytes.IndexByte(raw, '"')
		if i < 0 {
			return nil, nil, "has an unclosed quote"
		}
		if i+1 < len(raw) && raw[i+1] == '"' {
			out = append(out, raw[:i+1]...)
			raw = raw[i+2:]
			continue
		}
		if out == nil {
			return raw[:i], raw[i+1:], ""
		}
		return append(out, raw[:i]...), raw[i+1:], ""
	}
}

func badField(i int, reason string) *record.ValidationError {
	return &record.ValidationError{Code: record.CodeSyntax, Reason: fmt.Sprintf("is not CSV: field %d %s", i+1, reason)}
}

// takeOversizeRow skips an oversize row, of which head has been read, and returns it as a separate chunk.
func (t *Table) takeOversizeRow(head []byte, s rowScanner) (*Chunk, error) {
	start := t.pos
	prefix := bytes.Clone(head[:t.opts.Head])
	sum := lineHash{sha: sha256.New()}
	sum.write(head)
	length, lines := int64(len(head)), s.lines
	buf := head[:0]
	for ended := false; !ended; {
		var err error
		buf, _, err = t.pump.next(t.ctx, buf[:0], true)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.failure = t.explain(err)
				t.locate()
				return nil, t.failure
			}
			t.failure = io.EOF
			t.carry = t.carry[:0]
			lines = s.lines + 1
			break
		}
		var n int
		n, ended = s.scan(buf)
		length += int64(n)
		lines = s.lines
		if ended {
			sum.write(buf[:n-1])
			t.carry = append(t.carry[:0], buf[n:]...)
		} else {
			sum.write(buf)
		}
	}
	t.pos = Position{Line: start.Line + lines, Offset: start.Offset + length}
	over := &Oversize{}
	over.Length, over.SHA256 = sum.finish()
	line := Line{Raw: prefix, Number: start.Line + 1, Offset: start.Offset, Oversize: over}
	return &Chunk{Lines: []Line{line}, End: t.pos}, nil
}
