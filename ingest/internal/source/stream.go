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
	// MaxLine is the longest object delivered whole, in bytes, a line without its line
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
	// WholeLists delivers a JSON list at the top as one object, unless it is longer than MaxLine.
	WholeLists bool
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

// stream is the bytes of an input, decompressed and read ahead, and the place in them. The sources of text embed it.
type stream struct {
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

// seek leaves out what stands before the place to begin at, in a file that is
// not compressed.
func (l *stream) seek(f *os.File, size int64) error {
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

func newStream(ctx context.Context, name string, r io.Reader, opts Options) (*stream, error) {
	if opts.ChunkSize <= 0 {
		opts.ChunkSize = defaultChunkSize
	}
	if opts.Head <= 0 || opts.MaxLine < opts.Head {
		return nil, fmt.Errorf("source %s: a line limit of %d bytes with a head of %d makes no sense", name, opts.MaxLine, opts.Head)
	}
	consumed := new(atomic.Int64)
	return &stream{
		ctx: ctx, name: name, opts: opts, consumed: consumed,
		opening: &opening{counted: &counter{r: r, n: consumed}},
		pos:     opts.From, skip: opts.From.Offset,
		buffers: &sync.Pool{New: func() any { return new([]byte) }},
	}, nil
}

// start starts reading.
func (l *stream) start() { l.pump = newPump(l.opening, l.opening.close) }

// opening finds out at the first read, in the pump's goroutine, what the input
// holds: opening a pipe must not wait for its producer.
type opening struct {
	counted *counter
	inner   decompressor
	begun   bool
	sought  bool // the file is not compressed, and does not begin at its beginning
	head    []byte
	looked  bool // the beginning of what the input holds was looked at
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
	if !o.looked && !o.sought {
		var foreign error
		if n, err, foreign = o.look(p, n, err); foreign != nil {
			return 0, &opError{op: "read", err: foreign}
		}
	}
	if err != nil && err != io.EOF { //nolint:errorlint // io.EOF is never wrapped by readers
		err = &opError{op: o.inner.op, err: torn(err)}
	}
	return n, err
}

// look refuses what the input holds, uncompressed, if that is an archive or another format. It returns how much of p is
// read, and the error of the last read. Text holds no NUL: what has one waits until a header of tar would be complete.
func (o *opening) look(p []byte, n int, failed error) (int, error, error) {
	o.head = append(o.head, p[:min(n, tarHeaderSize-len(o.head))]...)
	for failed == nil && n < len(p) && len(o.head) < tarHeaderSize && bytes.IndexByte(o.head, 0) >= 0 {
		var m int
		m, failed = o.inner.Read(p[n:])
		o.head = append(o.head, p[n:n+min(m, tarHeaderSize-len(o.head))]...)
		n += m
	}
	o.looked = failed != nil || len(o.head) == tarHeaderSize
	return n, failed, refuseForeign(o.head)
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
func (l *stream) Name() string { return l.name }

// Consumed implements [Source].
func (l *stream) Consumed() int64 { return l.consumed.Load() }

// Close implements [Source]. For an opened file it waits until nothing reads
// it any more.
func (l *stream) Close() error {
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

// leaveOut reads over what stands before the place to begin at.
func (l *stream) leaveOut() error {
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

func (l *stream) tooMuch(offset int64) bool { return l.opts.MaxTotal > 0 && offset > l.opts.MaxTotal }

// explain makes the error that the caller sees.
func (l *stream) explain(err error) error {
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
func (l *stream) locate() {
	if e, ok := errors.AsType[*Error](l.failure); ok {
		e.At = l.pos
	}
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
