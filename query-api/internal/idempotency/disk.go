package idempotency

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"muster/query-api/internal/segmentfile"
)

// DiskConfig configures a [Disk].
type DiskConfig struct {
	// Dir is the directory of this store; it is created if missing.
	Dir string
	// MaxBytes and MaxAnswers bound the store; the oldest responses are evicted first. Defaults 2 GiB and 250,000.
	MaxBytes   int64
	MaxAnswers int
	// SegmentAge is how long one segment is written to. An expired response stays on disk for at most that long;
	// default one hour.
	SegmentAge time.Duration
	// Now defaults to time.Now.
	Now func() time.Time
}

// Disk is a [Store] for a single replica. Responses survive the death of the process, so that a call repeated after
// it is not charged again. The index is in memory, the contents are in segment files. Files are not synced: a power
// cut may lose the latest responses.
type Disk struct {
	cfg DiskConfig

	mu       sync.Mutex
	items    map[string]*list.Element // values are *item
	order    *list.List               // oldest first
	segments []*segment               // oldest first; the last one is open for writes unless full
	next     uint64                   // next segment number
	bytes    int64                    // size of all segments
}

type item struct {
	name, fingerprint, owner string
	until                    time.Time

	segment *segment // nil: running
	served  bool     // the value was returned by Begin
	offset  int64    // of the value
	length  int
	sum     uint32
}

// OpenDisk opens the store and reads its index.
func OpenDisk(cfg DiskConfig) (*Disk, error) {
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 2 << 30
	}
	if cfg.MaxAnswers == 0 {
		cfg.MaxAnswers = 250_000
	}
	if cfg.SegmentAge == 0 {
		cfg.SegmentAge = time.Hour
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("idempotency: %w", err)
	}
	d := &Disk{cfg: cfg, items: make(map[string]*list.Element), order: list.New(), next: 1}
	numbers, err := segmentfile.List(cfg.Dir, segmentSuffix)
	for i := 0; err == nil && i < len(numbers); i++ {
		err = d.load(numbers[i])
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("idempotency: read stored responses: %w", err), d.Close())
	}
	for _, s := range d.segments {
		s.full = true // the last frame may be truncated
	}
	return d, nil
}

// load reads a segment up to a truncated frame, the last one of a killed process.
func (d *Disk) load(number uint64) error {
	s, err := openSegment(d.cfg.Dir, number)
	if err != nil {
		return err
	}
	d.segments, d.next, d.bytes = append(d.segments, s), number+1, d.bytes+s.size
	for offset := int64(0); ; {
		f, next, err := s.read(offset)
		if errors.Is(err, errNoFrame) {
			return nil
		}
		if err != nil {
			return err
		}
		offset = next
		s.until = later(s.until, f.until)
		if e := d.items[f.Name]; e != nil && (f.kind == frameAnswer || e.Value.(*item).owner == f.Owner) {
			d.remove(e)
		}
		if f.kind == frameAnswer {
			d.items[f.Name] = d.order.PushBack(&item{
				name: f.Name, fingerprint: f.Fingerprint, owner: f.Owner, until: f.until,
				segment: s, offset: f.offset, length: f.Length, sum: f.Sum,
			})
		}
	}
}

// Begin implements [Store].
func (d *Disk) Begin(_ context.Context, name, fingerprint, owner string, lease time.Duration) (State, []byte, error) {
	now := d.cfg.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.sweep(now); err != nil {
		return 0, nil, err
	}
	if e := d.items[name]; e != nil {
		i := e.Value.(*item)
		switch {
		case !now.Before(i.until):
			d.remove(e)
		case i.fingerprint != fingerprint:
			return Mismatch, nil, nil
		case i.segment == nil && i.owner == owner:
			d.renew(e, now.Add(lease))
			return New, nil, nil
		case i.segment == nil:
			return Running, nil, nil
		default:
			value, err := i.value()
			if err != nil {
				return 0, nil, err
			}
			if value != nil {
				i.served = true
				return Stored, value, nil
			}
			d.remove(e) // lost in a power cut
		}
	}
	d.items[name] = d.order.PushBack(&item{name: name, fingerprint: fingerprint, owner: owner, until: now.Add(lease)})
	return New, nil, nil
}

// value reads a stored value; nil if its checksum does not match.
func (i *item) value() ([]byte, error) {
	value := make([]byte, i.length)
	if _, err := i.segment.file.ReadAt(value, i.offset); err != nil {
		return nil, fmt.Errorf("read stored response: %w", err)
	}
	if checksum(value) != i.sum {
		return nil, nil
	}
	return value, nil
}

// held returns the element of a name if owner has it, else nil.
func (d *Disk) held(name, owner string) *list.Element {
	if e := d.items[name]; e != nil && e.Value.(*item).owner == owner {
		return e
	}
	return nil
}

// Renew implements [Store].
func (d *Disk) Renew(_ context.Context, name, owner string, lease time.Duration) error {
	now := d.cfg.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.held(name, owner); e != nil && e.Value.(*item).segment == nil && now.Before(e.Value.(*item).until) {
		d.renew(e, now.Add(lease))
	}
	return nil
}

func (d *Disk) renew(e *list.Element, until time.Time) {
	e.Value.(*item).until = until
	d.order.MoveToBack(e)
}

// Complete implements [Store].
func (d *Disk) Complete(_ context.Context, name, owner string, value []byte, ttl time.Duration) error {
	now := d.cfg.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.held(name, owner)
	if e == nil {
		return nil
	}
	i := e.Value.(*item)
	f := frame{kind: frameAnswer, until: now.Add(ttl), Name: name, Fingerprint: i.fingerprint, Owner: owner}
	s, offset, err := d.write(now, f, value)
	if err != nil {
		return err
	}
	i.until, i.segment, i.offset, i.length, i.sum = f.until, s, offset, len(value), checksum(value)
	d.order.MoveToBack(e)
	return nil
}

// Delete implements [Store]. The contents of a stored response are overwritten.
func (d *Disk) Delete(_ context.Context, name, owner string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.delete(d.held(name, owner))
}

// DeleteUnserved implements [Store].
func (d *Disk) DeleteUnserved(_ context.Context, name, owner string) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.held(name, owner)
	if e != nil && e.Value.(*item).served {
		return true, nil
	}
	return false, d.delete(e)
}

// delete removes a claim or response, if e is not nil. d.mu must be held.
func (d *Disk) delete(e *list.Element) error {
	if e == nil {
		return nil
	}
	i := e.Value.(*item)
	if i.segment != nil {
		f := frame{kind: frameForgotten, until: i.until, Name: i.name, Owner: i.owner}
		if _, _, err := d.write(d.cfg.Now(), f, nil); err != nil {
			return err
		}
		if _, err := i.segment.file.WriteAt(make([]byte, i.length), i.offset); err != nil {
			return fmt.Errorf("overwrite stored response: %w", err)
		}
	}
	d.remove(e)
	return nil
}

// write appends a frame to the current segment, or to a new one if that is old or large.
func (d *Disk) write(now time.Time, f frame, value []byte) (*segment, int64, error) {
	var s *segment
	if n := len(d.segments); n > 0 {
		s = d.segments[n-1]
		s.full = s.full || now.Sub(s.began) >= d.cfg.SegmentAge || s.size >= d.cfg.MaxBytes/8
	}
	if s == nil || s.full {
		var err error
		if s, err = createSegment(d.cfg.Dir, d.next, now); err != nil {
			return nil, 0, fmt.Errorf("create segment of stored responses: %w", err)
		}
		d.segments, d.next = append(d.segments, s), d.next+1
	}
	offset, n, err := s.append(f, value)
	if err != nil {
		return nil, 0, fmt.Errorf("store response: %w", err)
	}
	d.bytes += n
	s.until = later(s.until, f.until)
	return s, offset, nil
}

// Sweep removes expired responses, also from disk.
func (d *Disk) Sweep() error {
	now := d.cfg.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.segments); n > 0 && now.Sub(d.segments[n-1].began) >= d.cfg.SegmentAge {
		d.segments[n-1].full = true
	}
	return d.sweep(now)
}

// sweep removes expired responses, and the oldest ones over the limits.
func (d *Disk) sweep(now time.Time) error {
	for e := d.order.Front(); e != nil; e = d.order.Front() {
		if now.Before(e.Value.(*item).until) && d.order.Len() <= d.cfg.MaxAnswers {
			break
		}
		d.remove(e)
	}
	for len(d.segments) > 0 {
		s := d.segments[0]
		if !s.full || now.Before(s.until) && d.bytes <= d.cfg.MaxBytes {
			return nil
		}
		for e := d.order.Front(); e != nil; {
			following := e.Next()
			if e.Value.(*item).segment == s {
				d.remove(e)
			}
			e = following
		}
		d.segments, d.bytes = d.segments[1:], d.bytes-s.size
		if err := s.remove(); err != nil {
			return fmt.Errorf("remove stored responses: %w", err)
		}
	}
	return nil
}

func (d *Disk) remove(e *list.Element) {
	d.order.Remove(e)
	delete(d.items, e.Value.(*item).name)
}

// Each calls f with every stored response, until f returns an error.
func (d *Disk) Each(ctx context.Context, f func(name string, value []byte) error) error {
	d.mu.Lock()
	var names []string
	for e := d.order.Front(); e != nil; e = e.Next() {
		if i := e.Value.(*item); i.segment != nil {
			names = append(names, i.name)
		}
	}
	d.mu.Unlock()
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		d.mu.Lock()
		var value []byte
		var err error
		if e := d.items[name]; e != nil && e.Value.(*item).segment != nil {
			value, err = e.Value.(*item).value()
		}
		d.mu.Unlock()
		if err == nil && value != nil {
			err = f(name, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Close closes the files.
func (d *Disk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, s := range d.segments {
		errs = append(errs, s.file.Close())
	}
	d.segments = nil
	return errors.Join(errs...)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
