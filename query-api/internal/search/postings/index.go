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

// Unavailable is the error of a table that cannot be searched at present. Reason is a sentence for the caller.
type Unavailable struct{ Reason string }

func (e *Unavailable) Error() string { return e.Reason }

// TooLarge is the error of a query that needs more memory than queries may, also if everything was read before.
type TooLarge struct{ Reason string }

func (e *TooLarge) Error() string { return e.Reason }

// errChanged says that a part went while it was read.
var errChanged = errors.New("postings: a part is gone")

// Config bounds an Index. Zero fields take their defaults.
type Config struct {
	// MaxBytes bounds what is cached, and what one query reads of it; default 256 MiB. Profile hashes take at most a
	// quarter of it: a table with more people is Unavailable.
	MaxBytes int
	// MaxPeople bounds the people of the table; default 10 million.
	MaxPeople int
	// Cluster returns the name of the cluster that the table is on, empty for a single server, and the shard of each of
	// its replicas ([planner.Replica.Number]); nil: there is none. An error is that of [Index.Latest].
	Cluster func(context.Context) (name string, shards []uint32, err error)
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
	if c.Cluster == nil {
		c.Cluster = func(context.Context) (string, []uint32, error) { return "", nil, nil }
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
	stepShared   = "shared"
)

// Shared says that a step reads for all queries that wait at the time, not for one.
func Shared(step string) bool {
	return step == stepParts || step == stepPeople || step == stepVersions || step == stepShared
}

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

	living  context.Context // until Close
	die     context.CancelFunc
	working sync.WaitGroup

	mu       sync.Mutex
	snapshot *Snapshot
	number   uint64
	next     *round // those who come now wait for it
	running  bool
	kept     cache
	// begun are parts that looks have read that came to no end. Only looks touch it.
	begun map[string]*part
	ahead *Ahead // nil: nothing is
	// isAhead are large parts of which it was read. Only looks touch it.
	isAhead map[string]bool
}

// New returns an Index that reads by query. Close must be called.
func New(cfg Config, query Query) *Index {
	cfg = cfg.withDefaults()
	x := &Index{cfg: cfg, query: query, kept: newCache(cfg.MaxBytes)}
	x.living, x.die = context.WithCancel(context.Background())
	for i := range x.loads {
		x.loads[i] = make(chan struct{}, cfg.Loads)
	}
	x.buffers.New = func() any { return &buffers{} }
	return x
}

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
	return s != nil && s.Documents == strings.Join(a.documents, "\n") && s.seen == strings.Join(a.seen, "\n") &&
		s.holds(a)
}

// holds says that the same parts of people are there.
func (s *Snapshot) holds(a *activeParts) bool {
	return s != nil && slices.EqualFunc(s.parts, a.people, samePart)
}

func samePart(a, b *part) bool { return a.identity == b.identity }

// part is a part of the table, and who lives in it.
type part struct {
	replica        planner.Replica
	name, identity string
	rows           int // as the server counts them
	size           int // the last offset and one
	hashes         []uint64
	deleted        []uint64       // bits of the rows of withdrawn records, nil where there are none
	twins          []uint64       // hashes that several rows have
	ids            map[int]string // profile ids of the rows of people who share a hash with others
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
	done     chan struct{}
	snapshot *Snapshot
	err      error
}

// Latest returns a snapshot no older than the call. It waits until the people of new parts have been read, or ctx ends;
// reading goes on then.
func (x *Index) Latest(ctx context.Context) (*Snapshot, error) {
	x.mu.Lock()
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

// look looks for the parts, again and again while calls wait for it. It goes on when their time is over: others need
// it.
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
		r.snapshot, r.err = x.read(ctx)
		cancel()
		var unavailable *Unavailable
		switch {
		case errors.As(r.err, &unavailable):
			x.mu.Lock()
			x.snapshot = nil
			x.kept.retain(nil)
			x.mu.Unlock()
		case errors.Is(r.err, context.DeadlineExceeded) && x.living.Err() == nil:
			r.err = &Unavailable{
				fmt.Sprintf(
					"search is not available: new profiles could not be read within %v, and are read on",
					SharedTimeout,
				),
			}
		}
		close(r.done)
		if r.err == nil {
			x.readAhead(r.snapshot)
		}
	}
}

// Close ends looks that are under way and waits for them. Nobody may ask any more.
func (x *Index) Close() {
	x.die()
	x.working.Wait()
}

// read reads which parts there are and, of new ones, who is in them, until the parts stay while it reads.
func (x *Index) read(ctx context.Context) (*Snapshot, error) {
	known := make(map[string]*part)
	if s := x.Current(); s != nil {
		for _, p := range s.parts {
			known[p.identity] = p
		}
	}
	maps.Copy(known, x.begun)
	for {
		active, err := x.active(ctx)
		if err != nil {
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
		begun := make(map[string]*part) // without those that are gone
		for i, p := range active.people {
			if k := known[p.identity]; k == nil {
				fresh = append(fresh, p)
			} else {
				active.people[i], begun[p.identity] = k, k
			}
		}
		x.begun = begun
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
}

// publish makes a snapshot the current one; like, when not nil, has the same people.
func (x *Index) publish(active *activeParts, parts []*part, like *Snapshot) *Snapshot {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.number++
	s := &Snapshot{
		Number:    x.number,
		People:    x.number,
		Unseen:    active.unseen,
		Documents: strings.Join(active.documents, "\n"),
		seen:      strings.Join(active.seen, "\n"),
		parts:     parts,
		terms:     &terms{},
	}
	if like != nil {
		s.People, s.terms = like.People, like.terms
	} else {
		x.kept.retain(parts)
	}
	x.snapshot = s
	return s
}

// activeParts are the parts of the table on a replica, the largest first, and those of the tables of newer versions and
// of documents.
type activeParts struct {
	people          []*part
	rows            uint64
	unseen          bool
	seen, documents []string
}

// active lists the parts that are there: on a cluster those of one replica of each shard, the last one while it
// answers.
func (x *Index) active(ctx context.Context) (*activeParts, error) {
	cluster, shards, err := x.cfg.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	if cluster == "" {
		shards = []uint32{0}
	}
	replicas := make([]*activeParts, len(shards)) // nil: it does not answer
	if cluster == "" {
		replicas[0] = &activeParts{unseen: true}
	}
	err = x.query(ctx, stepParts, planner.PartsStatement(cluster), func(rows driver.Rows) error {
		p := &part{replica: planner.Replica{Cluster: cluster}}
		var n uint64
		var table string
		if err := rows.Scan(&table, &p.name, &p.identity, &n, &p.replica.Number); err != nil {
			return err
		}
		i := int(max(p.replica.Number, 1)) - 1
		if i >= len(replicas) {
			return errChanged // the cluster has grown
		}
		if replicas[i] == nil {
			replicas[i] = &activeParts{unseen: true}
		}
		replicas[i].add(table, p, n)
		return nil
	})
	if err != nil {
		return nil, err
	}
	a, err := x.chosen(replicas, shards)
	if err != nil {
		return nil, err
	}
	if a.rows > x.maxPeople() {
		return nil, &Unavailable{
			Reason: fmt.Sprintf("search is not available: the table has rows for %d profiles, and the "+
				"search index holds %d: its operator can raise --search-index-memory, up to %d profiles", a.rows, x.maxPeople(),
				x.cfg.MaxPeople),
		}
	}
	slices.SortFunc(a.people, func(p, q *part) int {
		return cmp.Or(cmp.Compare(q.rows, p.rows), cmp.Compare(p.identity, q.identity))
	})
	slices.Sort(a.seen)
	slices.Sort(a.documents)
	return a, nil
}

// add adds a part of a table; a row without a table has none.
func (a *activeParts) add(table string, p *part, rows uint64) {
	switch table {
	case planner.SeenTable:
		a.unseen = a.unseen && rows == 0
		a.seen = append(a.seen, p.identity)
		a.documents = append(a.documents, p.identity)
	case planner.DocumentsTable:
		a.documents = append(a.documents, p.identity)
	case planner.PeopleTable:
		p.rows = int(rows) //nolint:gosec // a part has fewer
		a.rows += rows
		a.people = append(a.people, p)
	}
}

// chosen puts the parts of one replica of each shard together.
func (x *Index) chosen(replicas []*activeParts, shards []uint32) (*activeParts, error) {
	last := make(map[int]bool) // replicas by index
	if s := x.Current(); s != nil {
		for _, p := range s.parts {
			last[int(max(p.replica.Number, 1))-1] = true
		}
	}
	best := make(map[uint32]int) // by shard
	for i, shard := range shards {
		b, have := best[shard]
		switch a := replicas[i]; {
		case a == nil:
		case !have, last[i] && !last[b], last[i] == last[b] && a.rows > replicas[b].rows:
			best[shard] = i
		}
	}
	all := &activeParts{unseen: true}
	for _, shard := range slices.Compact(slices.Sorted(slices.Values(shards))) {
		i, ok := best[shard]
		if !ok {
			return nil, &Unavailable{
				Reason: fmt.Sprintf("search is not available: no replica of shard %d answers", shard),
			}
		}
		a := replicas[i]
		all.people, all.rows = append(all.people, a.people...), all.rows+a.rows
		all.unseen = all.unseen && a.unseen
		all.seen, all.documents = append(all.seen, a.seen...), append(all.documents, a.documents...)
	}
	return all, nil
}

// maxPeople is the number of rows that the table may have.
func (x *Index) maxPeople() uint64 {
	return uint64(min(x.cfg.MaxPeople, x.cfg.MaxBytes/4/8)) //nolint:gosec // positive
}

// readPeople reads who is in a part.
func (x *Index) readPeople(ctx context.Context, p *part) error {
	hashes := make([]uint64, 0, p.rows)
	var deleted []uint32
	var offset uint32
	var hash, last uint64
	var gone uint8
	people := 0
	err := x.query(ctx, stepPeople, p.replica.Read(planner.PeopleStatement(p.name)), func(rows driver.Rows) error {
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
		if people++; people > 1 && hash == last {
			p.twins = append(p.twins, hash)
		}
		hashes, last = append(hashes, hash), hash
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
