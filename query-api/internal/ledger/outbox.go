package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"muster/query-api/internal/segmentfile"
	"muster/schemas/event"
)

// Config configures an [Outbox]. Zero fields take their defaults.
type Config struct {
	// Dir is the directory of this replica. Required.
	Dir string
	// MaxBytes bounds the stored events while Kafka is unavailable; default 512 MiB, about a million events. If it is
	// reached, nothing can be charged. Rejected calls that count nothing may use half of it.
	MaxBytes int64
	// SegmentBytes is the segment size; default 8 MiB.
	SegmentBytes int64
	// SyncEvery is the fsync interval; default 100 ms, negative: only when a segment ends.
	SyncEvery time.Duration
	// Linger is how long a confirmed event waits for others before it is published. Publishing events one by one costs
	// the client, the broker and the readers about a millisecond of CPU each. Default 1 s, negative: none.
	Linger time.Duration
	Logger *slog.Logger // default: discard
}

// ErrFull is returned if the outbox is full.
var ErrFull = errors.New("outbox full: Kafka has been unavailable for too long")

var errClosed = errors.New("outbox closed")

// batchEvents is the maximum size of a published batch.
const batchEvents = 1000

// maxCachedBytes is the maximum payload size of pending events in memory; others are read from their segments.
const maxCachedBytes = 16 << 20

// Outbox stores usage events until they are published. It is safe for concurrent use. [Outbox.Run] publishes them and
// closes the outbox.
type Outbox struct {
	cfg  Config
	lock *os.File

	mu       sync.Mutex
	segments []*segment // oldest first; the last one is written to
	bytes    int64
	seq      uint64
	queue    []ref // the published ones, which are to be settled, first

	open      map[uint64]struct{} // prepared and not yet marked
	watched   bool                // a caller waits for marks
	published int                 // number of published events in the queue
	sent      uint64              // number of published events
	due       uint64              // events up to this number must not linger
	cached    int64               // payload bytes in memory
	closed    bool                // no further writes
	ready     chan struct{}       // has an element if there are events to publish
	hurry     chan struct{}       // has an element if lingering may have to end
	progress  chan struct{}       // closed and replaced after publishing or settling
	marked    chan struct{}       // closed and replaced after a mark, if watched
}

// ref is an event in a segment.
type ref struct {
	segment *segment
	offset  int64        // of its frame
	usage   *event.Usage // nil: read from the segment
	payload []byte       // usage as JSON; nil if usage is nil
	void    bool
}

// Open opens or creates the outbox in a directory, which no other process may use. Events found there are published
// first.
func Open(cfg Config) (*Outbox, error) {
	if cfg.Dir == "" {
		return nil, errors.New("outbox: directory is missing")
	}
	setDefault(&cfg.MaxBytes, 512<<20)
	setDefault(&cfg.SegmentBytes, 8<<20)
	setDefault(&cfg.SyncEvery, 100*time.Millisecond)
	setDefault(&cfg.Linger, time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	o := &Outbox{
		cfg: cfg, open: make(map[uint64]struct{}), ready: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
		progress: make(chan struct{}), marked: make(chan struct{}),
	}
	var err error
	if o.lock, err = lock(cfg.Dir); err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	if err := o.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("outbox: %w", err), o.closeFiles())
	}
	return o, nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// lock locks the directory for this process. The kernel releases the lock when the process ends.
func lock(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is in use by another process: give each replica its own data directory", dir)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return file, nil
}

// recover reads the segments of earlier processes, and creates a new one.
func (o *Outbox) recover() error {
	numbers, err := segmentfile.List(o.cfg.Dir, segmentSuffix)
	if err != nil {
		return err
	}
	prepared := make(map[uint64]ref)
	var order []uint64
	next := uint64(1)
	for _, n := range numbers {
		file, err := os.OpenFile(segmentfile.Path(o.cfg.Dir, n, segmentSuffix), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		s := &segment{number: n, file: file, sealed: true}
		o.segments = append(o.segments, s)
		next = n + 1
		for {
			kind, seq, _, end, err := segmentfile.ReadFrame(file, s.size)
			if errors.Is(err, io.EOF) {
				break
			}
			if errors.Is(err, segmentfile.ErrTruncated) {
				// The process or the machine died during a write.
				o.cfg.Logger.Warn("outbox: truncated frame at end of segment",
					slog.String("segment", file.Name()), slog.Int64("offset", s.size))
				break
			}
			if err != nil {
				return fmt.Errorf("read %s: %w", file.Name(), err)
			}
			o.seq = max(o.seq, seq)
			switch r := (ref{segment: s, offset: s.size}); kind {
			case framePrepared:
				prepared[seq] = r
				order = append(order, seq)
				s.pending++
			case frameFinal:
				o.push(r)
				s.pending++
			case frameReduced:
				if before, ok := prepared[seq]; ok {
					before.segment.pending--
					delete(prepared, seq)
				}
				o.push(r)
				s.pending++
			case frameConfirmed, frameVoid:
				if r, ok := prepared[seq]; ok {
					r.void = kind == frameVoid
					o.push(r)
					delete(prepared, seq)
				}
			}
			s.size = end
		}
		o.bytes += s.size
	}
	for _, seq := range order {
		if r, ok := prepared[seq]; ok {
			r.void = true
			o.push(r)
		}
	}
	s, err := createSegment(o.cfg.Dir, next)
	if err != nil {
		return err
	}
	o.segments = append(o.segments, s)
	o.prune()
	o.due = uint64(len(o.queue))
	return nil
}

// Entry is a prepared charge.
type Entry struct {
	outbox *Outbox
	ref    ref
	seq    uint64
}

// Prepare writes an event whose response is about to be sent. When it returns, the event survives the death of the
// process. The outbox owns u from then on: the caller must not change it.
func (o *Outbox) Prepare(u *event.Usage) (Entry, error) {
	return o.add(framePrepared, u)
}

// Record writes a final event. The outbox owns u, as with Prepare.
func (o *Outbox) Record(u *event.Usage) error {
	_, err := o.add(frameFinal, u)
	return err
}

func (o *Outbox) add(kind byte, u *event.Usage) (Entry, error) {
	frame, err := u.AppendJSON(make([]byte, segmentfile.FrameHead, frameCapacity))
	if err != nil {
		return Entry{}, fmt.Errorf("outbox: encode: %w", err)
	}
	payload := frame[segmentfile.FrameHead:]
	if len(payload) > segmentfile.MaxPayload {
		return Entry{}, fmt.Errorf("outbox: event too large: %d bytes", len(payload))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	limit := o.cfg.MaxBytes
	// The number of uncounted rejections is unbounded: reserve space for charges.
	if u.Refused() && u.Requests == 0 {
		limit /= 2
	}
	if o.bytes+int64(len(payload)) > limit {
		return Entry{}, ErrFull
	}
	o.seq++
	segmentfile.SealFrame(frame, kind, o.seq)
	s, offset, err := o.write(frame)
	if err != nil {
		return Entry{}, fmt.Errorf("outbox: %w", err)
	}
	s.pending++
	e := Entry{outbox: o, seq: o.seq, ref: ref{segment: s, offset: offset, usage: u, payload: payload}}
	if kind == frameFinal {
		o.push(e.ref)
	} else {
		o.open[e.seq] = struct{}{}
	}
	return e, nil
}

// Confirm marks the response as sent: the charge is final.
func (e Entry) Confirm() error { return e.mark(frameConfirmed) }

// Void marks the response as not sent: nothing is charged.
func (e Entry) Void() error { return e.mark(frameVoid) }

// ConfirmPartial marks the response as partly sent, and sets the charge to credits.
func (e Entry) ConfirmPartial(credits int64) error {
	u := *e.ref.usage
	u.Credits = credits
	frame, err := u.AppendJSON(make([]byte, segmentfile.FrameHead, frameCapacity))
	if err != nil {
		return errors.Join(fmt.Errorf("outbox: encode: %w", err), e.Void())
	}
	segmentfile.SealFrame(frame, frameReduced, e.seq)
	o := e.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	r := e.ref
	s, offset, err := o.write(frame)
	if err != nil {
		r.void = true
		err = fmt.Errorf("outbox: %w", err)
	} else {
		r.segment.pending--
		s.pending++
		r = ref{segment: s, offset: offset, usage: &u, payload: frame[segmentfile.FrameHead:]}
	}
	o.settle(e.seq, r)
	return err
}

// mark writes a mark and queues the event. If the write fails, the event is queued as well, and becomes void only
// after a crash.
func (e Entry) mark(kind byte) error {
	o := e.outbox
	var frame [segmentfile.FrameHead]byte
	segmentfile.SealFrame(frame[:], kind, e.seq)
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _, err := o.write(frame[:])
	r := e.ref
	r.void = kind == frameVoid
	o.settle(e.seq, r)
	if err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}

// settle queues a marked event. o.mu must be held.
func (o *Outbox) settle(seq uint64, r ref) {
	delete(o.open, seq)
	if o.watched {
		close(o.marked)
		o.marked, o.watched = make(chan struct{}), false
	}
	o.push(r)
}

// write appends a frame. o.mu must be held.
func (o *Outbox) write(frame []byte) (*segment, int64, error) {
	if o.closed {
		return nil, 0, errClosed
	}
	s := o.segments[len(o.segments)-1]
	if s.size >= o.cfg.SegmentBytes {
		next, err := createSegment(o.cfg.Dir, s.number+1)
		if err != nil {
			return nil, 0, err
		}
		if s.dirty {
			if err := s.file.Sync(); err != nil {
				return nil, 0, errors.Join(err, next.remove())
			}
		}
		s.sealed, s.dirty = true, false
		s = next
		o.segments = append(o.segments, s)
	}
	offset := s.size
	if _, err := s.file.WriteAt(frame, offset); err != nil {
		return nil, 0, err // the next write overwrites a partial frame
	}
	s.size += int64(len(frame))
	s.dirty = true
	o.bytes += int64(len(frame))
	return s, offset, nil
}

// push queues an event. o.mu must be held, unless the outbox is not yet shared.
func (o *Outbox) push(r ref) {
	if o.cached+int64(len(r.payload)) > maxCachedBytes {
		r.usage, r.payload = nil, nil
	}
	o.cached += int64(len(r.payload))
	o.queue = append(o.queue, r)
	signal(o.ready)
	if len(o.unpublished()) >= batchEvents {
		signal(o.hurry)
	}
}

// signal sends to a channel of capacity one without blocking.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// prune removes the oldest segments whose events are all settled. Newer segments are kept, because they may have the
// marks of events in older ones. o.mu must be held, unless the outbox is not yet shared.
func (o *Outbox) prune() {
	for len(o.segments) > 1 && o.segments[0].sealed && o.segments[0].pending == 0 {
		s := o.segments[0]
		o.bytes -= s.size
		o.segments = o.segments[1:]
		if err := s.remove(); err != nil {
			o.cfg.Logger.Warn("outbox: removing a published segment failed", slog.Any("error", err))
		}
	}
	if last := o.segments[len(o.segments)-1]; len(o.segments) == 1 && last.pending == 0 &&
		last.size > minTruncateBytes {
		// Otherwise the next process would publish these events again.
		if err := last.file.Truncate(0); err != nil {
			o.cfg.Logger.Warn("outbox: truncating a published segment failed", slog.Any("error", err))
			return
		}
		o.bytes -= last.size
		last.size = 0
	}
}

// minTruncateBytes is the size above which a fully published segment is truncated.
const minTruncateBytes = 64 << 10

// Bytes returns the size of all segments.
func (o *Outbox) Bytes() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

// Pending returns the number of events waiting to be published.
func (o *Outbox) Pending() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.unpublished())
}

// unpublished returns the events to publish. o.mu must be held, unless the outbox is not yet shared.
func (o *Outbox) unpublished() []ref { return o.queue[o.published:] }

// FlushAsync ends the lingering of queued events, because another process may look them up. It does not wait.
func (o *Outbox) FlushAsync() { o.expedite() }

// expedite ends the lingering of queued events, and returns the number of published events that includes them all.
func (o *Outbox) expedite() (last uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last = o.sent + uint64(len(o.unpublished()))
	o.due = max(o.due, last)
	signal(o.hurry)
	return last
}

// Flush publishes all queued events without lingering, and waits until they are published or ctx ends.
func (o *Outbox) Flush(ctx context.Context) error {
	last := o.expedite()
	for {
		o.mu.Lock()
		published, progress := o.sent >= last, o.progress
		o.mu.Unlock()
		if published {
			return nil
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return fmt.Errorf("flush outbox: %w", context.Cause(ctx))
		}
	}
}

// FlushConfirmed is Flush for callers that have received responses, which may arrive before they are marked. It first
// waits for the marks of prepared events, at most a second, because clients may read their responses slowly.
func (o *Outbox) FlushConfirmed(ctx context.Context) error {
	timer := time.NewTimer(markTimeout)
	defer timer.Stop()
	o.mu.Lock()
	last := o.seq
	o.mu.Unlock()
	for {
		marked := o.pendingMark(last)
		if marked == nil {
			break
		}
		select {
		case <-marked:
			continue
		case <-timer.C:
		case <-ctx.Done():
			return fmt.Errorf("flush outbox: %w", context.Cause(ctx))
		}
		break
	}
	return o.Flush(ctx)
}

// markTimeout bounds the wait for marks.
const markTimeout = time.Second

// pendingMark returns a channel that is closed with the next mark, or nil if all events up to last are marked.
func (o *Outbox) pendingMark(last uint64) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	for seq := range o.open {
		if seq <= last {
			o.watched = true
			return o.marked
		}
	}
	return nil
}
