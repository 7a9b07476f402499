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

	"muster/schemas/event"
)

// Config configures an [Outbox]. Zero fields take their defaults.
type Config struct {
	// Dir is a folder of this replica alone. Required.
	Dir string
	// MaxBytes bounds what is kept while Kafka is away; default 512 MiB, some
	// million events. Beyond it nothing can be charged; refusals that count nothing
	// take half of it at most.
	MaxBytes int64
	// SegmentBytes is the size of a file; default 8 MiB.
	SegmentBytes int64
	// SyncEvery is how often what was written is synced to the disk; default
	// 100 ms, negative: only when a segment ends.
	SyncEvery time.Duration
	// Linger is how long the first event that stands waits for others before it is
	// published: every message that goes out alone costs client, broker and readers
	// about a millisecond of processor time. Default 1 s, negative: none.
	Linger time.Duration
	Logger *slog.Logger // default: none
}

// ErrFull is the error of a charge for which the outbox has no room.
var ErrFull = errors.New("the outbox of usage events is full: Kafka has been away for too long")

var errClosed = errors.New("the outbox is closed")

// batchEvents bounds the events that are published at once.
const batchEvents = 1000

// keptBytes bounds the events that wait in memory, by the size of their payloads;
// more are read again from their files.
const keptBytes = 16 << 20

// Outbox keeps usage events until they are published. It is safe for concurrent
// use. [Outbox.Run] publishes, and ends with it.
type Outbox struct {
	cfg  Config
	lock *os.File

	mu       sync.Mutex
	segments []*segment // oldest first; the last one is written to
	bytes    int64
	seq      uint64
	queue    []ref
	open     map[uint64]struct{} // prepared and not marked
	watched  bool                // somebody waits for marks
	sent     uint64              // events that have left the queue
	due      uint64              // as many as are not to linger
	kept     int64
	closed   bool          // nothing may be written any more
	ready    chan struct{} // has one element when there is something to publish
	hurry    chan struct{} // has one element when that may have to linger no longer
	drained  chan struct{} // closed, and replaced, when something was published
	marked   chan struct{} // closed, and replaced, when something was marked and is watched
}

// ref is an event in a segment.
type ref struct {
	segment *segment
	offset  int64        // of its frame
	usage   *event.Usage // nil: read it
	payload []byte       // of the frame: usage as JSON; nil as well
	void    bool
}

// Open opens or creates the outbox in a folder, which no other process may have
// open. What it finds there is published first.
func Open(cfg Config) (*Outbox, error) {
	if cfg.Dir == "" {
		return nil, errors.New("outbox: no folder")
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
		drained: make(chan struct{}), marked: make(chan struct{}),
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

// lock takes the folder for this process; it goes with the process, however
// that ends.
func lock(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is in use by another process: give each replica a data folder of its own", dir)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return file, nil
}

// recover reads what an earlier process left, and begins a new segment.
func (o *Outbox) recover() error {
	numbers, err := segmentNumbers(o.cfg.Dir)
	if err != nil {
		return err
	}
	prepared := make(map[uint64]ref)
	var order []uint64
	next := uint64(1)
	for _, n := range numbers {
		file, err := os.OpenFile(segmentPath(o.cfg.Dir, n), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		s := &segment{number: n, file: file, sealed: true}
		o.segments = append(o.segments, s)
		next = n + 1
		for {
			kind, seq, _, end, err := readFrame(file, s.size)
			if errors.Is(err, io.EOF) {
				break
			}
			if errors.Is(err, errTorn) {
				// The end of what the process, or the machine, had written.
				o.cfg.Logger.Warn("outbox segment ends with a torn frame",
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
			case frameAnswered, frameVoid:
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

// Entry is a charge that was prepared.
type Entry struct {
	outbox *Outbox
	ref    ref
	seq    uint64
}

// Prepare writes an event whose answer is about to be sent. It survives the
// process when Prepare returns. The outbox keeps the event, which must not be
// changed any more.
func (o *Outbox) Prepare(u *event.Usage) (Entry, error) {
	return o.add(framePrepared, u)
}

// Record writes an event that stands as it is. The outbox keeps it, as Prepare does.
func (o *Outbox) Record(u *event.Usage) error {
	_, err := o.add(frameFinal, u)
	return err
}

func (o *Outbox) add(kind byte, u *event.Usage) (Entry, error) {
	frame, err := u.AppendJSON(make([]byte, frameHead, frameRoom))
	if err != nil {
		return Entry{}, fmt.Errorf("outbox: encode: %w", err)
	}
	payload := frame[frameHead:]
	if len(payload) > maxPayload {
		return Entry{}, fmt.Errorf("outbox: an event of %d bytes", len(payload))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	room := o.cfg.MaxBytes
	if u.Refused() && u.Requests == 0 { // as many as callers like: charges must have room beside them
		room /= 2
	}
	if o.bytes+int64(len(payload)) > room {
		return Entry{}, ErrFull
	}
	o.seq++
	sealFrame(frame, kind, o.seq)
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

// Answered says that the answer has left: the charge stands.
func (e Entry) Answered() error { return e.mark(frameAnswered) }

// Void says that it has not: nothing is charged.
func (e Entry) Void() error { return e.mark(frameVoid) }

// Reduced says that a part of the answer has left: the charge stands with so many credits.
func (e Entry) Reduced(credits int64) error {
	u := *e.ref.usage
	u.Credits = credits
	frame, err := u.AppendJSON(make([]byte, frameHead, frameRoom))
	if err != nil {
		return errors.Join(fmt.Errorf("outbox: encode: %w", err), e.Void())
	}
	sealFrame(frame, frameReduced, e.seq)
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
		r = ref{segment: s, offset: offset, usage: &u, payload: frame[frameHead:]}
	}
	o.settle(e.seq, r)
	return err
}

// mark queues the event even when its mark cannot be written: then it is only a
// crash that turns it into a void one.
func (e Entry) mark(kind byte) error {
	o := e.outbox
	var frame [frameHead]byte
	sealFrame(frame[:], kind, e.seq)
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

// settle queues a prepared event as it stands; o.mu is held.
func (o *Outbox) settle(seq uint64, r ref) {
	delete(o.open, seq)
	if o.watched {
		close(o.marked)
		o.marked, o.watched = make(chan struct{}), false
	}
	o.push(r)
}

// write appends a frame; o.mu is held.
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
		return nil, 0, err // what follows is written over what of the frame may stand there
	}
	s.size += int64(len(frame))
	s.dirty = true
	o.bytes += int64(len(frame))
	return s, offset, nil
}

// push queues an event; o.mu is held, or the outbox is not yet shared.
func (o *Outbox) push(r ref) {
	if o.kept+int64(len(r.payload)) > keptBytes {
		r.usage, r.payload = nil, nil
	}
	o.kept += int64(len(r.payload))
	o.queue = append(o.queue, r)
	signal(o.ready)
	if len(o.queue) >= batchEvents {
		signal(o.hurry)
	}
}

// signal puts an element into a channel that has room for one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// prune removes the oldest segments as long as everything in them is published;
// o.mu is held, or the outbox is not yet shared. Newer ones stay until then,
// because they may hold the marks of events in older ones.
func (o *Outbox) prune() {
	for len(o.segments) > 1 && o.segments[0].sealed && o.segments[0].pending == 0 {
		s := o.segments[0]
		o.bytes -= s.size
		o.segments = o.segments[1:]
		if err := s.remove(); err != nil {
			o.cfg.Logger.Warn("published outbox segment cannot be removed", slog.Any("error", err))
		}
	}
	if last := o.segments[len(o.segments)-1]; len(o.segments) == 1 && last.pending == 0 && last.size > emptyAbove {
		// What a process after this one would publish again for nothing.
		if err := last.file.Truncate(0); err != nil {
			o.cfg.Logger.Warn("published outbox segment cannot be emptied", slog.Any("error", err))
			return
		}
		o.bytes -= last.size
		last.size = 0
	}
}

// emptyAbove is the size from which a segment is emptied when everything in it
// is published.
const emptyAbove = 64 << 10

// Bytes is how much is in the outbox's files.
func (o *Outbox) Bytes() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

// Pending is the number of events that wait to be published.
func (o *Outbox) Pending() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue)
}

// Hurry has every event that stands now published without lingering, because another
// process may look for it.
func (o *Outbox) Hurry() { o.hasten() }

// hasten returns how many events have left the queue once those that stand now have.
func (o *Outbox) hasten() (last uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last = o.sent + uint64(len(o.queue))
	o.due = max(o.due, last)
	signal(o.hurry)
	return last
}

// Flush returns once every event that stands at the time of the call is
// published, or ctx ends. They do not linger.
func (o *Outbox) Flush(ctx context.Context) error {
	last := o.hasten()
	for {
		o.mu.Lock()
		there, drained := o.sent >= last, o.drained
		o.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-drained:
		case <-ctx.Done():
			return fmt.Errorf("flush the outbox: %w", context.Cause(ctx))
		}
	}
}

// FlushAnswered is Flush for whoever has seen answers: their callers may know of them
// before they are marked. It waits for the marks of what is prepared at the time of the
// call, at most a second, because a caller may take its answer slowly.
func (o *Outbox) FlushAnswered(ctx context.Context) error {
	timer := time.NewTimer(markPatience)
	defer timer.Stop()
	o.mu.Lock()
	last := o.seq
	o.mu.Unlock()
	for {
		marked := o.unmarked(last)
		if marked == nil {
			break
		}
		select {
		case <-marked:
			continue
		case <-timer.C:
		case <-ctx.Done():
			return fmt.Errorf("flush the outbox: %w", context.Cause(ctx))
		}
		break
	}
	return o.Flush(ctx)
}

// markPatience bounds the wait for marks.
const markPatience = time.Second

// unmarked returns what tells of the next mark, nil when everything is marked that was
// prepared up to last.
func (o *Outbox) unmarked(last uint64) <-chan struct{} {
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
