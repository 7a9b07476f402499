package source

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"

	"muster/schemas/record"
)

// JSON is a [Source] of JSON values that follow one another, as a rule one a line. White space between tokens carries
// no meaning (RFC 8259, 2): a value may stand on several lines, and a line may hold several. A list at the top stands
// for its elements, however many there are.
//
// A line that is no JSON is one bad object. What tells it from the beginning of a value on several lines is how the
// text goes on: a line is such a beginning if the lines behind it continue it without a fault, up to its end. Where
// they do not, the line alone is bad, together with those below it that are indented further.
type JSON struct {
	*stream
	list    list
	midLine bool // something on the current line was consumed
	resumed bool // nothing was read yet behind Options.From
	pending pendingScan
}

// list is the list at the top that the position is in.
type list struct {
	open      bool
	begin     Line
	needComma bool
	faulty    bool // a fault between its elements was reported
}

// pendingScan is how far the value at an offset was scanned, until the rest of it has come.
type pendingScan struct {
	offset  int64
	n       int
	scanner scanner
}

func newJSON(l *stream) *JSON { return &JSON{stream: l, resumed: l.opts.From.Offset > 0} }

// maxChunkLines bounds the objects of a chunk: what is kept of one while it is published, above all of a bad one, may
// be far larger than the object.
const maxChunkLines = 512

func (c *Chunk) empty() bool { return len(c.Lines) == 0 && c.Blank == 0 }

// Next implements [Source].
func (j *JSON) Next() (*Chunk, error) {
	if j.failure != nil {
		return nil, j.failure
	}
	if err := j.leaveOut(); err != nil {
		j.failure = j.explain(err)
		j.locate()
		return nil, j.failure
	}
	buffer := j.buffers.Get().(*[]byte)
	buf := append((*buffer)[:0], j.carry...)
	c, start := &Chunk{}, j.pos
	used, ended := 0, false
	var err error
	for {
		for len(c.Lines) < maxChunkLines {
			n := j.take(c, buf[used:], ended)
			if n == 0 {
				break
			}
			used += n
		}
		if ended || used >= j.opts.ChunkSize || len(c.Lines) >= maxChunkLines {
			break
		}
		if len(buf)-used > j.opts.MaxLine+slack {
			if c.empty() {
				return j.oversize(buf[used:])
			}
			break
		}
		var more bool
		if buf, more, err = j.pump.next(j.ctx, buf, c.empty()); !more {
			if !errors.Is(err, io.EOF) {
				break
			}
			ended = true
		}
	}
	switch {
	case ended && used == len(buf):
		j.end(c)
		j.failure = io.EOF
	case err != nil && !ended:
		j.failure = j.explain(err)
	}
	j.carry = append(j.carry[:0], buf[used:]...)
	if j.tooMuch(j.pos.Offset) {
		j.failure = j.explain(ErrTooMuch)
	}
	j.locate()
	if c.empty() && j.pos == start && j.failure != nil {
		return nil, j.failure
	}
	c.End = j.pos
	*buffer = buf
	c.release = func(*Chunk) { j.buffers.Put(buffer) }
	return c, nil
}

// end takes the end of the input.
func (j *JSON) end(c *Chunk) {
	if j.list.open {
		j.fault(c, "opens a list that is not closed")
		j.list.open = false
	}
	if j.midLine { // the last line needs no line end
		j.pos.Line++
		j.midLine = false
	}
}

// take adds what stands at the beginning of b to the chunk, moves the position behind it and returns its length. It
// returns 0 if more of the input is needed, which never is when b is all that is left.
func (j *JSON) take(c *Chunk, b []byte, ended bool) int {
	if len(b) == 0 {
		return 0
	}
	i := j.lead(b)
	switch {
	case i == len(b) && !ended && i <= j.opts.MaxLine:
		return 0
	case i == len(b):
		if ended && !j.midLine {
			c.Blank++
		}
		return j.advance(b)
	case b[i] == '\n':
		if !j.midLine {
			c.Blank++
		}
		return j.advance(b[:i+1])
	}
	if j.resumed { // a chunk ends behind an element, and so the list goes on with a comma or its end
		j.resumed = false
		j.list = list{open: b[i] == ',' || b[i] == ']', begin: Line{Number: j.pos.Line + 1, Offset: j.pos.Offset}}
	}
	switch {
	case j.list.open:
		return j.element(c, b, i, ended)
	case b[i] == '{':
		return j.object(c, b, i, ended)
	case b[i] == '[':
		return j.array(c, b, i, ended)
	}
	return j.line(c, b, 0, ended)
}

// lead returns where the first byte is that is neither white space nor the byte order mark of the input, or the line's
// end.
func (j *JSON) lead(b []byte) int {
	i := 0
	if j.pos.Offset == 0 && bytes.HasPrefix([]byte(byteOrderMark), b[:min(len(b), len(byteOrderMark))]) {
		i = min(len(b), len(byteOrderMark))
	}
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// advance moves the position behind b and returns its length.
func (j *JSON) advance(b []byte) int {
	j.pos.Offset += int64(len(b))
	j.pos.Line += int64(bytes.Count(b, []byte(newline)))
	j.midLine = b[len(b)-1] != '\n'
	j.pending = pendingScan{}
	return len(b)
}

// add adds the object b[begin:end] to the chunk.
func (j *JSON) add(c *Chunk, b []byte, begin, end int) {
	raw := b[begin:end:end]
	line := Line{Raw: raw, Number: j.pos.Line + 1, Offset: j.pos.Offset + int64(begin), Inner: j.midLine}
	if begin > 0 {
		n := bytes.LastIndexByte(b[:begin], '\n')
		line.Number += int64(bytes.Count(b[:n+1], []byte(newline)))
		line.Inner = n < 0 && j.midLine || bytes.ContainsAny(b[n+1:begin], "[,")
	}
	if len(raw) > j.opts.MaxLine {
		line.Oversize = &Oversize{Length: int64(len(raw)), SHA256: sha256.Sum256(raw)}
		line.Raw = raw[:j.opts.Head]
	}
	c.Lines = append(c.Lines, line)
}

// line takes the line from b[begin] on as one object: NDJSON, or no JSON.
func (j *JSON) line(c *Chunk, b []byte, begin int, ended bool) int {
	end := bytes.IndexByte(b[begin:], '\n')
	switch {
	case end >= 0:
		end += begin
	case ended:
		end = len(b)
	default:
		return 0
	}
	raw := bytes.TrimSuffix(b[begin:end], []byte(carriageReturn))
	marked := j.pos.Offset == 0 && begin == 0 && bytes.HasPrefix(raw, []byte(byteOrderMark))
	if marked {
		begin, raw = len(byteOrderMark), raw[len(byteOrderMark):]
	}
	j.add(c, b, begin, begin+len(raw))
	if marked {
		c.Lines[len(c.Lines)-1].Offset = 0 // the mark belongs to the line
	}
	j.list.needComma = false
	return j.advance(b[:min(end+1, len(b))])
}

// object takes the object that begins at b[i].
func (j *JSON) object(c *Chunk, b []byte, i int, ended bool) int {
	if !j.midLine && isWholeLine(b[i:], j.opts.MaxLine, ended) {
		return j.line(c, b, 0, ended)
	}
	return j.value(c, b, i, ended)
}

// isWholeLine reports whether the first line of b, which begins with "{", needs no scanning: it ends with "}", and what
// follows cannot belong to the same value. So it is one value, or bad all by itself.
func isWholeLine(b []byte, most int, ended bool) bool {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		if !ended {
			return false
		}
		end = len(b)
	}
	line := bytes.TrimRight(b[:end], " \t\r")
	if line[len(line)-1] != '}' || len(line) > most {
		return false
	}
	for rest := line; ; { // two values on a line
		i := bytes.IndexByte(rest, '}')
		if rest = bytes.TrimLeft(rest[i+1:], " \t\r"); len(rest) == 0 {
			break
		}
		if rest[0] == '{' || rest[0] == '[' {
			return false
		}
	}
	next := bytes.TrimLeft(b[end:], " \t\r\n")
	if len(next) == 0 {
		return ended
	}
	return next[0] != ',' && next[0] != '}' && next[0] != ']'
}

// array takes a list at the top: it stands for its elements.
func (j *JSON) array(c *Chunk, b []byte, i int, ended bool) int {
	if j.opts.WholeLists && len(b)-i <= j.opts.MaxLine {
		return j.value(c, b, i, ended)
	}
	k := i + 1 + blanks(b[i+1:])
	switch {
	case k == len(b) && !ended:
		return 0
	case k == len(b), b[k] != '{' && b[k] != '[' && b[k] != ']':
		return j.value(c, b, i, ended) // no list of objects
	case b[k] == ']':
		return j.advance(b[:k+1])
	}
	j.list = list{open: true, begin: Line{Number: j.pos.Line + 1, Offset: j.pos.Offset + int64(i)}}
	n := j.element(c, b, k, ended)
	if n == 0 { // the bracket is consumed with its first element, so that a place is never between them
		j.list = list{}
	}
	return n
}

// blanks returns the length of the white space that b begins with, line ends included.
func blanks(b []byte) int { return len(b) - len(bytes.TrimLeft(b, " \t\r\n")) }

// element takes the next element of a list, with the comma before it, or the list's end.
func (j *JSON) element(c *Chunk, b []byte, i int, ended bool) int {
	begin := i
	if b[i] == ',' {
		i += len(b[i:]) - len(bytes.TrimLeft(b[i:], ", \t\r\n"))
	}
	switch {
	case i == len(b) && !ended:
		return 0
	case i == len(b):
		return j.advance(b)
	case b[i] == ']':
		j.list = list{}
		return j.advance(b[:i+1])
	case j.list.needComma && i == begin:
		j.fault(c, "opens a list that lacks a comma between elements")
		j.list.needComma = false
	}
	n, status := j.scan(b, i)
	switch {
	case status == scanMore && !ended:
		return 0
	case status == scanBad, status == scanMore && j.pending.scanner.state != inScalar:
		return j.broken(c, b, i, n, ended)
	}
	j.add(c, b, i, n)
	j.list.needComma = true
	return j.advance(b[:n])
}

// fault reports the first fault of a list that is in none of its elements.
func (j *JSON) fault(c *Chunk, reason string) {
	if j.list.faulty {
		return
	}
	j.list.faulty = true
	line := j.list.begin
	line.Raw, line.Bad = []byte("["), &record.Invalid{Code: record.CodeSyntax, Reason: reason}
	c.Lines = append(c.Lines, line)
}

// scan scans the value that begins at b[i] and returns where in b scanning ended.
func (j *JSON) scan(b []byte, i int) (int, scanStatus) {
	p := &j.pending
	if offset := j.pos.Offset + int64(i); p.offset != offset || p.n == 0 {
		*p = pendingScan{offset: offset}
	}
	n, status := p.scanner.scan(b[i+p.n:])
	n += p.n
	p.n = n
	if status != scanMore {
		*p = pendingScan{scanner: p.scanner}
	}
	return i + n, status
}

// value takes the value that begins at b[i], outside of a list.
func (j *JSON) value(c *Chunk, b []byte, i int, ended bool) int {
	n, status := j.scan(b, i)
	switch {
	case status == scanMore && !ended:
		return 0
	case status != scanDone:
		return j.broken(c, b, i, n, ended)
	}
	k := n + len(b[n:]) - len(bytes.TrimLeft(b[n:], " \t\r"))
	switch {
	case n-i > j.opts.MaxLine:
		k = n + lineEnd(b[n:]) // as if it had passed by
	case k == len(b) && !ended && len(b) <= j.opts.MaxLine:
		return 0 // a line that has not come to its end
	case k < len(b) && b[k] == '\n':
		k++
	case k < len(b) && b[k] != '{' && b[k] != '[' && !j.midLine && bytes.IndexByte(b[i:n], '\n') < 0:
		return j.line(c, b, 0, ended) // not followed by a value: the whole line is bad
	case k < len(b):
		k = n
	}
	j.add(c, b, i, n)
	return j.advance(b[:k])
}

// lineEnd returns the length of the line end that b begins with, or 0.
func lineEnd(b []byte) int {
	switch {
	case bytes.HasPrefix(b, []byte(newline)):
		return len(newline)
	case bytes.HasPrefix(b, []byte(carriageReturn+newline)):
		return len(carriageReturn + newline)
	}
	return 0
}

// broken takes a value that begins at b[i] and has a fault at b[at]: as little as will do to go on behind it.
func (j *JSON) broken(c *Chunk, b []byte, i, at int, ended bool) int {
	first := bytes.IndexByte(b[i:], '\n')
	if j.list.open {
		line := b[i:]
		if first >= 0 {
			line = b[i : i+first]
		}
		if n := skipElement(line); n > 0 && n <= j.opts.MaxLine {
			j.add(c, b, i, i+n)
			j.list.needComma = true
			return j.advance(b[:i+n])
		}
	}
	if first < 0 || at <= i+first {
		if j.list.open {
			return j.line(c, b, i, ended)
		}
		return j.line(c, b, 0, ended)
	}
	end := j.indented(b, i, i+first+1, ended)
	if at-i > j.opts.MaxLine { // as if it had passed by
		if end = at + 1 + bytes.IndexByte(b[at:], '\n'); end == at && ended {
			end = len(b)
		} else if end == at {
			return 0
		}
	}
	if end == 0 {
		return 0
	}
	raw := bytes.TrimRight(b[i:end], " \t\r\n")
	if j.list.open {
		raw = bytes.TrimSuffix(raw, []byte(","))
	}
	j.add(c, b, i, i+len(raw))
	j.list.needComma = false
	return j.advance(b[:end])
}

// skipElement returns how long a faulty element is, by its brackets and quotes, if another one or the end of the list
// follows on the same line.
func skipElement(line []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case depth > 0 && (c == '}' || c == ']'):
			depth--
		case depth == 0 && (c == ',' || c == ']'):
			return len(bytes.TrimRight(line[:i], " \t\r"))
		}
	}
	return 0
}

// indented returns the end of the lines behind b[from] that are indented further than that of b[i], with the bracket
// that closes them, or 0 if more of the input is needed.
func (j *JSON) indented(b []byte, i, from int, ended bool) int {
	indent := i - (bytes.LastIndexByte(b[:i], '\n') + 1)
	for end := from; ; {
		line := b[end:]
		next := bytes.IndexByte(line, '\n')
		switch {
		case next >= 0:
			line = line[:next+1]
		case !ended && len(b)-i <= j.opts.MaxLine:
			return 0
		case len(line) == 0:
			return end
		}
		text := bytes.TrimLeft(line, " \t\r\n")
		switch depth := len(line) - len(text); {
		case end+len(line)-i > j.opts.MaxLine:
			return end
		case len(text) == 0, depth > indent:
		case depth == indent && (text[0] == '}' || text[0] == ']'):
			return end + len(line)
		default:
			return end
		}
		end += len(line)
	}
}

// oversize lets an over-long object pass by, of which b has been read, and returns the chunk that is made of it alone:
// a value to its end, or what is none to the end of its line.
func (j *JSON) oversize(b []byte) (*Chunk, error) {
	over := overlong{lineHash: lineHash{sha: sha256.New()}}
	line := Line{Number: j.pos.Line + 1, Offset: j.pos.Offset, Inner: j.midLine}
	i := j.lead(b)
	if j.list.open {
		i += len(b[i:]) - len(bytes.TrimLeft(b[i:], ", \t\r\n"))
	}
	if i < len(b) && (j.list.open || b[i] == '{' || b[i] == '[') {
		if _, status := j.scan(b, i); status == scanMore {
			value := j.pending.scanner
			over.value = &value
			line.Offset += int64(i)
			line.Number += int64(bytes.Count(b[:i], []byte(newline)))
		}
	}
	if over.value == nil && !j.list.open {
		i = 0
		if j.pos.Offset == 0 && bytes.HasPrefix(b, []byte(byteOrderMark)) {
			i = len(byteOrderMark)
		}
	}
	line.Raw = bytes.Clone(b[i : i+min(j.opts.Head, len(b)-i)])
	over.write(b[i:])
	start := j.pos
	j.pos.Offset += int64(len(b))
	j.pos.Line += int64(bytes.Count(b, []byte(newline)))
	buf := b[:0]
	for !over.ended {
		var more bool
		var err error
		if buf, more, err = j.pump.next(j.ctx, buf[:0], true); !more {
			if err != io.EOF { //nolint:errorlint // the pump passes io.EOF on as it is
				j.failure = j.explain(err)
				j.pos = start
				j.locate()
				return nil, j.failure
			}
			j.failure, j.midLine = io.EOF, true
			j.carry = j.carry[:0]
			break
		}
		n := over.take(buf)
		j.advance(buf[:n])
		if j.tooMuch(j.pos.Offset) {
			j.failure = j.explain(ErrTooMuch)
			j.pos = start
			j.locate()
			return nil, j.failure
		}
		j.carry = append(j.carry[:0], buf[n:]...)
	}
	j.pending = pendingScan{}
	line.Oversize = &Oversize{}
	line.Oversize.Length, line.Oversize.SHA256 = over.finish()
	c := &Chunk{Lines: []Line{line}}
	j.list.needComma = over.value != nil
	if j.failure != nil {
		j.end(c)
	}
	c.End = j.pos
	return c, nil
}

// overlong is an object that passes by.
type overlong struct {
	lineHash
	value *scanner // nil once it is no value, and ends with its line
	ended bool
}

// take reads p up to the object's end and returns how much of p that is, with a line end behind it.
func (o *overlong) take(p []byte) int {
	n := 0
	if o.value != nil {
		var status scanStatus
		n, status = o.value.scan(p)
		o.write(p[:n])
		switch status {
		case scanMore:
			return n
		case scanDone:
			o.ended = true
			return n + lineEnd(p[n:])
		}
		o.value = nil
	}
	line, _, found := bytes.Cut(p[n:], []byte(newline))
	o.write(line)
	n += len(line)
	if found {
		o.ended = true
		n++
	}
	return n
}
