package postings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/query-api/internal/search/planner"
)

// ErrUnsupported says that a query cannot be answered from postings, or not of this table: SQL can.
var ErrUnsupported = errors.New("postings: unsupported")

// errTooVaried says that a leaf has more different frequencies than a list holds.
var errTooVaried = fmt.Errorf("%w: too many different frequencies", ErrUnsupported)

// errUnsteady says that parts went before they were read, again and again: what is known of others stays.
var errUnsteady = fmt.Errorf("%w: the table's parts change too fast", ErrUnsupported)

// errReading says that very many people are being read.
var errReading = fmt.Errorf("%w: new parts are being read", ErrUnsupported)

// errChanged says that a part went while it was read.
var errChanged = errors.New("postings: a part is gone")

// Config bounds an Index. Zero fields take their defaults.
type Config struct {
	// MaxBytes bounds what is kept; default 256 MiB. People whose hashes alone take more than a quarter of it are not held.
	MaxBytes int
	// MaxPeople bounds the people who are held: until they have been read whoever asks first waits. Default 10 million.
	MaxPeople int
	// MaxWaited bounds the people of new parts that who asks waits for; default 500,000, which takes some tenths of a second.
	MaxWaited int
	// MaxRows bounds the rows that a statement reads, as long as they are not fewer than the people; default 100 million.
	MaxRows int
	// MaxLeaves bounds the leaves of a query; default 1024.
	MaxLeaves int
	// Loads bounds the queries that read at once; default 2. As many of those that yield to others do.
	Loads int
}

// DefaultBytes is the default of Config.MaxBytes.
const DefaultBytes = 256 << 20

func (c Config) withDefaults() Config {
	if c.MaxBytes <= 0 {
		c.MaxBytes = DefaultBytes
	}
	if c.MaxPeople <= 0 {
		c.MaxPeople = 10_000_000
	}
	if c.MaxWaited <= 0 {
		c.MaxWaited = 500_000
	}
	if c.MaxRows <= 0 {
		c.MaxRows = 100_000_000
	}
	if c.MaxLeaves <= 0 {
		c.MaxLeaves = 1024
	}
	if c.Loads <= 0 {
		c.Loads = 2
	}
	return c
}

// The steps that read what all queries share.
const (
	stepParts    = "parts"
	stepPeople   = "people"
	stepVersions = "versions"
)

// Shared says that a step reads for all queries that wait at the time, not for one.
func Shared(step string) bool { return step == stepParts || step == stepPeople || step == stepVersions }

// SharedTimeout bounds what a look for the parts may take, with what is read of new ones.
const SharedTimeout = 20 * time.Second

// Query runs a statement and calls scan at each row. step names it in traces.
type Query func(ctx context.Context, step string, statement planner.Statement, scan func(driver.Rows) error) error

// Index holds what was read. It is safe for concurrent use.
type Index struct {
	cfg   Config
	query Query
	loads [2]chan struct{} // of usual queries, and of those that yield to them
	left  atomic.Bool      // what a query had no time for is being read
	// What statements read at a time.
	leafStride, lengthStride stride
	// buffers are scratch space of rankings.
	buffers sync.Pool
	now     func() time.Time

	living  context.Context // until Close
	die     context.CancelFunc
	working sync.WaitGroup

	mu       sync.Mutex
	snapshot *Snapshot
	number   uint64
	next     *round // those who come now wait for it
	running  bool
	reading  bool // very many people
	kept     cache
	refused  error     // why the table cannot be held,
	until    time.Time // which is not looked at again before
	// begun are parts that looks have read that came to no end. Only looks touch it.
	begun map[string]*part
	ahead *Ahead // nil: nothing is
	// isAhead are large parts of which it was read. Only looks touch it.
	isAhead map[string]bool
}

// New returns an Index that reads by query. Close must be called.
func New(cfg Config, query Query, now func() time.Time) *Index {
	cfg = cfg.withDefaults()
	x := &Index{cfg: cfg, query: query, now: now, kept: newCache(cfg.MaxBytes)}
	x.living, x.die = context.WithCancel(context.Background())
	for i := range x.loads {
		x.loads[i] = make(chan struct{}, cfg.Loads)
	}
	x.buffers.New = func() any { return &buffers{} }
	return x
}

// refusal is how long a table is not looked at again that cannot be held, and unsteady one whose parts change too fast.
const (
	refusal  = 10 * time.Second
	unsteady = time.Second
)

// Snapshot is the parts of the table at an instant.
type Snapshot struct {
	// Number tells snapshots of an Index apart.
	Number uint64
	// People is the Number of the first snapshot with the same people.
	People uint64
	// Unseen: nobody has a version that is newer than her content.
	Unseen bool
	// Documents tells states of the documents of people apart.
	Documents string
	seen      string // tells states of the newer versions apart
	parts     []*part
	terms     *terms
}

// equals says that the same parts are there.
func (s *Snapshot) equals(a *activeParts) bool {
	return s != nil && s.Documents == a.documents && s.seen == a.seen && s.holds(a)
}

// holds says that the same parts of people are there.
func (s *Snapshot) holds(a *activeParts) bool {
	return s != nil && slices.EqualFunc(s.parts, a.people, samePart)
}

func samePart(a, b *part) bool { return a.identity == b.identity }

// part is a part of the table, and who lives in it.
type part struct {
	name, identity string
	rows           int // as the server counts them
	size           int // the last offset and one
	hashes         []uint64
	deleted        []uint64 // bits of the rows of withdrawn records, nil where there are none
	identified     *identities
	alive          []uint64 // bits of the rows of those who live, nil where all do
}

// identities tell the versions of the people of a part apart.
type identities struct {
	seconds  []uint64
	versions []int64
	contents []uint64
}

// Current is the newest snapshot that is known, nil when none is.
func (x *Index) Current() *Snapshot {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.snapshot
}

// Bytes is about how much memory what is kept takes, the people of the parts aside.
func (x *Index) Bytes() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.kept.size
}

// round is one look for the parts, on behalf of all who asked before it began.
type round struct {
	early    bool // before anybody asked
	done     chan struct{}
	once     sync.Once
	snapshot *Snapshot
	err      error
}

// answer tells those who wait, once.
func (r *round) answer(s *Snapshot, err error) {
	r.once.Do(func() {
		r.snapshot, r.err = s, err
		close(r.done)
	})
}

// Latest gives the parts as they are at an instant after the call. It does not wait for very many people to be read: the error
// is ErrUnsupported until they have been.
func (x *Index) Latest(ctx context.Context) (*Snapshot, error) {
	x.mu.Lock()
	if x.reading {
		defer x.mu.Unlock()
		return nil, errReading
	}
	if x.refused != nil && x.now().Before(x.until) {
		defer x.mu.Unlock()
		return nil, x.refused
	}
	r := x.next
	if r == nil {
		r = &round{done: make(chan struct{})}
		x.next = r
	}
	if !x.running {
		x.running = true
		x.working.Go(x.look)
	}
	x.mu.Unlock()
	select {
	case <-r.done:
		return r.snapshot, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// look looks for the parts, again and again while somebody waits. It goes on when their time is over: others need it.
func (x *Index) look() {
	for {
		x.mu.Lock()
		r := x.next
		x.next = nil // who comes from now on waits for another
		x.running = r != nil
		x.mu.Unlock()
		if r == nil {
			return
		}
		ctx, cancel := context.WithTimeout(x.living, SharedTimeout)
		snapshot, err := x.read(ctx, func() {
			x.mu.Lock()
			next := x.next
			x.reading, x.next = true, nil
			x.mu.Unlock()
			r.answer(nil, errReading)
			if next != nil {
				next.answer(nil, errReading)
			}
		})
		if errors.Is(err, context.DeadlineExceeded) && x.living.Err() == nil {
			err = fmt.Errorf("%w: who is in the table was not read within %v: %w", ErrUnsupported, SharedTimeout, err)
		}
		cancel()
		x.mu.Lock()
		x.reading, x.refused = false, nil
		switch {
		case r.early:
		case errors.Is(err, errUnsteady):
			x.refused, x.until = err, x.now().Add(unsteady)
		case errors.Is(err, ErrUnsupported):
			x.refused, x.until, x.snapshot = err, x.now().Add(refusal), nil
			x.kept.retain(nil)
		}
		x.mu.Unlock()
		r.answer(snapshot, err)
		if err == nil {
			x.readAhead(snapshot)
		}
	}
}

// Close ends looks that are under way and waits for them. Nobody may ask any more.
func (x *Index) Close() {
	x.die()
	x.working.Wait()
}

// maxTurns is how often it is tried to read parts before they are gone.
const maxTurns = 8

// read reads which parts there are and, of new ones, who is in them. It calls many before it reads very many people.
func (x *Index) read(ctx context.Context, many func()) (*Snapshot, error) {
	known := make(map[string]*part)
	if s := x.Current(); s != nil {
		for _, p := range s.parts {
			known[p.identity] = p
		}
	}
	maps.Copy(known, x.begun)
	for range maxTurns {
		active, err := x.active(ctx)
		if err != nil {
			if errors.Is(err, ErrUnsupported) {
				x.begun = nil
			}
			return nil, err
		}
		last := x.Current()
		if last.equals(active) {
			return last, nil
		}
		if last.holds(active) {
			return x.publish(active, last.parts, last), nil
		}
		var fresh []*part
		rows := 0                       // to read
		begun := make(map[string]*part) // without those that are gone
		for i, p := range active.people {
			k := known[p.identity]
			if k == nil {
				fresh = append(fresh, p)
			} else {
				active.people[i], begun[p.identity] = k, k
			}
			if k == nil || len(active.people) > 1 && k.identified == nil {
				rows += p.rows
			}
		}
		if x.begun = begun; rows > x.cfg.MaxWaited {
			many()
		}
		for _, p := range fresh {
			if err := x.readPeople(ctx, p); err != nil {
				return nil, err
			}
			known[p.identity], begun[p.identity] = p, p
		}
		if len(fresh) > 0 {
			continue // whether they were there until they had been read says the next look
		}
		parts, err := x.enliven(ctx, active.people, last)
		if errors.Is(err, errChanged) {
			continue
		}
		if err != nil {
			return nil, err
		}
		x.begun = nil
		return x.publish(active, parts, nil), nil
	}
	return nil, errUnsteady
}

// publish makes a snapshot the current one; like, when not nil, has the same people.
func (x *Index) publish(active *activeParts, parts []*part, like *Snapshot) *Snapshot {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.number++
	s := &Snapshot{Number: x.number, People: x.number, Unseen: active.unseen, Documents: active.documents, seen: active.seen, parts: parts, terms: &terms{}}
	if like != nil {
		s.People, s.terms = like.People, like.terms
	} else {
		x.kept.retain(parts)
	}
	x.snapshot = s
	return s
}

// activeParts are the parts of the table, the largest first, and what Snapshot has of the other tables.
type activeParts struct {
	people    []*part
	unseen    bool
	seen      string
	documents string
}

// active lists the parts that are there.
func (x *Index) active(ctx context.Context) (*activeParts, error) {
	a := &activeParts{unseen: true}
	total := uint64(0)
	var seen, others []string
	err := x.query(ctx, stepParts, planner.ActivePartsStatement(), func(rows driver.Rows) error {
		p := &part{}
		var n uint64
		var table string
		if err := rows.Scan(&table, &p.name, &p.identity, &n); err != nil {
			return err
		}
		switch table {
		case planner.SeenTable:
			a.unseen = a.unseen && n == 0
			seen = append(seen, p.identity)
			fallthrough
		case planner.DocumentsTable:
			others = append(others, p.identity)
			return nil
		}
		p.rows = int(n)
		total += n
		a.people = append(a.people, p)
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(a.people) == 0:
		return nil, fmt.Errorf("%w: the table has no parts on this server", ErrUnsupported)
	case total > uint64(x.cfg.MaxPeople) || total*8 > uint64(x.cfg.MaxBytes)/4: //nolint:gosec // positive
		return nil, fmt.Errorf("%w: %d people are too many to be held", ErrUnsupported, total)
	}
	slices.SortFunc(a.people, func(p, q *part) int {
		return cmp.Or(cmp.Compare(q.rows, p.rows), cmp.Compare(p.identity, q.identity))
	})
	slices.Sort(seen)
	slices.Sort(others)
	a.seen, a.documents = strings.Join(seen, "\n"), strings.Join(others, "\n")
	return a, nil
}

// readPeople reads who is in a part.
func (x *Index) readPeople(ctx context.Context, p *part) error {
	hashes := make([]uint64, 0, p.rows)
	var deleted []uint32
	var offset uint32
	var hash uint64
	var gone uint8
	err := x.query(ctx, stepPeople, planner.PeopleStatement(p.name), func(rows driver.Rows) error {
		if err := rows.Scan(&offset, &hash, &gone); err != nil {
			return err
		}
		if int(offset) < len(hashes) || int(offset) >= p.rows {
			return fmt.Errorf("postings: row %d of part %s after %d of %d", offset, p.name, len(hashes), p.rows)
		}
		for len(hashes) < int(offset) { // rows that were deleted from the part
			deleted = append(deleted, uint32(len(hashes))) //nolint:gosec // a part has fewer rows
			hashes = append(hashes, hash)                  // so that they stay in order
		}
		hashes = append(hashes, hash)
		if gone != 0 {
			deleted = append(deleted, offset)
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.hashes, p.size = hashes, len(hashes)
	if len(deleted) > 0 {
		p.deleted = make([]uint64, words(p.size))
		for _, row := range deleted {
			p.deleted[row>>6] |= 1 << (row & 63)
		}
	}
	for i := 1; i < len(hashes); i++ {
		if hashes[i] < hashes[i-1] {
			return fmt.Errorf("postings: part %s is not in the order of its hashes", p.name)
		}
	}
	return nil
}

// row is the first one of a hash, or where it would be.
func (p *part) row(hash uint64) int {
	return sort.Search(len(p.hashes), func(i int) bool { return p.hashes[i] >= hash })
}
