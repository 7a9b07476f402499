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

// Options configure a source. Limits are in bytes.
type Options struct {
	// MaxLine is the longest object returned completely; a line counts without its line end
	// (records.md, rule 4: 1 MiB).
	MaxLine int
	// Head is how much is kept of a longer one (records.md, rule 4: 64 KiB). It is at most MaxLine.
	Head int
	// ChunkSize is the approximate size of a chunk. The default is 256 KiB.
	ChunkSize int
	// MaxTotal is the maximum uncompressed size of an input; 0 means no limit. Data read before the
	// limit is exceeded is returned, then reading fails with ErrTooLarge.
	MaxTotal int64
	// WholeLists returns a top-level JSON array as one object, unless it is longer than MaxLine.
	WholeLists bool
	// Format is the format of the input; FormatAuto detects it.
	Format Format
	// Kind determines the types of the columns of CSV. Without it every cell is a string.
	Kind record.Kind
	// From is where reading starts: the End of a chunk of an earlier reading of the same input.
	From Position
}

// ErrTooLarge is wrapped by the error for an input that is larger than Options.MaxTotal.
var ErrTooLarge = errors.New("input too large")

const defaultChunkSize = 256 << 10

// slack is the maximum number of bytes around a line: a byte order mark before it, a "\r" after it.
const slack = 4

// stream is an input, decompressed and read ahead, with the current position. Text sources embed it.
type stream struct {
	ctx      context.Context
	name     string
	opts     Options
	consumed *atomic.Int64
	pump     *pump
	owned    io.Closer // nil if the caller closes the input
	closed   sync.Once

	opening *opening
	skip    int64  // bytes to skip before the first line
	carry   []byte // starts at pos, belongs to the next chunk
	pos     Position
	failure error
	buffers *sync.Pool
}

// seek skips to the start position in a file that is not compressed.
func (l *stream) seek(f *os.File, size int64) error {
	if l.skip == 0 || l.skip > size {
		// Reading reports that the file is too short.
		return nil
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
	l.opening.seeked, l.skip = true, 0
	return nil
}

func newStream(ctx context.Context, name string, r io.Reader, opts Options) (*stream, error) {
	if opts.ChunkSize <= 0 {
		opts.ChunkSize = defaultChunkSize
	}
	if opts.Head <= 0 || opts.MaxLine < opts.Head {
		return nil, fmt.Errorf("source %s: invalid limits: line %d bytes, head %d bytes", name, opts.MaxLine, opts.Head)
	}
	consumed := new(atomic.Int64)
	return &stream{
		ctx: ctx, name: name, opts: opts, consumed: consumed,
		opening: &opening{counted: &counter{r: r, n: consumed}},
		pos:     opts.From, skip: opts.From.Offset,
		buffers: &sync.Pool{New: func() any { return new([]byte) }},
	}, nil
}

// start starts the pump.
func (l *stream) start() { l.pump = newPump(l.opening, l.opening.close) }

// opening detects the compression on the first read, in the pump's goroutine: opening a pipe must
// not wait for its writer.
type opening struct {
	counted *counter
	inner   decompressor
	started bool
	seeked  bool // the file is not compressed and is not read from its start
	head    []byte
	checked bool // the start of the uncompressed input was checked
}

// Decompress returns the uncompressed content of r: gzip, zstd or plain. done releases resources
// and leaves r open.
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
	if !o.started {
		o.started = true
		br := bufio.NewReaderSize(o.counted, pieceSize)
		// Ignore errors: if the input is short, reading reports it.
		magic, _ := br.Peek(magicSize)
		if o.seeked {
			magic = nil
		}
		var err error
		if o.inner, err = decompress(magic, br); err != nil {
			return 0, &opError{op: o.inner.op, err: unexpectedEOF(err)}
		}
	}
	if o.inner.Reader == nil {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := o.inner.Read(p)
	if !o.checked && !o.seeked {
		var formatErr error
		if n, err, formatErr = o.checkFormat(p, n, err); formatErr != nil {
			return 0, &opError{op: "read", err: formatErr}
		}
	}
	if err != nil && err != io.EOF { //nolint:errorlint // io.EOF is never wrapped by readers
		err = &opError{op: o.inner.op, err: unexpectedEOF(err)}
	}
	return n, err
}

// checkFormat rejects uncompressed content that is an archive or in an unsupported format. It
// returns how much of p is read, and the error of the last read. Text has no NUL: if there is one,
// a complete tar header is read first.
func (o *opening) checkFormat(p []byte, n int, readErr error) (int, error, error) {
	o.head = append(o.head, p[:min(n, tarHeaderSize-len(o.head))]...)
	for readErr == nil && n < len(p) && len(o.head) < tarHeaderSize && bytes.IndexByte(o.head, 0) >= 0 {
		var m int
		m, readErr = o.inner.Read(p[n:])
		o.head = append(o.head, p[n:n+min(m, tarHeaderSize-len(o.head))]...)
		n += m
	}
	o.checked = readErr != nil || len(o.head) == tarHeaderSize
	return n, readErr, rejectUnsupported(o.head)
}

// unexpectedEOF converts io.EOF, so that an end of file inside a header does not look like the
// regular end of the input.
func unexpectedEOF(err error) error {
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

// counter counts the bytes read.
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

// Close implements [Source]. For a file it waits until no read is in progress.
func (l *stream) Close() error {
	var err error
	l.closed.Do(func() {
		if l.pump != nil {
			l.pump.close()
		}
		if l.owned == nil {
			return
		}
		err = l.owned.Close()
		if _, ok := l.owned.(*os.File); ok && l.pump != nil {
			<-l.pump.done
		}
	})
	return err
}

// skipToStart skips the input before the start position.
func (l *stream) skipToStart() error {
	n := min(int64(len(l.carry)), l.skip)
	l.skip -= n
	l.carry = append(l.carry[:0], l.carry[n:]...)
	var buf []byte
	for l.skip > 0 {
		var err error
		buf, _, err = l.pump.next(l.ctx, buf[:0], true)
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("start at byte %d: %w", l.opts.From.Offset, io.ErrUnexpectedEOF)
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

func (l *stream) exceedsMaxTotal(offset int64) bool {
	return l.opts.MaxTotal > 0 && offset > l.opts.MaxTotal
}

// explain returns the error for the caller.
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

// locate sets the position of a failure, after everything before it was split.
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

// isBlank reports whether a line is JSON white space (RFC 8259, 2).
func isBlank(line []byte) bool {
	for _, b := range line {
		if b != ' ' && b != '\t' && b != '\r' {
			return false
		}
	}
	return true
}

// lineHash hashes a line that arrives in pieces, without a trailing "\r", which may belong to the line end.
type lineHash struct {
	sha       hash.Hash
	length    int64
	pendingCR bool
}

func (h *lineHash) write(p []byte) {
	if len(p) == 0 {
		return
	}
	if h.pendingCR {
		h.sha.Write([]byte(carriageReturn))
		h.length++
	}
	h.pendingCR = p[len(p)-1] == '\r'
	if h.pendingCR {
		p = p[:len(p)-1]
	}
	h.sha.Write(p)
	h.length += int64(len(p))
}

func (h *lineHash) finish() (length int64, sum [sha256.Size]byte) {
	copy(sum[:], h.sha.Sum(nil))
	return h.length, sum
}
