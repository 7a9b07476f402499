package search

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/ext"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"muster/platform/clickhouse"
	"muster/query-api/internal/readstore"
	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/clause"
	"muster/query-api/internal/search/cursor"
	"muster/query-api/internal/search/planner"
)

// MaxSize is the largest page (interface.md, Limits).
const MaxSize = 100

// DefaultSize is the size of a page that does not say.
const DefaultSize = 10

// Config bounds searches. Zero fields take their defaults.
type Config struct {
	// Timeout bounds one search, its wait for others included; default 1.5 s, which
	// leaves a statement that does not stop at once time to be over within 2 s.
	Timeout time.Duration
	// MaxMemory bounds the memory of one statement in bytes; default 1 GiB.
	MaxMemory uint64
	// MaxRows bounds the rows that one statement reads; default 200 million.
	MaxRows uint64
	// Concurrent bounds the searches that run at once, and a quarter of it those
	// of the expensive ones, which count extra, as the wide ones do; the others wait.
	// Default: twice the processors, at least 4.
	Concurrent int
	// Wide bounds the searches of more than usual weight that run at once, such as texts over all fields; default: as
	// many as there are processors for Threads each.
	Wide int
	// Threads is how many threads a statement may take while no other search runs, for
	// tables so large that the server divides them; default: the processors, at most 4.
	// Beside others that are not wide, and for the expensive ones, it is one.
	Threads int
	// StatsAge is how old the counts of documents and terms of a field may be
	// that scores use; default 10 s, negative: always counted anew. What takes
	// longer than 20 ms to count is kept so many times longer, of terms at most six times.
	StatsAge time.Duration
	// CountBeside is from how many people on, all in one part, the total is read by a
	// statement of its own, unless finding them is dear (planner.Dear); default 50,000.
	// To know it while ranking, all who match have to be kept until the last of them.
	CountBeside int64
	// FloorFrom is from how many people on those are left out of the ranking who cannot
	// come on the page (planner.WorthFloor); default 10,000, since fewer are ranked as
	// soon.
	FloorFrom int64
	// SampleShare is the part of the people among whom it is found out what a page takes:
	// one in so many, default 32.
	SampleShare uint64
}

// WithDefaults fills in the zero fields.
func (c Config) WithDefaults() Config {
	if c.Timeout <= 0 {
		c.Timeout = 1500 * time.Millisecond
	}
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
	if c.CountBeside <= 0 {
		c.CountBeside = 50_000
	}
	if c.FloorFrom <= 0 {
		c.FloorFrom = 10_000
	}
	if c.SampleShare == 0 {
		c.SampleShare = 32
	}
	if c.StatsAge == 0 {
		c.StatsAge = 10 * time.Second
	}
	return c
}

// Deps is what a Searcher works with. All fields are required.
type Deps struct {
	Conn   driver.Conn
	Store  *readstore.Store
	Key    []byte // signs cursors, cursor.KeySize bytes
	Logger *slog.Logger
	Tracer trace.Tracer
	Now    func() time.Time
}

// Searcher answers searches. It is safe for concurrent use.
type Searcher struct {
	cfg   Config
	deps  Deps
	lanes lanes

	mu     sync.Mutex
	fields map[string]fieldStats
	terms  map[string]termCount // by planner's keys
	bits   map[string]termCount // of the repeats of terms
	// untimed is until when the indexes of repeats are not asked, since there are none.
	untimed time.Time
	seen    seenState
	rest    restState
}

// New returns a Searcher.
func New(cfg Config, deps Deps) (*Searcher, error) {
	if len(deps.Key) != cursor.KeySize {
		return nil, fmt.Errorf("search: the cursor key has %d bytes, not %d", len(deps.Key), cursor.KeySize)
	}
	cfg = cfg.WithDefaults()
	return &Searcher{cfg: cfg, deps: deps, lanes: newLanes(cfg.Concurrent, cfg.Wide), fields: make(map[string]fieldStats), terms: make(map[string]termCount), bits: make(map[string]termCount)}, nil
}

// Request is a search as it was asked for.
type Request struct {
	Query  jsontext.Value
	Sort   jsontext.Value
	Source jsontext.Value
	Cursor string // empty: the first page
	Size   int
	// Organization is who asks: cursors are not passed on.
	Organization string
}

// Page is an answer.
type Page struct {
	Total   int64
	Results [][]byte // JSON objects
	// ProfileIDs are the people of Results.
	ProfileIDs []string
	Next       string // empty: nothing follows
}

// Search is a request that was read and found valid.
type Search struct {
	searcher *Searcher
	request  Request
	node     algebra.Node
	sorts    []planner.Sort
	source   algebra.Source
	cursor   cursor.Cursor
	first    bool
	from     planner.People
}

// Prepare reads a request without touching the store. Errors are the caller's.
func (s *Searcher) Prepare(r Request) (*Search, error) {
	now := s.deps.Now()
	hash := cursor.Hash(r.Query, r.Sort, []byte(r.Organization))
	out := &Search{searcher: s, request: r, first: r.Cursor == "", cursor: cursor.Cursor{Query: hash, Now: now.UnixMilli()}}
	if !out.first {
		var err error
		if out.cursor, err = cursor.Decode(r.Cursor, hash, now, s.deps.Key); err != nil {
			return nil, err
		}
		if out.cursor.Stats == nil {
			out.cursor.Stats = new(planner.Stats) // what is empty is not in a cursor
		}
	} else {
		out.cursor.Stats = planner.NewStats()
		var seed [8]byte
		_, _ = rand.Read(seed[:]) // never fails
		out.cursor.Seed = int64(binary.LittleEndian.Uint64(seed[:]) >> 1)
	}
	options := clause.Options{Now: time.UnixMilli(out.cursor.Now).UTC(), Seed: out.cursor.Seed}
	var err, inSort error
	out.sorts, inSort = clause.Sorts(r.Sort, "sort", options)
	options.Unscored = inSort == nil && !planner.Scored(out.sorts)
	if out.node, err = clause.Lower(r.Query, "query", options); err != nil {
		return nil, err
	}
	if inSort != nil {
		return nil, inSort
	}
	if out.source, err = clause.Source(r.Source, "_source"); err != nil {
		return nil, err
	}
	return out, nil
}

// Run reads the page. Errors are a [*Budget], readstore.ErrUnavailable, or the
// end of ctx.
func (s *Search) Run(ctx context.Context) (page *Page, err error) {
	ctx, span := s.searcher.deps.Tracer.Start(ctx, "search", trace.WithSpanKind(trace.SpanKindInternal))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, "search failed")
		}
		span.End()
	}()
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, s.searcher.cfg.Timeout)
	defer cancel()
	turn, err := s.searcher.lanes.enter(ctx, weight(s.node, s.cursor.Stats))
	if err != nil {
		if outer.Err() == nil {
			return nil, s.searcher.waited()
		}
		return nil, err
	}
	defer turn.leave()
	page, err = s.run(turn.within(ctx))
	if errors.Is(err, errWaited) && outer.Err() == nil {
		return nil, s.searcher.waited()
	}
	if err != nil && errors.Is(err, context.DeadlineExceeded) && outer.Err() == nil {
		if err := s.searcher.reachable(outer); err != nil {
			return nil, err
		}
		return nil, s.searcher.overTime()
	}
	return page, err
}

// waited is the answer to a search that others left no time.
func (s *Searcher) waited() error {
	return &Budget{fmt.Sprintf("other expensive queries took the %v that a query may: ask again, or narrow this one", s.cfg.Timeout)}
}

func (s *Search) run(ctx context.Context) (*Page, error) {
	if err := s.expand(ctx); err != nil {
		return nil, err
	}
	var err error
	if s.from.Refreshed, err = s.searcher.refreshed(ctx, s.node, s.sorts); err != nil {
		return nil, err
	}
	s.from.Hidden = s.searcher.deps.Store.Hidden()
	r, err := s.people(ctx)
	if err != nil {
		return nil, err
	}
	page := &Page{Total: s.cursor.Total}
	if page.Total == 0 {
		return page, nil
	}
	inner, err := s.innerHits(ctx, r)
	if err != nil {
		return nil, err
	}
	for i, d := range r.documents {
		if d.JSON == nil {
			continue // withdrawn since it was ranked
		}
		page.ProfileIDs = append(page.ProfileIDs, d.ProfileID)
		shown, err := source(s.source).apply(d.JSON)
		if err != nil {
			return nil, fmt.Errorf("search: filter document: %w", err)
		}
		if inner != nil {
			shown = append(append(append(shown[:len(shown)-1:len(shown)-1], ','), inner[i]...), '}')
		}
		page.Results = append(page.Results, shown)
	}
	if !s.first && s.request.Size == 0 {
		page.Next = s.request.Cursor // as many follow as before
	}
	if r.more {
		next := s.cursor
		next.After = r.places[len(r.places)-1]
		page.Next, err = cursor.Encode(next, s.searcher.deps.Key)
		if errors.Is(err, cursor.ErrTooLarge) {
			return nil, &Budget{"the words that the query's fuzzy and unfinished words may be are too many to be carried from page to page: lower max_expansions, or name fewer fields"}
		}
		if err != nil {
			return nil, fmt.Errorf("search: encode cursor: %w", err)
		}
	}
	return page, nil
}

// maxAsked is more terms than a statement is ever done with in the time of a search: each takes half a millisecond before
// anything is read, and writing the statement down takes as long again.
const maxAsked = 8192

// ranking is a page: where its people stand, and what is shown of them.
type ranking struct {
	places    []planner.Place
	documents []readstore.Document // one a place
	more      bool                 // others follow
}

// people reads the page and, for the first, what all pages need beside: the
// total, and the statistics of scores.
func (s *Search) people(ctx context.Context) (*ranking, error) {
	if !s.first {
		if s.request.Size == 0 {
			return &ranking{}, nil
		}
		return s.ranking(ctx, false)
	}
	if err := s.sought(ctx); err != nil {
		return nil, err
	}
	if err := turnOf(ctx).lighten(ctx, weight(s.node, s.cursor.Stats)); err != nil {
		return nil, err
	}
	if n := planner.Asked(s.node, s.cursor.Stats); n > maxAsked {
		return nil, &Budget{fmt.Sprintf("the query looks for %d words in their fields: name fewer fields, or fewer words", n)}
	}
	if planner.AtMost(s.node, s.cursor.Stats) == 0 {
		return &ranking{}, nil
	}
	counted, err := s.count(ctx)
	switch {
	case err != nil:
		return nil, err
	case counted && (s.request.Size == 0 || s.cursor.Total == 0):
		return &ranking{}, nil
	case s.request.Size == 0:
		return &ranking{}, s.countPeople(ctx, planner.CountStatement(s.node, s.cursor.Stats, s.from), nil)
	}
	beside := false
	if !counted {
		if beside, err = s.countedBeside(ctx); err != nil {
			return nil, err
		}
	}
	if !beside {
		return s.ranking(ctx, !counted)
	}
	var r *ranking
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		statement := planner.CountStatement(s.node, s.cursor.Stats, s.from)
		statement.OneThread = !planner.InTableOrder(s.node, s.sorts) // the ranks take longer then
		return s.countPeople(ctx, statement, nil)
	})
	g.Go(func() (err error) {
		r, err = s.ranking(ctx, false)
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return r, nil
}

// ranking reads the people of the page, with total also how many there are in all.
// People are told apart by their hashes, which takes less than by their ids; where
// hashes are equal it is done again by both.
func (s *Search) ranking(ctx context.Context, total bool) (*ranking, error) {
	for identified := s.cursor.After.ProfileID != ""; ; identified = true {
		r := &ranking{}
		var err error
		if r.places, err = s.rank(ctx, total, identified); err != nil {
			return nil, err
		}
		if r.more = len(r.places) > s.request.Size; r.more {
			r.places = r.places[:s.request.Size]
		}
		keys := make([]readstore.ProfileKey, len(r.places))
		for i, p := range r.places {
			keys[i] = readstore.ProfileKey{Hash: p.Hash, ProfileID: p.ProfileID}
		}
		r.documents, err = s.searcher.deps.Store.NetworkDocuments(ctx, keys)
		if !identified && errors.Is(err, readstore.ErrSharedHash) {
			total = false // known by now
			continue
		}
		return r, err
	}
}

// rank reads the places of the page, and one more if there is one; with total
// also how many people there are in all, and identified with their profile ids.
func (s *Search) rank(ctx context.Context, total, identified bool) ([]planner.Place, error) {
	r := planner.Rank{
		Node: s.node, Sort: s.sorts, Stats: s.cursor.Stats, Limit: s.request.Size + 1, From: s.from, Total: total, Identified: identified,
	}
	if !s.first {
		r.After = &s.cursor.After
	}
	if !total {
		var err error
		if r.Floor, err = s.floor(ctx, r); err != nil {
			return nil, err
		}
	}
	places, err := s.places(ctx, stepRank, r)
	if r.Floor > 0 && err == nil && !reached(places, r) { // people have changed since the floor was found
		r.Floor = 0
		places, err = s.places(ctx, stepRank, r)
	}
	return places, err
}

// The steps that rank.
const (
	stepRank   = "rank"
	stepSample = "sample"
)

// floor is a score that as many people have as a page needs; 0 when it is not known.
func (s *Search) floor(ctx context.Context, r planner.Rank) (float64, error) {
	if planner.AtMost(r.Node, r.Stats) < s.searcher.cfg.FloorFrom || !planner.WorthFloor(r.Node, r.Sort, r.Stats) {
		return 0, nil
	}
	r.Sample = s.searcher.cfg.SampleShare
	places, err := s.places(ctx, stepSample, r)
	if err != nil || len(places) < r.Limit {
		return 0, err
	}
	return score(places[len(places)-1]), nil
}

// score is that of somebody who is ranked by it first of all.
func score(p planner.Place) float64 {
	score, _ := strconv.ParseFloat(p.Keys[0].Value, 64) // as the server writes it
	return score
}

// reached says that a page is full of people whose scores are at least the floor, so that nobody below it is missing.
func reached(places []planner.Place, r planner.Rank) bool {
	return len(places) == r.Limit && score(places[len(places)-1]) >= r.Floor
}

// places runs a ranking statement.
func (s *Search) places(ctx context.Context, step string, r planner.Rank) ([]planner.Place, error) {
	places, invalid := make([]planner.Place, 0, r.Limit), false
	err := s.searcher.query(ctx, step, planner.RankStatement(r), func(rows driver.Rows) error {
		var p planner.Place
		var values []string
		var missing []uint8
		var all int64
		if err := rows.Scan(&p.Hash, &p.ProfileID, &values, &missing, &all); err != nil {
			return err
		}
		if r.Total {
			s.cursor.Total = all
		}
		p.Keys = make([]planner.Key, len(values))
		for i := range values {
			invalid = invalid || planner.InvalidScore(s.sorts, i, values[i])
			p.Keys[i] = planner.Key{Missing: missing[i] != 0, Value: values[i]}
		}
		places = append(places, p)
		return nil
	})
	if invalid && err == nil {
		return nil, &Budget{invalidScore}
	}
	return places, err
}

// query runs a statement within the limits of a search.
func (s *Searcher) query(ctx context.Context, step string, statement planner.Statement, scan func(driver.Rows) error) (err error) {
	ctx, span := s.deps.Tracer.Start(ctx, "search "+step, trace.WithSpanKind(trace.SpanKindClient))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, "query failed")
		}
		span.End()
	}()
	settings := ch.Settings{"priority": turnOf(ctx).priority, "max_query_size": 16 << 20, "max_ast_elements": 1_000_000, "max_expanded_ast_elements": 2_000_000, "max_ast_depth": 10_000}
	if statement.TokensRead {
		settings["query_plan_direct_read_from_text_index"] = 0
	}
	if statement.Eager {
		settings["short_circuit_function_evaluation"] = "disable"
	}
	threads := 1
	if turnOf(ctx).alone() && !statement.OneThread {
		threads = s.cfg.Threads
	}
	ctx = clickhouse.QueryContext(ctx, clickhouse.Limits{
		MaxExecutionTime: s.cfg.Timeout, MaxRowsToRead: s.cfg.MaxRows, MaxMemoryBytes: s.cfg.MaxMemory, MaxThreads: threads,
	}, settings)
	options := []ch.QueryOption{ch.WithParameters(ch.Parameters(statement.Parameters))}
	size := 0
	for _, v := range statement.Parameters {
		size += len(url.QueryEscape(v))
	}
	switch {
	case size > maxParameters:
		return &Budget{"the texts of the query are too long together: shorten them"}
	case len(statement.Tables) > 0 && len(statement.SQL) > maxBeside:
		return &Budget{"the query is too complex beside its long lists: use fewer clauses or shorter lists"}
	}
	for name, values := range statement.Tables {
		table, err := ext.NewTable(name, ext.Column("v", "String"))
		if err != nil {
			return fmt.Errorf("search %s: list: %w", step, err)
		}
		for _, v := range values {
			if err := table.Append(v); err != nil {
				return fmt.Errorf("search %s: list: %w", step, err)
			}
		}
		options = append(options, ch.WithExternalTable(table))
	}
	ctx = ch.Context(ctx, options...)
	rows, err := s.deps.Conn.Query(ctx, statement.SQL)
	if code, ok := clickhouse.CodeOf(err); ok && code == proto.ErrNotFoundColumnInBlock && !statement.TokensRead {
		// The server lost a column of its own making: ask in the way in which it makes none.
		s.deps.Logger.Warn("search statement is asked again without answers of the index", slog.String("step", step))
		statement.TokensRead = true
		return s.query(ctx, step, statement, scan)
	}
	if err != nil {
		return s.failed(step, err)
	}
	for rows.Next() {
		if err := scan(rows); err != nil {
			return errors.Join(fmt.Errorf("search %s: scan: %w", step, err), rows.Close())
		}
	}
	if err := rows.Err(); err != nil {
		return errors.Join(s.failed(step, err), rows.Close())
	}
	if err := rows.Close(); err != nil {
		return s.failed(step, err)
	}
	return nil
}

const (
	maxParameters = 700 << 10 // of what travels in the address of a statement, which servers limit to 1 MiB
	maxBeside     = 120 << 10 // of a statement with tables beside it, which is a field of a form: servers limit those to 128 KiB
)
