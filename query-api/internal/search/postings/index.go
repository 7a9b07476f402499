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

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/platform/clickhouse"
	"muster/query-api/internal/search/latest"
	"muster/query-api/internal/search/planner"
	"muster/schemas/readmodel"
)

// Unavailable is the error of a table that cannot be searched at present. Reason is a sentence for the caller.
type Unavailable struct{ Reason string }

func (e *Unavailable) Error() string { return e.Reason }

// TooLarge is the error of a query that needs more memory than one query may use, even if everything is cached.
type TooLarge struct{ Reason string }

func (e *TooLarge) Error() string { return e.Reason }

// errChanged means that a part disappeared while it was read, or that its replica cannot be reached.
var errChanged = errors.New("postings: part no longer exists")

// Config bounds an Index. Zero fields take their defaults.
type Config struct {
	// Collection is what is indexed. Required.
	Collection *readmodel.SearchCollection
	// MaxBytes bounds the cache, and what one query reads; default 256 MiB. Profile hashes take at most a quarter of
	// it: a table with more people is Unavailable.
	MaxBytes int
	// MaxPeople bounds the people of the table; default 10 million.
	MaxPeople int
	// Cluster returns the name of the table's cluster, empty for a single server, and the shard of each of its replicas
	// ([planner.Replica.Number]). Nil means a single server. [Index.Latest] returns its errors.
	Cluster func(context.Context) (name string, shards int, err error)
	// Loads is the maximum number of queries that read concurrently; default 2. The same number may read in the
	// background.
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
		c.Cluster = func(context.Context) (string, int, error) { return "", 1, nil }
	}
	if c.Loads <= 0 {
		c.Loads = 2
	}
	return c
}

// The steps whose results all queries share.
const (
	stepParts    = "parts"
	stepPeople   = "people"
	stepVersions = "versions"
	stepShared   = "shared"
)

// Shared reports whether a step reads for all waiting queries rather than for one.
func Shared(step string) bool {
	return step == stepParts || step == stepPeople || step == stepVersions || step == stepShared
}

// SharedTimeout is the time limit of a refresh, with reading new parts.
const SharedTimeout = 20 * time.Second

// Query runs a statement and calls scan for each row. step is its name in traces.
type Query func(ctx context.Context, step string, statement planner.Statement, scan func(driver.Rows) error) error

// Index is the in-memory index. It is safe for concurrent use.
type Index struct {
	cfg       Config
	query     Query
	loads     [2]chan struct{} // of queries, and of the background
	finishing atomic.Bool      // a timed-out load is being finished
	// The numbers of leaves and lengths that a statement reads.
	leafBatch, lengthBatch batchSize
	// buffers are scratch space of rankings.
	buffers sync.Pool

	lifetime context.Context // until Close
	stop     context.CancelFunc
	working  sync.WaitGroup

	refreshes *latest.Reader[*Snapshot]

	mu       sync.Mutex
	snapshot *Snapshot
	number   uint64
	cache    cache
	// begun are parts that failed refreshes have read. Only refreshes touch it.
	begun       map[string]*part
	prefetching *Prefetch // nil: disabled
	// prefetched are the large parts that were prefetched. Only refreshes touch it.
	prefetched map[string]bool
}

// New returns an Index that reads by query. Close must be called.
func New(cfg Config, query Query) *Index {
	cfg = cfg.withDefaults()
	ofCollection := func(ctx context.Context, step string, s planner.Statement, scan func(driver.Rows) error) error {
		err := query(ctx, step, s.Of(cfg.Collection), scan)
		if s.OneReplica && unreachable(err) {
			select { // of attempts in a loop
			case <-time.After(unreachablePause):
			case <-ctx.Done():
			}
			return fmt.Errorf("%w: its replica cannot be reached: %w", errChanged, err)
		}
		return err
	}
	x := &Index{
		cfg: cfg, query: ofCollection, cache: newCache(cfg.MaxBytes),
		leafBatch: batchSize{most: maxLeavesPerStatement}, lengthBatch: batchSize{most: maxLengthsPerStatement},
	}
	x.lifetime, x.stop = context.WithCancel(context.Background())
	x.refreshes = latest.New(x.refresh, x.prefetch)
	for i := range x.loads {
		x.loads[i] = make(chan struct{}, cfg.Loads)
	}
	x.buffers.New = func() any { return &buffers{} }
	return x
}

// unreachablePause is the time between a statement whose replica cannot be reached and listing the parts again, which
// finds another replica unless this one responds.
const unreachablePause = 100 * time.Millisecond

// unreachable reports whether a statement failed because its replica cannot be reached.
func unreachable(err error) bool {
	code, ok := clickhouse.CodeOf(err)
	return ok && slices.Contains([]clickhouse.Code{
		proto.ErrAllConnectionTriesFailed, proto.ErrNoRemoteShardAvailable, proto.ErrNetworkError, proto.ErrSocketTimeout,
		proto.ErrAttemptToReadAfterEOF, proto.ErrDNSError,
	}, code)
}

// Snapshot is the parts of the table at an instant.
type Snapshot struct {
	// Number identifies a snapshot of an Index.
	Number uint64
	// People is the Number of the first snapshot with the same people and linked accounts.
	People uint64
	// Unseen: no person has a version that is newer than its content.
	Unseen bool
	// Documents identifies the state of the documents of people.
	Documents string
	seen      string // identifies the state of the newer versions
	linked    string // identifies the state of the linked accounts; not empty
	parts     []*part
	terms     *terms
}

// equals reports whether both snapshots have the same parts.
func (s *Snapshot) equals(a *activeParts) bool {
	return s != nil && s.Documents == strings.Join(a.documents, "\n") && s.seen == strings.Join(a.seen, "\n") &&
		s.linked == a.linkedState() && s.holds(a)
}

// holds reports whether the snapshot has the given parts of people.
func (s *Snapshot) holds(a *activeParts) bool {
	return s != nil && slices.EqualFunc(s.parts, a.people, samePart)
}

func samePart(a, b *part) bool { return a.identity == b.identity }

// part is a part of the table with its live documents.
type part struct {
	replica        planner.Replica
	name, identity string
	rows           int  // as counted by the server
	size           int  // the last offset plus one
	masked         bool // rows were deleted from it
	hashes         []uint64
	deleted        []uint64       // bits of the rows of deleted records, which have no texts; nil if there are none
	twins          []uint64       // hashes that several rows have
	ids            map[int]string // profile IDs of the rows of people who share a hash with others
	identified     *identities
	alive          []uint64 // bits of the live rows, nil if all are live
}

// identities identify the versions of the people of a part.
type identities struct {
	seconds  []uint64
	versions []int64
	contents []uint64
}

// Current returns the newest cached snapshot, nil if there is none.
func (x *Index) Current() *Snapshot {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.snapshot
}

// Bytes returns the approximate size of the cache, without the people of the parts.
func (x *Index) Bytes() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cache.size
}

// Latest returns a snapshot no older than the call. It waits until the people of new parts have been read or ctx ends.
// Reading continues in the background, since later calls need it.
func (x *Index) Latest(ctx context.Context) (*Snapshot, error) { return x.refreshes.Begin().Wait(ctx) }

// refresh returns the newest snapshot.
func (x *Index) refresh(ctx context.Context) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, SharedTimeout)
	defer cancel()
	s, err := x.read(ctx)
	var unavailable *Unavailable
	switch {
	case errors.As(err, &unavailable):
		x.mu.Lock()
		x.snapshot = nil
		x.cache.retain(nil, "")
		x.mu.Unlock()
	case errors.Is(err, context.DeadlineExceeded) && x.lifetime.Err() == nil:
		err = &Unavailable{
			fmt.Sprintf(
				"search is not available: new %s could not be read within %v, and reading continues",
				x.cfg.Collection.Name, SharedTimeout,
			),
		}
	}
	return s, err
}

// Close cancels background work and waits for it. The Index must not be used afterwards.
func (x *Index) Close() {
	x.stop()
	x.refreshes.Close()
	x.working.Wait()
}

// read lists the parts and reads the people of new ones, until the list does not change meanwhile.
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
		begun := make(map[string]*part) // without parts that no longer exist
		for i, p := range active.people {
			if k := known[p.identity]; k == nil {
				fresh = append(fresh, p)
			} else {
				active.people[i], begun[p.identity] = k, k
			}
		}
		x.begun = begun
		for _, p := range fresh {
			if err := x.readPeople(ctx, p); errors.Is(err, errChanged) {
				break
			} else if err != nil {
				return nil, err
			}
			known[p.identity], begun[p.identity] = p, p
		}
		if len(fresh) > 0 {
			// The next refresh checks whether they existed until they had been read.
			continue
		}
		parts, err := x.resolveLiveDocs(ctx, active.people, last)
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

// publish makes a snapshot the current one. like, unless nil, has the same people.
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
		linked:    active.linkedState(),
		parts:     parts,
		terms:     &terms{},
	}
	if like != nil && like.linked == s.linked {
		s.People, s.terms = like.People, like.terms
	} else {
		x.cache.retain(parts, s.linked)
	}
	x.snapshot = s
	return s
}

// activeParts are the parts of the table on a replica, the largest first, and those of the tables of newer versions, of
// documents and of linked accounts.
type activeParts struct {
	people                  []*part
	rows                    uint64
	unseen                  bool
	seen, documents, linked []string
}

// linkedState identifies the state of the linked accounts. It is not empty without any: the cache keeps data without a
// state as long as its part.
func (a *activeParts) linkedState() string { return "parts\n" + strings.Join(a.linked, "\n") }

// active lists the existing parts. On a cluster of one shard it reads one replica, the same one as before while it
// responds.
func (x *Index) active(ctx context.Context) (*activeParts, error) {
	cluster, shards, err := x.cfg.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	if shards > 1 {
		return nil, &Unavailable{
			Reason: fmt.Sprintf("search is not available: its tables have %d shards, and the search index in memory "+
				"serves one: its operator has to set OPENSEARCH_URL, or use one shard", shards),
		}
	}
	replicas := map[uint32]*activeParts{} // those that respond
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
		a := replicas[p.replica.Number]
		if a == nil {
			a = &activeParts{unseen: true}
			replicas[p.replica.Number] = a
		}
		a.add(x.cfg.Collection, table, p, n)
		return nil
	})
	if err != nil {
		return nil, err
	}
	a := x.chosen(replicas)
	if a == nil {
		return nil, &Unavailable{Reason: "search is not available: no replica of ClickHouse answers"}
	}
	if a.rows > x.maxPeople() {
		return nil, &Unavailable{
			Reason: fmt.Sprintf("search is not available: the table has rows for %d %s, and the "+
				"search index holds %d: its operator can raise --search-index-memory, up to %d",
				a.rows, x.cfg.Collection.Name, x.maxPeople(), x.cfg.MaxPeople),
		}
	}
	slices.SortFunc(a.people, func(p, q *part) int {
		return cmp.Or(cmp.Compare(q.rows, p.rows), cmp.Compare(p.identity, q.identity))
	})
	slices.Sort(a.seen)
	slices.Sort(a.documents)
	slices.Sort(a.linked)
	return a, nil
}

// add adds a part of a table. A row without a table adds only the replica.
func (a *activeParts) add(c *readmodel.SearchCollection, table string, p *part, rows uint64) {
	switch table {
	case planner.SeenTable:
		a.unseen = a.unseen && rows == 0
		a.seen = append(a.seen, p.identity)
		a.documents = append(a.documents, p.identity)
	case c.Documents:
		a.documents = append(a.documents, p.identity)
	case c.LinkedTable:
		a.linked = append(a.linked, p.identity)
	case c.Table:
		p.rows = int(rows) //nolint:gosec // a part has fewer
		a.rows += rows
		a.people = append(a.people, p)
	}
}

// chosen returns the parts of the replica that was read before or, if it does not respond, of that with the most rows;
// nil if none responds.
func (x *Index) chosen(replicas map[uint32]*activeParts) (best *activeParts) {
	if s := x.Current(); s != nil && len(s.parts) > 0 {
		if a := replicas[s.parts[0].replica.Number]; a != nil {
			return a
		}
	}
	for _, number := range slices.Sorted(maps.Keys(replicas)) {
		if a := replicas[number]; best == nil || a.rows > best.rows {
			best = a
		}
	}
	return best
}

// maxPeople returns the maximum number of rows of the table.
func (x *Index) maxPeople() uint64 {
	return uint64(min(x.cfg.MaxPeople, x.cfg.MaxBytes/4/8)) //nolint:gosec // positive
}

// readPeople reads the people of a part.
func (x *Index) readPeople(ctx context.Context, p *part) error {
	hashes := make([]uint64, 0, p.rows)
	var deleted []uint32
	var offset uint32
	var hash, last uint64
	var isDeleted uint8
	people := 0
	err := x.query(ctx, stepPeople, p.replica.Read(planner.PeopleStatement(p.name)), func(rows driver.Rows) error {
		if err := rows.Scan(&offset, &hash, &isDeleted); err != nil {
			return err
		}
		if int(offset) < len(hashes) || int(offset) >= p.rows {
			return fmt.Errorf("postings: row %d of part %s after %d of %d", offset, p.name, len(hashes), p.rows)
		}
		for len(hashes) < int(offset) { // rows that were deleted from the part
			p.masked = true
			deleted = append(deleted, uint32(len(hashes))) //nolint:gosec // a part has fewer rows
			hashes = append(hashes, hash)                  // keeps the order
		}
		if people++; people > 1 && hash == last {
			p.twins = append(p.twins, hash)
		}
		hashes, last = append(hashes, hash), hash
		if isDeleted != 0 {
			deleted = append(deleted, offset)
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.hashes, p.size = hashes, len(hashes)
	p.masked = p.masked || p.size < p.rows
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

// row returns the first row of a hash, or its insertion point.
func (p *part) row(hash uint64) int {
	return sort.Search(len(p.hashes), func(i int) bool { return p.hashes[i] >= hash })
}
