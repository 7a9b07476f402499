package search

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"muster/query-api/internal/readstore"
	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/clause"
	"muster/query-api/internal/search/cursor"
	"muster/query-api/internal/search/planner"
	"muster/query-api/internal/search/postings"
)

// MaxSize is the largest page (interface.md, Limits).
const MaxSize = 100

// DefaultSize is the page size of a request without one.
const DefaultSize = 10

// Config limits searches. Zero fields take their defaults.
type Config struct {
	// Timeout limits the ranking of a query. A query that exceeds it fails with [TooExpensiveError]. Default 3 s.
	Timeout time.Duration
	// Deadline limits a search as a whole, with its wait for other searches and with first-time reads. A search that
	// exceeds it fails with [OverloadedError] and can be retried. Default 8 s, at least Timeout.
	Deadline time.Duration
	// MaxMemory limits the memory of one statement in bytes; default 1 GiB.
	MaxMemory uint64
	// MaxRows limits the rows that one statement reads; default 200 million.
	MaxRows uint64
	// Concurrent limits the concurrent searches; others wait. A quarter of it limits the expensive ones, which have
	// slots of their own, as wide ones do. Default: twice the processors, at least 4.
	Concurrent int
	// Wide limits the concurrent wide searches, such as texts over all fields. Default: the processors divided by
	// Threads.
	Wide int
	// Threads limits the threads of a statement while no other search runs; only large tables use several. Default: the
	// processors, at most 4. A statement of an expensive search, or next to a cheap one, has one thread.
	Threads int
	// StatsAge is how long the document counts of fields and terms that scores use are cached; default 10 s, negative:
	// not at all. Counts that take longer than 20 ms are cached proportionally longer, those of terms up to six times.
	StatsAge time.Duration
	// SeparateCountMinHits is the number of hits from which the total has a statement of its own, if all people are in
	// one part and the query is cheap to match (planner.Dear); default 50,000. Counting while ranking needs all hits in
	// memory.
	SeparateCountMinHits int64
	// MinScoreMinHits is the number of hits from which non-competitive ones are skipped (planner.WorthFloor); default
	// 10,000. Ranking fewer takes no longer than finding the minimum score.
	MinScoreMinHits int64
	// SampleRate is the sample in which the minimum competitive score is found: one of SampleRate people. Default 32.
	SampleRate uint64
	// IndexBytes limits the memory of the in-memory index (package postings); default 256 MiB, negative: no index, SQL
	// ranks every page.
	IndexBytes int
}

// WithDefaults fills in the zero fields.
func (c Config) WithDefaults() Config {
	if c.Timeout <= 0 {
		c.Timeout = 3 * time.Second
	}
	if c.Deadline <= 0 {
		c.Deadline = 8 * time.Second
	}
	c.Deadline = max(c.Deadline, c.Timeout)
	if c.MaxMemory == 0 {
		c.MaxMemory = 1 << 30
	}
	if c.MaxRows == 0 {
		c.MaxRows = 200_000_000
	}
	if c.Concurrent <= 0 {
		c.Concurrent = max(4, 2*runtime.GOMAXPROCS(0))
	}
	if c.Threads <= 0 {
		c.Threads = min(4, runtime.GOMAXPROCS(0))
	}
	if c.Wide <= 0 {
		c.Wide = max(1, runtime.GOMAXPROCS(0)/c.Threads)
	}
	if c.SeparateCountMinHits <= 0 {
		c.SeparateCountMinHits = 50_000
	}
	if c.MinScoreMinHits <= 0 {
		c.MinScoreMinHits = 10_000
	}
	if c.SampleRate == 0 {
		c.SampleRate = 32
	}
	if c.StatsAge == 0 {
		c.StatsAge = 10 * time.Second
	}
	return c
}

// Deps are the dependencies of a Searcher. All fields but Registerer are required.
type Deps struct {
	Conn   driver.Conn
	Store  *readstore.Store
	Key    []byte // encrypts cursors, cursor.KeySize bytes
	Logger *slog.Logger
	Tracer trace.Tracer
	Now    func() time.Time
	// Registerer registers the metrics; nil: they are not registered.
	Registerer prometheus.Registerer
}

// Searcher executes searches. It is safe for concurrent use.
type Searcher struct {
	cfg       Config
	deps      Deps
	admission admission
	index     *postings.Index // nil: SQL ranks every page

	mu      sync.Mutex
	fields  map[string]fieldStats
	terms   map[string]termCount // by planner's keys
	repeats map[string]termCount // bits of the repeats of terms, by planner's keys
	// noIndexUntil is until when text indexes are not read as tables. On a cluster they cannot: they are in its nodes'
	// local tables.
	noIndexUntil time.Time
	searches     *prometheus.CounterVec
	bumps        bumpState
	parts        partsState
}

// New returns a Searcher. Close must be called.
func New(cfg Config, deps Deps) (*Searcher, error) {
	if len(deps.Key) != cursor.KeySize {
		return nil, fmt.Errorf("search: invalid cursor key: %d bytes, want %d", len(deps.Key), cursor.KeySize)
	}
	cfg = cfg.WithDefaults()
	s := &Searcher{
		cfg: cfg, deps: deps, admission: newAdmission(cfg.Concurrent, cfg.Wide), fields: make(map[string]fieldStats),
		terms: make(map[string]termCount), repeats: make(map[string]termCount),
	}
	if cfg.IndexBytes >= 0 {
		s.index = postings.New(postings.Config{
			MaxBytes: cfg.IndexBytes, MaxRows: int(min(cfg.MaxRows, math.MaxInt)) / 2, Loads: cfg.Threads,
		}, s.queryIndex, deps.Now)
	}
	if err := s.registerMetrics(); err != nil {
		s.Close()
		return nil, fmt.Errorf("search: metrics: %w", err)
	}
	return s, nil
}

// WarmUp starts to load in the background what many searches need.
func (s *Searcher) WarmUp() error {
	if s.index == nil {
		return nil
	}
	anywhere, err := clause.Lower(jsontext.Value(`{"multi_match":{"query":"a"}}`), "query",
		clause.Options{Now: s.deps.Now()})
	if err != nil {
		return fmt.Errorf("search: %w", err)
	}
	s.index.Begin(postings.Ahead{Node: anywhere, Then: func(ctx context.Context, snapshot *postings.Snapshot) error {
		if err := s.admission.waitIdle(ctx); err != nil {
			return err
		}
		ctx = (&slot{priority: expensivePriority}).newContext(ctx)
		return s.countFields(ctx, anywhere, nil, planner.NewStats(), snapshot.People)
	}})
	return nil
}

// Close stops background work and waits for it. The Searcher must not be used afterwards.
func (s *Searcher) Close() {
	if s.index != nil {
		s.index.Close()
	}
}

func (s *Searcher) registerMetrics() error {
	s.searches = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muster_query_api_searches_total",
		Help: "Pages of search by engine (index: the in-memory search index; sql: pages that the index cannot rank).",
	}, []string{"engine"})
	indexBytes := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "muster_query_api_search_index_bytes",
		Help: "Memory of the in-memory search index (limited by --search-index-memory).",
	}, func() float64 {
		if s.index == nil {
			return 0
		}
		return float64(s.index.Bytes())
	})
	if s.deps.Registerer == nil {
		return nil
	}
	return errors.Join(s.deps.Registerer.Register(s.searches), s.deps.Registerer.Register(indexBytes))
}

// Request is a search request.
type Request struct {
	Query  jsontext.Value
	Sort   jsontext.Value
	Source jsontext.Value
	Cursor string // empty: the first page
	Size   int
	// Timeout lowers the deadline; 0: it does not.
	Timeout time.Duration
	// Organization is the caller. A cursor is valid for one organization.
	Organization string
}

// Page is a page of results.
type Page struct {
	Total   int64
	Results [][]byte // JSON objects
	// ProfileIDs are the identities of Results, and Identifiers their other identifiers (metering.Used).
	ProfileIDs, Identifiers []string
	Next                    string // cursor of the next page; empty: this is the last one
}

// Search is a valid request. It can be run once.
type Search struct {
	searcher *Searcher
	request  Request
	node     algebra.Node
	sorts    []planner.Sort
	source   algebra.Source
	cursor   cursor.Cursor
	first    bool
	// addresses reports whether the query or the order names a field of e-mail addresses.
	addresses bool
	from      planner.People
	attempt   *attempt // nil: without a snapshot of the index
}

// Prepare validates a request without querying the store. Its errors are the caller's.
func (s *Searcher) Prepare(r Request) (*Search, error) {
	now := s.deps.Now()
	out := &Search{searcher: s, request: r, first: r.Cursor == "", cursor: cursor.Cursor{
		Query: cursor.Hash(r.Query, r.Sort, r.Organization), Text: cursor.TextHash(r.Query, r.Sort, r.Organization),
		Now: now.UnixMilli(),
	}}
	if !out.first {
		var err error
		if out.cursor, err = cursor.Decode(r.Cursor, out.cursor, now, s.deps.Key); err != nil {
			return nil, err
		}
		out.first = out.cursor.Begin
		if out.cursor.Stats == nil {
			out.cursor.Stats = new(planner.Stats) // Empty statistics are not encoded.
		}
	} else {
		var seed [8]byte
		_, _ = rand.Read(seed[:]) // never fails
		out.cursor.Seed = int64(binary.LittleEndian.Uint64(seed[:]) >> 1)
	}
	if out.first {
		out.cursor.Stats, out.cursor.Begin = planner.NewStats(), false
	}
	options := clause.Options{
		Now: time.UnixMilli(out.cursor.Now).UTC(), Seed: out.cursor.Seed,
		Named: func(f algebra.Field) { out.addresses = out.addresses || strings.Contains(f.Path, "email") },
	}
	var err, sortErr error
	out.sorts, sortErr = clause.Sorts(r.Sort, "sort", options)
	options.Unscored = sortErr == nil && !planner.Scored(out.sorts)
	if out.node, err = clause.Lower(r.Query, "query", options); err != nil {
		return nil, err
	}
	if sortErr != nil {
		return nil, sortErr
	}
	if out.source, err = clause.Source(r.Source, "_source"); err != nil {
		return nil, err
	}
	return out, nil
}

// Run computes the page. It returns a [*TooExpensiveError], an [*OverloadedError], readstore.ErrUnavailable, or the
// error of ctx.
func (s *Search) Run(ctx context.Context) (page *Page, err error) {
	ctx, span := s.searcher.deps.Tracer.Start(ctx, "search", trace.WithSpanKind(trace.SpanKindInternal))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, "search failed")
		}
		span.End()
	}()
	err = s.withSlot(ctx, func(ctx context.Context) (err error) {
		page, err = s.run(ctx)
		return err
	})
	return page, err
}

// withSlot waits for a slot and calls work, both within the deadline.
func (s *Search) withSlot(ctx context.Context, work func(context.Context) error) error {
	deadline := s.searcher.cfg.Deadline
	if s.request.Timeout > 0 {
		deadline = min(deadline, s.request.Timeout)
	}
	bounded, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	slot, err := s.searcher.admission.acquire(bounded, estimateCost(s.node, s.cursor.Stats))
	if err == nil {
		defer slot.release()
		err = work(slot.newContext(bounded))
	}
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.Is(err, errQueueTimeout):
		return &OverloadedError{fmt.Sprintf("the query waited %v for other expensive queries", deadline)}
	case errors.Is(err, context.DeadlineExceeded):
		if err := s.searcher.ping(ctx); err != nil {
			return err
		}
		if bounded.Err() == nil { // The limit of ranking ended it, not the deadline.
			return s.searcher.timeLimitError()
		}
		return &OverloadedError{fmt.Sprintf("the query was not answered within %v: words and fields that were not "+
			"searched recently are read first, and what was read is cached", deadline)}
	}
	return err
}

func (s *Search) run(ctx context.Context) (*Page, error) {
	s.from.Hidden = s.searcher.deps.Store.Hidden()
	engine := "index"
	attempt, ranked, err := s.searchIndex(ctx)
	if errors.Is(err, postings.ErrUnsupported) {
		engine = "sql"
		attempt = s.newAttempt(nil)
		ranked, err = attempt.searchSQL(ctx)
	}
	if err != nil {
		return nil, err
	}
	s.searcher.searches.WithLabelValues(engine).Inc()
	page := &Page{Total: attempt.cursor.Total}
	if page.Total == 0 {
		return page, nil
	}
	if err := attempt.render(ctx, page, ranked); err != nil {
		return nil, err
	}
	page.Next, err = attempt.nextCursor(ranked, s.cursor.Stats)
	return page, err
}

// render adds the documents of a page, filtered and with inner hits.
func (s *Search) render(ctx context.Context, page *Page, ranked *resultPage) error {
	inner, err := s.innerHits(ctx, ranked)
	if err != nil {
		return err
	}
	for i, d := range ranked.documents {
		if d.JSON == nil {
			continue // deleted since it was ranked
		}
		page.ProfileIDs = append(page.ProfileIDs, d.ProfileID)
		page.Identifiers = append(page.Identifiers, d.Identifiers...)
		result, err := sourceFilter(s.source).apply(d.JSON)
		if err != nil {
			return fmt.Errorf("search: filter document: %w", err)
		}
		if inner != nil {
			result = append(append(append(result[:len(result)-1:len(result)-1], ','), inner[i]...), '}')
		}
		page.Results = append(page.Results, result)
	}
	return nil
}

// nextCursor returns the cursor of the next page, empty after the last one. stats are those of the request's cursor.
func (s *Search) nextCursor(ranked *resultPage, stats *planner.Stats) (string, error) {
	next := s.cursor
	switch {
	case s.request.Size == 0 && s.first: // The next page is the first with hits.
		next.Stats, next.Expansions, next.Begin = nil, nil, true
	case s.request.Size == 0:
		return s.request.Cursor, nil
	case ranked.more:
		if !s.first { // All pages have the statistics of the first one.
			next.Stats = stats
		}
		next.After = ranked.hits[len(ranked.hits)-1]
	default:
		return "", nil
	}
	text, err := cursor.Encode(next, s.searcher.deps.Key)
	switch {
	case errors.Is(err, cursor.ErrTooLarge):
		return "", &TooExpensiveError{"the fuzzy words and prefixes of the query expand to more words than a cursor " +
			"can hold: lower max_expansions, or name fewer fields"}
	case err != nil:
		return "", fmt.Errorf("search: encode cursor: %w", err)
	}
	return text, nil
}

// CountsAddresses reports whether the request returns a total alone and names a field of e-mail addresses. Such calls
// are rate limited, since they would reveal addresses without a charge (rulings.md, Search).
func (s *Search) CountsAddresses() bool { return s.request.Size == 0 && s.addresses }
