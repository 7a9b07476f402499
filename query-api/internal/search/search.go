package search

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"muster/platform/opensearch"
	"muster/query-api/internal/readstore"
	"muster/query-api/internal/search/aggregation"
	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/clause"
	"muster/query-api/internal/search/cursor"
	"muster/query-api/internal/search/latest"
	"muster/query-api/internal/search/planner"
	"muster/query-api/internal/search/postings"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// MaxSize is the largest page (interface.md, Limits).
const MaxSize = 100

// MaxWindow is the maximum of from + size.
const MaxWindow = 10_000

// DefaultSize is the default page size.
const DefaultSize = 10

// Config bounds searches. Zero fields take their defaults.
type Config struct {
	// Timeout bounds the ranking of one query; a query that exceeds it is rejected. Default 3 s.
	Timeout time.Duration
	// Deadline bounds a whole search, including waiting for others and reading data into the index; a search that
	// exceeds it can be retried. Default 8 s, at least Timeout.
	Deadline time.Duration
	// MaxMemory bounds the memory of one statement in bytes; default 1 GiB.
	MaxMemory uint64
	// Concurrent bounds the number of concurrent searches. Expensive ones, bounded by a quarter of it, and wide ones
	// count separately. Default: twice the processors, at least 4.
	Concurrent int
	// Wide bounds the number of concurrent searches above the usual cost, such as texts over all fields. Default: one
	// for each Threads processors.
	Wide int
	// Threads is the maximum number of threads of a statement while no other search runs; default: the processors, at
	// most 4. It is 1 while other cheap searches run, and for expensive ones.
	Threads int
	// StatsAge is how long the field and term counts that scores use are cached while the table changes; default 10 s,
	// negative: not at all. Counts that take longer than 20 ms are cached proportionally longer, those of terms at most
	// six times.
	StatsAge time.Duration
	// IndexBytes bounds the in-memory index and what one query reads of it, in bytes; default 256 MiB.
	IndexBytes int
}

// WithDefaults returns c with zero fields set to their defaults.
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
	if c.Concurrent <= 0 {
		c.Concurrent = max(4, 2*runtime.GOMAXPROCS(0))
	}
	if c.Threads <= 0 {
		c.Threads = min(4, runtime.GOMAXPROCS(0))
	}
	if c.Wide <= 0 {
		c.Wide = max(1, runtime.GOMAXPROCS(0)/c.Threads)
	}
	if c.StatsAge == 0 {
		c.StatsAge = 10 * time.Second
	}
	if c.IndexBytes <= 0 {
		c.IndexBytes = postings.DefaultBytes
	}
	return c
}

// Deps are the dependencies of a Searcher. All but Beside, OpenSearch and Registerer are required.
type Deps struct {
	// Collection is what is searched.
	Collection readmodel.SearchCollection
	// Documents reads the documents of a page, and Hidden returns the hashes of those that are not to be found although
	// their rows are still stored (readstore.Store).
	Documents func(context.Context, []readstore.DocumentKey, readstore.AsOf) ([]readstore.Document, error)
	Hidden    func() []uint64
	// Beside, if set, is a Searcher that has the limits of concurrent searches in common.
	Beside *Searcher

	Conn   driver.Conn
	Store  *readstore.Store
	Key    []byte // of cursors, cursor.KeySize bytes
	Logger *slog.Logger
	Tracer trace.Tracer
	Now    func() time.Time
	// OpenSearch executes searches instead of the in-memory index; nil: the index does.
	// DocumentKey is the key of its document IDs (searchindex.DocumentID).
	OpenSearch  *opensearch.Client
	DocumentKey []byte
	// Registerer takes the metrics; nil registers none.
	Registerer prometheus.Registerer
}

// Searcher answers searches. It is safe for concurrent use.
type Searcher struct {
	cfg        Config
	deps       Deps
	collection *readmodel.SearchCollection
	admission  admission
	index      *postings.Index // nil with OpenSearch
	remote     *cluster        // nil without it

	mu     sync.Mutex
	fields map[string]fieldStats
	layout *readmodel.Layout // nil: not read yet
	pages  prometheus.Counter
}

// New returns a Searcher. Close must be called.
func New(cfg Config, deps Deps) (*Searcher, error) {
	if len(deps.Key) != cursor.KeySize {
		return nil, fmt.Errorf("search: the cursor key has %d bytes, not %d", len(deps.Key), cursor.KeySize)
	}
	cfg = cfg.WithDefaults()
	s := &Searcher{
		cfg:        cfg,
		deps:       deps,
		collection: &deps.Collection,
		admission:  newAdmission(cfg.Concurrent, cfg.Wide),
		fields:     make(map[string]fieldStats),
		remote:     newCluster(deps),
	}
	if deps.Beside != nil {
		s.admission = deps.Beside.admission
	}
	if s.remote != nil {
		s.remote.documents = latest.New(s.readDocumentState, nil)
	} else {
		s.index = postings.New(postings.Config{
			Collection: s.collection, MaxBytes: cfg.IndexBytes, Loads: cfg.Threads, Cluster: s.cluster,
		}, s.readIndex)
	}
	if err := s.measure(); err != nil {
		s.Close()
		return nil, fmt.Errorf("search: metrics: %w", err)
	}
	return s, nil
}

// Kind returns the kind of records that are searched.
func (s *Searcher) Kind() record.Kind { return s.collection.Kind }

// WarmUp reads data that many searches need.
func (s *Searcher) WarmUp() error {
	if s.remote != nil {
		return nil
	}
	anywhere, err := clause.Lower(
		jsontext.Value(`{"multi_match":{"query":"a"}}`), "query", clause.Options{Collection: s.collection, Now: s.deps.Now()},
	)
	if err != nil {
		return fmt.Errorf("search: %w", err)
	}
	s.index.WarmUp(postings.Prefetch{Node: anywhere, Then: func(ctx context.Context, snapshot *postings.Snapshot) error {
		if err := s.admission.waitIdle(ctx); err != nil {
			return err
		}
		ctx = (&slot{priority: expensivePriority}).newContext(ctx)
		return s.countFields(ctx, anywhere, nil, planner.NewStats(), snapshot.People)
	}})
	return nil
}

// Close cancels background work and waits for it. The Searcher must not be used afterwards.
func (s *Searcher) Close() {
	if s.index != nil {
		s.index.Close()
	}
	if s.remote != nil {
		s.remote.documents.Close()
	}
}

// measure registers the metrics.
func (s *Searcher) measure() error {
	of := prometheus.Labels{"collection": s.collection.Name}
	s.pages = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "muster_query_api_searches_total", Help: "Pages of search, by collection: people or companies.",
		ConstLabels: of,
	})
	held := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "muster_query_api_search_index_bytes",
		Help: "Memory of the in-memory search index of a collection, without the hashes of IDs (limited by " +
			"--search-index-memory).",
		ConstLabels: of,
	}, func() float64 { return float64(s.index.Bytes()) })
	if s.deps.Registerer == nil {
		return nil
	}
	if s.remote != nil {
		return s.deps.Registerer.Register(s.pages)
	}
	return errors.Join(s.deps.Registerer.Register(s.pages), s.deps.Registerer.Register(held))
}

// Request is a search request.
type Request struct {
	Query  jsontext.Value
	Sort   jsontext.Value
	Source jsontext.Value
	// Aggregations are those of all people who match. Name is that of the field, aggs or aggregations.
	Aggregations     jsontext.Value
	AggregationsName string
	Collapse         jsontext.Value
	Highlight        jsontext.Value
	Cursor           string // empty: the first page
	// From is the number of results before the page; 0 with a cursor.
	From, Size int
	// TrackScores returns scores even if the order does not depend on them.
	TrackScores bool
	// Timeout lowers the deadline; 0: no change.
	Timeout time.Duration
	// Organization is the caller: cursors are not valid for others.
	Organization string
}

// Page is a response.
type Page struct {
	Total   int64
	Results [][]byte // JSON objects
	// Aggregations is a JSON object; nil: none were requested.
	Aggregations []byte
	// IDs are the IDs of Results, and Identifiers the identifiers of people (metering.Used).
	IDs, Identifiers []string
	Next             string // empty: the last page
}

// Search is a valid request.
type Search struct {
	searcher *Searcher
	request  Request
	node     algebra.Node
	sorts    []planner.Sort
	source   algebra.Source
	cursor   cursor.Cursor
	first    bool
	// addresses: the query or the order uses a field of email addresses.
	addresses    bool
	aggregations []aggregation.Aggregation
	collapse     *algebra.Field // nil: none
	named        []namedClause
	highlights   []algebra.Highlight
	parsed       algebra.Node // node before its expansion
}

// namedClause is a clause with a _name.
type namedClause struct {
	name string
	node algebra.Node
}

// scored reports whether results have scores.
func (s *Search) scored() bool { return s.request.TrackScores || planner.Scored(s.sorts) }

// Prepare validates a request without reading the store. Its errors are the caller's.
func (s *Searcher) Prepare(r Request) (*Search, error) {
	now := s.deps.Now()
	owner := s.cursorOwner(r.Organization)
	if r.TrackScores { // The first page counts what scores need.
		owner += "\x00scores"
	}
	out := &Search{searcher: s, request: r, first: r.Cursor == "", cursor: cursor.Cursor{
		Query: cursor.Hash(r.Query, r.Sort, owner), Now: now.UnixMilli(),
	}}
	if !out.first {
		var err error
		if out.cursor, err = cursor.Decode(r.Cursor, out.cursor, now, s.deps.Key); err != nil {
			return nil, err
		}
		out.first = out.cursor.Begin
		if out.cursor.Stats == nil {
			out.cursor.Stats = new(planner.Stats) // empty values are not in a cursor
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
		Collection: s.collection, Now: time.UnixMilli(out.cursor.Now).UTC(), Seed: out.cursor.Seed,
		Named: func(f algebra.Field) { out.addresses = out.addresses || strings.Contains(f.Path, "email") },
	}
	var err, inSort error
	out.sorts, inSort = clause.Sorts(r.Sort, "sort", options)
	options.Unscored = inSort == nil && !out.scored()
	inQuery := options
	inQuery.NamedClause = func(name string, n algebra.Node) {
		out.named = slices.DeleteFunc(out.named, func(c namedClause) bool { return c.name == name })
		out.named = append(out.named, namedClause{name, n})
	}
	if out.node, err = clause.Lower(r.Query, "query", inQuery); err != nil {
		return nil, err
	}
	if inSort != nil {
		return nil, inSort
	}
	if out.source, err = clause.Source(r.Source, "_source"); err != nil {
		return nil, err
	}
	out.parsed = out.node
	if out.highlights, err = clause.Highlight(r.Highlight, "highlight", out.node, options); err != nil {
		return nil, err
	}
	if out.collapse, err = clause.Collapse(r.Collapse, "collapse", options); err != nil {
		return nil, err
	}
	out.aggregations, err = clause.Aggregations(r.Aggregations, cmp.Or(r.AggregationsName, "aggs"), options)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Run reads the page. Errors are a [*TooExpensiveError], a [*OverloadedError], an [*Unavailable],
// readstore.ErrUnavailable, or the end of ctx.
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

// withSlot runs work in a slot of its class, until the deadline.
func (s *Search) withSlot(ctx context.Context, work func(context.Context) error) error {
	deadline := s.searcher.cfg.Deadline
	if s.request.Timeout > 0 {
		deadline = min(deadline, s.request.Timeout)
	}
	bounded, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	slot, err := s.searcher.admission.acquire(bounded, s.cost())
	if err == nil {
		defer slot.release()
		err = work(slot.newContext(bounded))
	}
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.Is(err, errQueueTimeout):
		return errOverloaded(deadline)
	case errors.Is(err, context.DeadlineExceeded):
		if err := s.searcher.ping(ctx); err != nil {
			return err
		}
		if bounded.Err() == nil { // the limit of ranking ended it, not the deadline
			return s.searcher.timeLimitError()
		}
		if s.searcher.remote != nil {
			return &OverloadedError{fmt.Sprintf("the search cluster did not answer within %v", deadline)}
		}
		return &OverloadedError{fmt.Sprintf("the query was not answered within %v: words and fields that were not "+
			"searched recently are read first, and stay cached", deadline)}
	}
	return err
}

func (s *Search) run(ctx context.Context) (*Page, error) {
	asked := *s
	r, err := s.execute(ctx)
	if err != nil {
		return nil, err
	}
	s.searcher.pages.Inc()
	page := &Page{Total: s.cursor.Total}
	if len(s.aggregations) > 0 {
		page.Aggregations, err = aggregation.Append(nil, s.aggregations, r.aggregations)
		var repeated *aggregation.RepeatedKeyError
		if errors.As(err, &repeated) {
			return nil, &TooExpensiveError{repeated.Error()}
		}
		if err != nil {
			return nil, fmt.Errorf("search: aggregations: %w", err)
		}
	}
	if page.Total == 0 {
		return page, nil
	}
	if err := s.appendResults(page, r); err != nil { //nolint:contextcheck // patterns are matched with words of a page
		return nil, err
	}
	if s.collapse != nil { // A group of a later page may have been on an earlier one.
		return page, nil
	}
	switch next := s.cursor; {
	// the rest of the walk
	case s.request.Size == 0 && s.first:
		next.Stats, next.Expansions, next.Begin = nil, nil, true
		page.Next, err = cursor.Encode(next, s.searcher.deps.Key)
	case s.request.Size == 0:
		page.Next = s.request.Cursor // the number stays
	case r.more:
		if !s.first { // that of the walk
			next.Stats = asked.cursor.Stats
		}
		next.After = r.places[len(r.places)-1]
		page.Next, err = cursor.Encode(next, s.searcher.deps.Key)
		if errors.Is(err, cursor.ErrTooLarge) {
			return nil, &TooExpensiveError{
				"the query's fuzzy words and prefixes expand to too many terms for a cursor: lower max_expansions, or " +
					"name fewer fields",
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("search: encode cursor: %w", err)
	}
	return page, nil
}

// Aggregates reports whether the response has aggregations. Such calls are limited, since they are free (rulings.md,
// Search).
func (s *Search) Aggregates() bool { return len(s.aggregations) > 0 }

// NamesAddresses reports whether the query names email addresses, also by a pattern or as one of all fields. Its
// explanation reveals whether terms exist.
func (s *Search) NamesAddresses() bool { return s.addresses }

// CountsAddresses reports whether the response may be only the total of a query on email addresses: without results,
// or with those after the last one. Such calls are limited, since they probe addresses for free (rulings.md, Search).
func (s *Search) CountsAddresses() bool {
	return s.addresses && (s.request.Size == 0 || s.request.From > 0)
}
