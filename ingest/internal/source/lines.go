package source

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"muster/schemas/record"
)

// Stdin is the name of standard input.
const Stdin = "-"

// Options bound what a source of lines keeps.
type Options struct {
	// MaxLine is the longest line delivered whole, in bytes without its line
	// end (records.md, rule 4: 1 MiB).
	MaxLine int
	// Head is how much is kept of a longer one (records.md, rule 4: 64 KiB).
	// It is less than MaxLine.
	Head int
	// ChunkSize is about how many bytes of lines make a chunk; 256 KiB when
	// it is zero.
	ChunkSize int
	// MaxTotal bounds the uncompressed bytes of an input; 0 is no limit. What is
	// read when it is passed is delivered, then reading fails with ErrTooMuch.
	MaxTotal int64
	// Format is how the input is written; found out when it is FormatAuto.
	Format Format
	// Kind is the kind of record that rows of columns are made objects of: it
	// decides the types of the columns of CSV. Without one every cell is a string.
	Kind record.Kind
	// From is where reading begins: the End of a chunk of an earlier reading
	// of the same input.
	From Position
}

// ErrTooMuch is wrapped by the error for an input that is larger than
// Options.MaxTotal.
var ErrTooMuch = errors.New("the input is too large")

const defaultChunkSize = 256 << 10

// slack is what may stand around a line of the longest length: a byte order
// mark before it, a "\r" after it.
const slack = 4

// Lines is a [Source] of newline-delimited text: lines end with "\n" or "\r\n",
// the last one also with the input.
type Lines struct {
	ctx      context.Context
	name     string
	opts     Options
	consumed *atomic.Int64
	pump     *pump
	own      io.Closer // nil when the bytes are not ours to close
	closed   sync.Once

	opening *opening
	skip    int64  // bytes to leave out before the first line
	carry   []byte // begins at pos, belongs to the next chunk
	pos     Position
	failure error
	buffers *sync.Pool
}

var _ Source = (*Lines)(nil)

// seek leaves out what stands before the place to begin at, in a file that is
// not compressed.
func (l *Lines) seek(f *os.File, size int64) error {
	if l.skip == 0 || l.skip > size {
		return nil // reading says that the file is too short
	}
	head := make([]byte, magicSize)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err // an fs.PathError
	}
	if !isPlain(head[:n]) {
		return nil
	}
	if _, err := f.Seek(l.skip, io.SeekStart); err != nil {
		return err // an fs.PathError
	}
	l.consumed.Add(l.skip)
	l.opening.sought, l.skip = true, 0
	return nil
}

func newLines(ctx context.Context, name string, r io.Reader, opts Options) (*Lines, error) {
	if opts.ChunkSize <= 0 {
		opts.ChunkSize = defaultChunkSize
	}
	if opts.Head <= 0 || opts.MaxLine < opts.Head {
		return nil, fmt.Errorf("source %s: a line limit of %d bytes with a head of %d makes no sense", name, opts.MaxLine, opts.Head)
	}
	consumed := new(atomic.Int64)
	return &Lines{
		ctx: ctx, name: name, opts: opts, consumed: consumed,
		opening: &opening{counted: &counter{r: r, n: consumed}},
		pos:     opts.From, skip: opts.From.Offset,
		buffers: &sync.Pool{New: func() any { return new([]byte) }},
	}, nil
}

// start starts reading.
func (l *Lines) start() { l.pump = newPump(l.opening, l.opening.close) }

// opening finds out at the first read, in the pump's goroutine, what the input
// holds: opening a pipe must not wait for its producer.
type opening struct {
	counted *counter
	inner   decompressor
	begun   bool
	sought  bool // the file is not compressed, and does not begin at its beginning
}

// Decompress reads what r holds: gzip, zstd, or the bytes as they are. done releases
// what that takes, and leaves r open.
func Decompress(r io.Reader) (plain io.Reader, done func()) {
	o := &opening{counted: &counter{r: r, n: new(atomic.Int64)}}
	return o, o.close
}

// opError carries the name of the operation out of the pump.
type opError struct {
	op  string
	err error
}

func (e *opError) Error() string { return e.op + ": " + e.err.Error() }
func (e *opError) Unwrap() error { return e.err }

func (o *opening) Read(p []byte) (int, error) {
	if !o.begun {
		o.begun = true
		br := bufio.NewReaderSize(o.counted, pieceSize)
		// A short input is no error here: what cannot be peeked at is
		// reported when it is read.
		magic, _ := br.Peek(magicSize)
		if o.sought {
			magic = nil
		}
		var err error
		if o.inner, err = decompress(magic, br); err != nil {
			return 0, &opError{op: o.inner.op, err: torn(err)}
		}
	}
	if o.inner.Reader == nil {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := o.inner.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // io.EOF is never wrapped by readers
		err = &opError{op: o.inner.op, err: torn(err)}
	}
	return n, err
}

// torn keeps an end of file inside a compressed stream's header from looking
// like the orderly end of the input.
func torn(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (o *opening) close() {
	if o.inner.close != nil {
		o.inner.close()
	}
}

// counter counts stored bytes.
type counter struct {
	r io.Reader
	n *atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// Name implements [Source].
func (l *Lines) Name() string { return l.name }

// Consumed implements [Source].
func (l *Lines) Consumed() int64 { return l.consumed.Load() }

// Close implements [Source]. For an opened file it waits until nothing reads
// it any more.
func (l *Lines) Close() error {
	var err error
	l.closed.Do(func() {
		if l.pump != nil {
			l.pump.close()
		}
		if l.own == nil {
			return
		}
		err = l.own.Close()
		if _, ok := l.own.(*os.File); ok && l.pump != nil {
			<-l.pump.done
		}
	})
	return err
}

// Next implements [Source].
func (l *Lines) Next() (*Chunk, error) {
	if l.failure != nil {
		return nil, l.failure
	}
	if err := l.leaveOut(); err != nil {
		l.failure = l.explain(err)
		l.locate()
		return nil, l.failure
	}
	buffer := l.buffers.Get().(*[]byte)
	buf := append((*buffer)[:0], l.carry...)
	end := bytes.LastIndexByte(buf, '\n') + 1 // behind the last whole line
	var err error
	for end == 0 || len(buf) < l.opts.ChunkSize {
		if end == 0 && len(buf) > l.opts.MaxLine+slack {
			return l.oversize(buf)
		}
		var more bool
		before := len(buf)
		buf, more, err = l.pump.next(l.ctx, buf, end == 0)
		if !more {
			break
		}
		if i := bytes.LastIndexByte(buf[before:], '\n'); i >= 0 {
			end = before + i + 1
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		end = len(buf) // the last line needs no line end
		l.failure = io.EOF
	default:
		l.failure = l.explain(err)
	}
	if end == 0 {
		if l.failure == nil {
			// Unreachable: without an error the loop ends with a whole line.
			l.failure = l.explain(io.ErrNoProgress)
		}
		l.locate()
		return nil, l.failure
	}
	l.carry = append(l.carry[:0], buf[end:]...)
	c := l.split(buf[:end])
	if l.tooMuch(l.pos.Offset) {
		l.failure = l.explain(ErrTooMuch)
	}
	l.locate()
	*buffer = buf
	c.release = func(*Chunk) { l.buffers.Put(buffer) }
	return c, nil
}

// leaveOut reads over what stands before the place to begin at.
func (l *Lines) leaveOut() error {
	n := min(int64(len(l.carry)), l.skip)
	l.skip -= n
	l.carry = append(l.carry[:0], l.carry[n:]...)
	var buf []byte
	for l.skip > 0 {
		var err error
		buf, _, err = l.pump.next(l.ctx, buf[:0], true)
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("begin at byte %d: %w", l.opts.From.Offset, io.ErrUnexpectedEOF)
		}
		if err != nil {
			return err
		}
		n := min(int64(len(buf)), l.skip)
		l.skip -= n
		l.carry = append(l.carry[:0], buf[n:]...)
	}
	return nil
}

func (l *Lines) tooMuch(offset int64) bool { return l.opts.MaxTotal > 0 && offset > l.opts.MaxTotal }

// explain makes the error that the caller sees.
func (l *Lines) explain(err error) error {
	if ctxErr := l.ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	e := &Error{Name: l.name, Consumed: l.Consumed(), Op: "read", Err: err}
	if op, ok := errors.AsType[*opError](err); ok {
		e.Op, e.Err = op.op, op.err
	}
	return e
}

// locate gives a failure its place, once everything before it is split.
func (l *Lines) locate() {
	if e, ok := errors.AsType[*Error](l.failure); ok {
		e.At = l.pos
	}
}

// split cuts whole lines apart and moves the position behind them.
func (l *Lines) split(data []byte) *Chunk {
	c := &Chunk{Lines: make([]Line, 0, 1+len(data)/1024)}
	for len(data) > 0 {
		raw, rest, found := bytes.Cut(data, []byte(newline))
		length := int64(len(raw))
		if found {
			length++
		}
		offset := l.pos.Offset
		raw = bytes.TrimSuffix(raw, []byte(carriageReturn))
		if offset == 0 {
			raw = bytes.TrimPrefix(raw, []byte(byteOrderMark))
		}
		l.pos.Line++
		l.pos.Offset += length
		data = rest
		switch {
		case len(raw) > l.opts.MaxLine:
			over := &Oversize{Length: int64(len(raw)), SHA256: sha256.Sum256(raw)}
			c.Lines = append(c.Lines, Line{Raw: raw[:l.opts.Head], Number: l.pos.Line, Offset: offset, Oversize: over})
		case blank(raw):
			c.Blank++
		default:
			c.Lines = append(c.Lines, Line{Raw: raw, Number: l.pos.Line, Offset: offset})
		}
	}
	c.End = l.pos
	return c
}

const (
	newline        = "\n"
	carriageReturn = "\r"
	byteOrderMark  = "\uFEFF"
)

// blank tells a line of JSON white space (RFC 8259, 2).
func blank(line []byte) bool {
	for _, b := range line {
		if b != ' ' && b != '\t' && b != '\r' {
			return false
		}
	}
	return true
}

// oversize lets an over-long line pass by, of which head has been read, and
// returns the chunk that is made of it alone.
func (l *Lines) oversize(head []byte) (*Chunk, error) {
	start := l.pos
	length := int64(len(head)) // of everything up to the next line
	buf := head[:0]
	if start.Offset == 0 {
		head = bytes.TrimPrefix(head, []byte(byteOrderMark))
	}
	sum := lineHash{sha: sha256.New()}
	sum.write(head)
	kept := bytes.Clone(head[:l.opts.Head])
	for {
		var more bool
		var err error
		buf, more, err = l.pump.next(l.ctx, buf[:0], true)
		if !more {
			if err != io.EOF { //nolint:errorlint // the pump passes io.EOF on as it is
				l.failure = l.explain(err)
				l.locate()
				return nil, l.failure
			}
			l.failure = io.EOF
			l.carry = l.carry[:0]
			break
		}
		line, rest, found := bytes.Cut(buf, []byte(newline))
		sum.write(line)
		length += int64(len(line))
		if l.tooMuch(start.Offset + length) {
			l.failure = l.explain(ErrTooMuch)
			l.locate()
			return nil, l.failure
		}
		if found {
			length++
			l.carry = append(l.carry[:0], rest...)
			break
		}
	}
	l.pos = Position{Line: start.Line + 1, Offset: start.Offset + length}
	over := &Oversize{}
	over.Length, over.SHA256 = sum.finish()
	return &Chunk{
		Lines: []Line{{Raw: kept, Number: l.pos.Line, Offset: start.Offset, Oversize: over}},
		End:   l.pos,
	}, nil
}

// lineHash hashes a line that arrives in pieces, without the "\r" that may turn
// out to be part of its line end.
type lineHash struct {
	sha    hash.Hash
	length int64
	held   bool
}

func (h *lineHash) write(p []byte) {
	if len(p) == 0 {
		return
	}
	if h.held {
		h.sha.Write([]byte(carriageReturn))
		h.length++
	}
	h.held = p[len(p)-1] == '\r'
	if h.held {
		p = p[:len(p)-1]
	}
	h.sha.Write(p)
	h.length += int64(len(p))
}

func (h *lineHash) finish() (length int64, sum [sha256.Size]byte) {
	copy(sum[:], h.sha.Sum(nil))
	return h.length, sum
}
