package source

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"

	"muster/schemas/record"
)

// JSON is a [Source] of consecutive JSON values, usually one per line. White space between tokens
// is insignificant (RFC 8259, 2): a value may span lines, and a line may have several values. A
// top-level array stands for its elements, in any number.
//
// A line that is not JSON is one bad object. It is distinguished from the start of a multi-line
// value by what follows: a line starts such a value if the next lines continue it without a syntax
// error, up to its end. Otherwise the line alone is bad, together with the lines below it that have
// a deeper indentation.
type JSON struct {
	*stream
	arrayState arrayState
	midLine    bool // part of the current line was consumed
	resumed    bool // nothing was read yet after Options.From
	pending    pendingScan
}

// arrayState is the top-level array that contains the current position.
type arrayState struct {
	open          bool
	begin         Line
	needComma     bool
	errorReported bool // an error between its elements was reported
}

// pendingScan is the scan state of an incomplete value at an offset.
type pendingScan struct {
	offset  int64
	n       int
	scanner scanner
}

func newJSON(l *stream) *JSON { return &JSON{stream: l, resumed: l.opts.From.Offset > 0} }

// maxChunkLines is the maximum number of objects in a chunk. The memory for an object until it is
// published, above all a bad one, may be far larger than the object.
const maxChunkLines = 512

func (c *Chunk) empty() bool { return len(c.Lines) == 0 && c.Blank == 0 }

// Next implements [Source].
func (j *JSON) Next() (*Chunk, error) {
	if j.failure != nil {
		return nil, j.failure
	}
	if err := j.skipToStart(); err != nil {
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
			n := j.takeNext(c, buf[used:], ended)
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
				return j.takeOversize(buf[used:])
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
		j.finishInput(c)
		j.failure = io.EOF
	case err != nil && !ended:
		j.failure = j.explain(err)
	}
	j.carry = append(j.carry[:0], buf[used:]...)
	if j.exceedsMaxTotal(j.pos.Offset) {
		j.failure = j.explain(ErrTooLarge)
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

// finishInput handles the end of the input.
func (j *JSON) finishInput(c *Chunk) {
	if j.arrayState.open {
		j.reportArrayError(c, "starts an array that is not closed")
		j.arrayState.open = false
	}
	// The last line may lack a line end.
	if j.midLine {
		j.pos.Line++
		j.midLine = false
	}
}

// takeNext adds the object at the start of b to the chunk, advances the position and returns its length. It returns 0
// if more input is needed, which is never the case if b is the rest of the input.
func (j *JSON) takeNext(c *Chunk, b []byte, ended bool) int {
	if len(b) == 0 {
		return 0
	}
	i := j.skipLead(b)
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
	// A chunk ends after an element, so an array continues with a comma or its end.
	if j.resumed {
		j.resumed = false
		j.arrayState = arrayState{
			open:  b[i] == ',' || b[i] == ']',
			begin: Line{Number: j.pos.Line + 1, Offset: j.pos.Offset},
		}
	}
	switch {
	case j.arrayState.open:
		return j.takeElement(c, b, i, ended)
	case b[i] == '{':
		return j.takeObject(c, b, i, ended)
	case b[i] == '[':
		return j.takeArray(c, b, i, ended)
	}
	return j.takeLine(c, b, 0, ended)
}

// skipLead returns the index of the first byte after white space within the line, and after the byte
// order mark at the start of the input.
func (j *JSON) skipLead(b []byte) int {
	i := 0
	if j.pos.Offset == 0 && bytes.HasPrefix([]byte(byteOrderMark), b[:min(len(b), len(byteOrderMark))]) {
		i = min(len(b), len(byteOrderMark))
	}
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// advance moves the position past b and returns its length.
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

// takeLine takes the line starting at b[begin] as one object: NDJSON, or invalid.
func (j *JSON) takeLine(c *Chunk, b []byte, begin int, ended bool) int {
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
	hasMark := j.pos.Offset == 0 && begin == 0 && bytes.HasPrefix(raw, []byte(byteOrderMark))
	if hasMark {
		begin, raw = len(byteOrderMark), raw[len(byteOrderMark):]
	}
	j.add(c, b, begin, begin+len(raw))
	if hasMark {
		// The mark belongs to the line.
		c.Lines[len(c.Lines)-1].Offset = 0
	}
	j.arrayState.needComma = false
	return j.advance(b[:min(end+1, len(b))])
}

// takeObject takes the object that starts at b[i].
func (j *JSON) takeObject(c *Chunk, b []byte, i int, ended bool) int {
	if !j.midLine && isWholeLine(b[i:], j.opts.MaxLine, ended) {
		return j.takeLine(c, b, 0, ended)
	}
	return j.takeValue(c, b, i, ended)
}

// isWholeLine reports whether the first line of b, which starts with "{", needs no scanning: it ends with "}",
// and what follows cannot belong to the same value. So it is one value, or one bad object.
func isWholeLine(b []byte, maxLen int, ended bool) bool {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		if !ended {
			return false
		}
		end = len(b)
	}
	line := bytes.TrimRight(b[:end], " \t\r")
	if line[len(line)-1] != '}' || len(line) > maxLen {
		return false
	}
	for rest := line; ; { // several values on a line
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

// takeArray takes a top-level array, which stands for its elements.
func (j *JSON) takeArray(c *Chunk, b []byte, i int, ended bool) int {
	if j.opts.WholeLists && len(b)-i <= j.opts.MaxLine {
		return j.takeValue(c, b, i, ended)
	}
	k := i + 1 + whitespaceLen(b[i+1:])
	switch {
	case k == len(b) && !ended:
		return 0
	case k == len(b), b[k] != '{' && b[k] != '[' && b[k] != ']':
		// Not an array of objects.
		return j.takeValue(c, b, i, ended)
	case b[k] == ']':
		return j.advance(b[:k+1])
	}
	j.arrayState = arrayState{open: true, begin: Line{Number: j.pos.Line + 1, Offset: j.pos.Offset + int64(i)}}
	n := j.takeElement(c, b, k, ended)
	// The bracket is consumed with its first element, so that no position is between them.
	if n == 0 {
		j.arrayState = arrayState{}
	}
	return n
}

// whitespaceLen returns the length of the white space that b starts with, including line ends.
func whitespaceLen(b []byte) int { return len(b) - len(bytes.TrimLeft(b, " \t\r\n")) }

// takeElement takes the next element of an array, with the comma before it, or the end of the array.
func (j *JSON) takeElement(c *Chunk, b []byte, i int, ended bool) int {
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
		j.arrayState = arrayState{}
		return j.advance(b[:i+1])
	case j.arrayState.needComma && i == begin:
		j.reportArrayError(c, "starts an array without a comma between elements")
		j.arrayState.needComma = false
	}
	n, status := j.scan(b, i)
	switch {
	case status == scanMore && !ended:
		return 0
	case status == scanBad, status == scanMore && j.pending.scanner.state != inScalar:
		return j.takeMalformed(c, b, i, n, ended)
	}
	j.add(c, b, i, n)
	j.arrayState.needComma = true
	return j.advance(b[:n])
}

// reportArrayError reports the first error of an array that is outside its elements.
func (j *JSON) reportArrayError(c *Chunk, reason string) {
	if j.arrayState.errorReported {
		return
	}
	j.arrayState.errorReported = true
	line := j.arrayState.begin
	line.Raw, line.Bad = []byte("["), &record.ValidationError{Code: record.CodeSyntax, Reason: reason}
	c.Lines = append(c.Lines, line)
}

// scan scans the value that starts at b[i] and returns the index in b where scanning ended.
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

// takeValue takes the value that starts at b[i], outside an array.
func (j *JSON) takeValue(c *Chunk, b []byte, i int, ended bool) int {
	n, status := j.scan(b, i)
	switch {
	case status == scanMore && !ended:
		return 0
	case status != scanDone:
		return j.takeMalformed(c, b, i, n, ended)
	}
	k := n + len(b[n:]) - len(bytes.TrimLeft(b[n:], " \t\r"))
	switch {
	case n-i > j.opts.MaxLine:
		k = n + lineEnd(b[n:]) // consistent with oversize
	case k == len(b) && !ended && len(b) <= j.opts.MaxLine:
		return 0 // the line is incomplete
	case k < len(b) && b[k] == '\n':
		k++
	case k < len(b) && b[k] != '{' && b[k] != '[' && !j.midLine && bytes.IndexByte(b[i:n], '\n') < 0:
		// No value follows: the whole line is bad.
		return j.takeLine(c, b, 0, ended)
	case k < len(b):
		k = n
	}
	j.add(c, b, i, n)
	return j.advance(b[:k])
}

// lineEnd returns the length of the line end that b starts with, or 0.
func lineEnd(b []byte) int {
	switch {
	case bytes.HasPrefix(b, []byte(newline)):
		return len(newline)
	case bytes.HasPrefix(b, []byte(carriageReturn+newline)):
		return len(carriageReturn + newline)
	}
	return 0
}

// takeMalformed takes a value that starts at b[i] and has a syntax error at b[at]. It takes the smallest
// part after which reading can continue.
func (j *JSON) takeMalformed(c *Chunk, b []byte, i, at int, ended bool) int {
	first := bytes.IndexByte(b[i:], '\n')
	if j.arrayState.open {
		line := b[i:]
		if first >= 0 {
			line = b[i : i+first]
		}
		if n := skipElement(line); n > 0 && n <= j.opts.MaxLine {
			j.add(c, b, i, i+n)
			j.arrayState.needComma = true
			return j.advance(b[:i+n])
		}
	}
	if first < 0 || at <= i+first {
		if j.arrayState.open {
			return j.takeLine(c, b, i, ended)
		}
		return j.takeLine(c, b, 0, ended)
	}
	end := j.indentedEnd(b, i, i+first+1, ended)
	if at-i > j.opts.MaxLine { // consistent with oversize
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
	if j.arrayState.open {
		raw = bytes.TrimSuffix(raw, []byte(","))
	}
	j.add(c, b, i, i+len(raw))
	j.arrayState.needComma = false
	return j.advance(b[:end])
}

// skipElement returns the length of a malformed element, by its brackets and quotes, if another
// element or the end of the array follows on the same line. Otherwise it returns 0.
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

// indentedEnd returns the end of the lines after b[from] that are indented deeper than that of b[i],
// including the closing bracket. It returns 0 if more input is needed.
func (j *JSON) indentedEnd(b []byte, i, from int, ended bool) int {
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

// takeOversize skips an oversize object, of which b has been read, and returns it as a separate chunk. The object is a
// value up to its end, or an invalid line.
func (j *JSON) takeOversize(b []byte) (*Chunk, error) {
	over := oversizeObject{lineHash: lineHash{sha: sha256.New()}}
	line := Line{Number: j.pos.Line + 1, Offset: j.pos.Offset, Inner: j.midLine}
	i := j.skipLead(b)
	if j.arrayState.open {
		i += len(b[i:]) - len(bytes.TrimLeft(b[i:], ", \t\r\n"))
	}
	if i < len(b) && (j.arrayState.open || b[i] == '{' || b[i] == '[') {
		if _, status := j.scan(b, i); status == scanMore {
			value := j.pending.scanner
			over.value = &value
			line.Offset += int64(i)
			line.Number += int64(bytes.Count(b[:i], []byte(newline)))
		}
	}
	if over.value == nil && !j.arrayState.open {
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
			if err != io.EOF { //nolint:errorlint // the pump does not wrap io.EOF
				j.failure = j.explain(err)
				j.pos = start
				j.locate()
				return nil, j.failure
			}
			j.failure, j.midLine = io.EOF, true
			j.carry = j.carry[:0]
			break
		}
		n := over.takeNext(buf)
		j.advance(buf[:n])
		if j.exceedsMaxTotal(j.pos.Offset) {
			j.failure = j.explain(ErrTooLarge)
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
	j.arrayState.needComma = over.value != nil
	if j.failure != nil {
		j.finishInput(c)
	}
	c.End = j.pos
	return c, nil
}

// oversizeObject is an oversize object that is being skipped.
type oversizeObject struct {
	lineHash
	value *scanner // nil for an invalid object, which ends with its line
	ended bool
}

// takeNext reads p up to the object's end and returns the number of bytes read, including a line end
// after the object.
func (o *oversizeObject) takeNext(p []byte) int {
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
