package search

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/platform/clickhouse"
	"muster/query-api/internal/readstore"
	"muster/query-api/internal/search/aggregation"
	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/query-api/internal/search/postings"
	"muster/schemas/readmodel"
)

// ranking is a page: the positions of its people, and their documents.
type ranking struct {
	places    []planner.Place
	documents []readstore.Document   // one for each place
	elements  [][][]postings.Element // for each place and each clause with inner hits
	windows   [][]hitWindow          // the same of OpenSearch, in place of elements
	more      bool                   // more follow
	// matches are, for each place and each of Search.named, whether it matches.
	matches [][]bool
	// aggregations are the results of Search.aggregations.
	aggregations []aggregation.Value
}

// maxAttempts is the maximum number of snapshots that a page is computed from while the table changes.
const maxAttempts = 4

// execute ranks the people of the page and reads their documents, as of a snapshot no older than the call. It computes
// the page from the newest cached snapshot while it refreshes it.
func (s *Search) execute(ctx context.Context) (*ranking, error) {
	if s.searcher.remote != nil {
		return s.executeRemote(ctx)
	}
	x, asked := s.searcher.index, *s
	known := x.Current()
	for attempt := 1; ; attempt++ {
		working, stop := context.WithCancel(ctx)
		var latest *postings.Snapshot
		looking := make(chan error, 1)
		go func() {
			var err error
			latest, err = x.Latest(working)
			looking <- err
		}()
		var r *ranking
		var failed error
		d := s.searcher.dictionary(known)
		if known != nil {
			s.reset(&asked)
			r, failed = s.executeAs(working, d)
		}
		err := <-looking
		if err == nil && failed == nil && d.found {
			latest, err = x.Latest(working)
		}
		stop()
		if err != nil {
			return nil, err
		}
		if known != nil && !postings.Changed(failed) {
			newest := latest.Number == known.Number
			if newest || attempt > 1 && (!d.found || attempt > maxAttempts) {
				return r, failed
			}
		}
		known = latest
	}
}

// reset undoes an attempt: what it recorded of terms is valid for its snapshot only.
func (s *Search) reset(asked *Search) {
	s.node, s.sorts, s.cursor = asked.node, slices.Clone(asked.sorts), asked.cursor
	s.aggregations, s.named = asked.aggregations, slices.Clone(asked.named)
	if s.cursor.Stats = asked.cursor.Stats.Clone(); s.first {
		s.cursor.Stats, s.cursor.Expansions = planner.NewStats(), nil
	}
}

// executeAs computes the page from the snapshot of a dictionary.
func (s *Search) executeAs(ctx context.Context, d *dictionary) (*ranking, error) {
	if err := s.expand(ctx, d); err != nil {
		return nil, tooExpensive(err)
	}
	if s.isCounted() {
		return &ranking{}, nil
	}
	x, snapshot := s.searcher.index, d.snapshot
	if s.first {
		snapshot.NoteAbsent(s.node, s.cursor.Stats)
		if err := slotFrom(ctx).downgrade(ctx, s.cost()); err != nil {
			return nil, err
		}
	}
	q := s.question()
	q.Hidden, q.MaxTime, q.Workers = s.searcher.deps.Hidden(), s.searcher.cfg.Timeout, 1
	q.Yielding = slotFrom(ctx).priority != cheapPriority
	if slotFrom(ctx).mayUseAllThreads() {
		q.Workers = s.searcher.cfg.Threads
	}
	a, err := x.Rank(ctx, snapshot, q)
	if err != nil {
		return nil, tooExpensive(err)
	}
	if a.Invalid {
		return nil, &TooExpensiveError{invalidScore}
	}
	if s.first {
		s.cursor.Total = a.Total
	}
	documents, err := s.documents(ctx, snapshot, a)
	if errors.Is(err, readstore.ErrSharedHash) {
		if err = x.Identify(ctx, snapshot, a); err == nil {
			documents, err = s.documents(ctx, snapshot, a)
		}
	}
	if err != nil {
		return nil, err
	}
	r := &ranking{
		places: a.Places, elements: a.Elements, matches: a.Matches, documents: documents, aggregations: a.Aggregations,
	}
	if r.more = len(a.Places) > s.request.Size; r.more {
		r.places = a.Places[:s.request.Size]
	}
	return r, nil
}

// isCounted reports whether the response has only the total, which the cursor knows.
func (s *Search) isCounted() bool { return !s.first && s.request.Size == 0 && len(s.aggregations) == 0 }

// question returns the index's question for the page.
func (s *Search) question() *postings.Question {
	q := &postings.Question{
		Node: s.node, Sort: s.sorts, Stats: s.cursor.Stats, First: s.first, Inner: innerClauses(s.node),
		Aggregations: s.aggregations, TrackScores: s.request.TrackScores, Collapse: s.collapse, Skip: s.request.From,
		CountFields: func(ctx context.Context, snapshot *postings.Snapshot) error {
			return s.searcher.countFields(ctx, s.node, planner.SortFilters(s.sorts), s.cursor.Stats, snapshot.People)
		},
	}
	if s.request.Size > 0 {
		q.Limit = s.request.From + s.request.Size + 1
	}
	for _, n := range s.named {
		q.Named = append(q.Named, n.node)
	}
	if !s.first {
		q.After = &s.cursor.After
	}
	return q
}

// innerClauses returns the clauses of a query that have inner hits.
func innerClauses(n algebra.Node) (list []algebra.Nested) {
	algebra.Walk(n, func(n algebra.Node) {
		if m, ok := n.(algebra.Nested); ok && m.InnerHits != nil {
			list = append(list, m)
		}
	})
	return list
}

// documents reads the documents of a page, without that of the person after it.
func (s *Search) documents(
	ctx context.Context, snapshot *postings.Snapshot, a *postings.Answer,
) ([]readstore.Document, error) {
	keys := make([]readstore.DocumentKey, min(len(a.Places), s.request.Size))
	if len(keys) == 0 {
		return nil, nil
	}
	for i := range keys {
		keys[i] = readstore.DocumentKey{Hash: a.Places[i].Hash, ID: a.Places[i].ID}
	}
	layout, err := s.searcher.findLayout(ctx)
	if err != nil {
		return nil, err
	}
	as := readstore.AsOf{State: snapshot.Documents, Unseen: snapshot.Unseen}
	if layout.Cluster != "" { // any replica is read, but the state is that of one
		as = readstore.AsOf{}
	}
	return s.searcher.deps.Documents(ctx, keys, as)
}

// cluster returns the name of the cluster that the tables are on, empty for a single server, and its number of shards.
func (s *Searcher) cluster(ctx context.Context) (name string, shards int, err error) {
	layout, err := s.findLayout(ctx)
	if err != nil || layout.Cluster == "" {
		return "", 1, err
	}
	err = s.query(ctx, stepLayout, planner.ShardsStatement(layout.Cluster), func(rows driver.Rows) error {
		var n uint64
		err := rows.Scan(&n)
		shards = int(n)
		return err
	})
	return layout.Cluster, shards, err
}

// findLayout returns the layout of the tables, which it reads once.
func (s *Searcher) findLayout(ctx context.Context) (*readmodel.Layout, error) {
	s.mu.Lock()
	layout := s.layout
	s.mu.Unlock()
	if layout != nil {
		return layout, nil
	}
	found, err := readmodel.FindLayout(ctx, s.deps.Conn)
	if errors.Is(err, readmodel.ErrNoTables) {
		return nil, &Unavailable{Reason: "search is not available: " + err.Error()}
	}
	if err != nil {
		return nil, s.statementError(stepLayout, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.layout = &found
	return &found, nil
}

// stepLayout is the step that reads the layout of the tables.
const stepLayout = "layout"

// readIndex runs the statements of the index.
func (s *Searcher) readIndex(
	ctx context.Context, step string, statement planner.Statement, scan func(driver.Rows) error,
) error {
	switch {
	case postings.Shared(step): // other calls wait for it: it does not yield
		ctx = (&slot{priority: cheapPriority}).newContext(ctx)
	case postings.IsBackground(ctx):
		if err := s.admission.waitIdle(ctx); err != nil {
			return err
		}
		ctx = (&slot{priority: expensivePriority}).newContext(ctx)
	}
	err := s.query(ctx, step, statement, scan)
	var budget *TooExpensiveError
	switch code, ok := clickhouse.CodeOf(err); {
	case !postings.Shared(step) || err == nil:
		return err
	case ok && code == proto.ErrAccessDenied:
		s.deps.Logger.Error("search: the ClickHouse user may not read the parts of the table", slog.Any("error", err))
		return &Unavailable{Reason: "search is not available: the ClickHouse user of this service may not read " +
			"system.parts: its operator has to GRANT SELECT ON system.parts, and on a cluster REMOTE ON *.*, to that user"}
	case errors.As(err, &budget): // The shared read exceeded its limits; this query did not.
		s.deps.Logger.Error("search: the documents of the table cannot be read within the limits of a statement",
			slog.String("collection", s.collection.Name), slog.String("step", step), slog.Any("error", err))
		return &Unavailable{
			Reason: fmt.Sprintf("search is not available: reading the %s takes more than %d MiB of memory",
				s.collection.Name, s.cfg.MaxMemory>>20),
		}
	}
	return err
}
