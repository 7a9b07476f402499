package search

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/platform/clickhouse"
	"muster/query-api/internal/readstore"
	"muster/query-api/internal/search/planner"
	"muster/query-api/internal/search/postings"
)

// readPostings is what the index reads by.
func (s *Searcher) readPostings(ctx context.Context, step string, statement planner.Statement, scan func(driver.Rows) error) error {
	switch {
	case postings.Shared(step): // others wait for what it says: it does not pause for them
		ctx = (&turn{priority: cheapPriority}).within(ctx)
	case postings.Behind(ctx):
		if err := s.lanes.rest(ctx); err != nil {
			return err
		}
		ctx = (&turn{priority: expensivePriority}).within(ctx)
	}
	err := s.query(ctx, step, statement, scan)
	var budget *Budget
	if postings.Shared(step) && (errors.As(err, &budget) || errors.Is(err, context.DeadlineExceeded)) { // that is no query's fault
		s.deps.Logger.Warn("search: who is in the table takes more to read than a statement may: pages are ranked by SQL, which takes longer", slog.String("step", step), slog.Any("error", err))
		return fmt.Errorf("%w: %w", postings.ErrUnsupported, err)
	}
	if code, ok := clickhouse.CodeOf(err); ok && step == stepParts && code == proto.ErrAccessDenied {
		s.deps.Logger.Warn("search: the ClickHouse user may not read system.parts: every page is ranked by SQL, which takes longer", slog.Any("error", err))
		return fmt.Errorf("%w: %w", postings.ErrUnsupported, err)
	}
	return err
}

// maxSnapshots is of how many snapshots a page is tried.
const maxSnapshots = 4

// manyUnread is from how many leaves on it is looked first which of their words anybody has, which takes less than reading
// those that nobody has.
const manyUnread = 8

// try is a page as it is made of a snapshot.
type try struct {
	snapshot *postings.Snapshot
	// found: terms were found in the table while the page was made. It may have changed since it was last looked which parts there are.
	found atomic.Bool
}

// tryKey is what a context has its try by.
type tryKey struct{}

// remembered gives what find finds, from the snapshot of ctx where that knows it by a key.
func remembered(ctx context.Context, key []string, find func() ([]string, error)) ([]string, error) {
	t, ok := ctx.Value(tryKey{}).(*try)
	if !ok {
		return find()
	}
	list, err := t.snapshot.Terms(strings.Join(key, "\x00"), func() ([]string, error) {
		t.found.Store(true)
		return find()
	})
	return slices.Clone(list), err
}

// kept reads the page from the postings that are kept. The error is postings.ErrUnsupported where SQL has to.
func (s *Search) kept(ctx context.Context) (*ranking, error) {
	x := s.searcher.index
	if x == nil {
		return nil, postings.ErrUnsupported
	}
	known, asked := x.Current(), *s
	for range maxSnapshots {
		working, stop := context.WithCancel(ctx)
		looking := make(chan error, 1)
		var latest *postings.Snapshot
		go func() { // while the page is made of what is known
			var err error
			latest, err = x.Latest(working)
			looking <- err
		}()
		var r *ranking
		var failed error
		t := &try{snapshot: known}
		if known != nil {
			s.again(&asked)
			if r, failed = s.keptAs(working, t); errors.Is(failed, postings.ErrUnsupported) {
				stop()
			}
		}
		err := <-looking
		if err == nil && failed == nil && t.found.Load() {
			latest, err = x.Latest(working)
		}
		stop()
		switch {
		case errors.Is(failed, postings.ErrUnsupported):
			return nil, failed
		case err != nil:
			return nil, err
		}
		if known != nil && latest.Number == known.Number && !postings.Changed(failed) {
			return r, failed
		}
		known = latest
	}
	return nil, fmt.Errorf("%w: the table's parts change too fast", postings.ErrUnsupported)
}

// again makes a search what it was before it was tried. What a try notes of the terms that nobody has is true of its snapshot alone.
func (s *Search) again(asked *Search) {
	s.node, s.sorts, s.cursor = asked.node, slices.Clone(asked.sorts), asked.cursor
	if s.cursor.Stats = asked.cursor.Stats.Clone(); s.first {
		s.cursor.Stats, s.cursor.Expansions = planner.NewStats(), nil
	}
}

// keptAs reads the page as of a snapshot.
func (s *Search) keptAs(ctx context.Context, t *try) (*ranking, error) {
	known, tried := t.snapshot, context.WithValue(ctx, tryKey{}, t)
	if err := s.expand(tried); err != nil {
		return nil, err
	}
	if !s.first && s.request.Size == 0 {
		return &ranking{}, nil
	}
	if n := planner.Asked(s.node, s.cursor.Stats); n > maxAsked {
		return nil, fmt.Errorf("%w: %d words", postings.ErrUnsupported, n)
	}
	q := &postings.Question{
		Node: s.node, Sort: s.sorts, Stats: s.cursor.Stats, First: s.first, Hidden: s.from.Hidden, Workers: 1, MaxTime: s.searcher.cfg.Timeout, Yielding: turnOf(ctx).priority != cheapPriority,
		CountFields: func(ctx context.Context, snapshot *postings.Snapshot) error {
			return s.searcher.countFields(ctx, s.node, nil, s.cursor.Stats, snapshot.People)
		},
	}
	if s.request.Size > 0 {
		q.Limit = s.request.Size + 1
	}
	if !s.first {
		q.After = &s.cursor.After
	}
	if err := postings.Supported(q); err != nil {
		return nil, err
	}
	unread, err := s.searcher.index.Unread(ctx, known, q)
	if err != nil {
		return nil, err
	}
	if s.first && unread > manyUnread {
		if err := s.sought(tried); err != nil {
			return nil, err
		}
		known.Lacking(s.cursor.Stats)
	}
	if s.first {
		if err := turnOf(ctx).lighten(ctx, weight(s.node, s.cursor.Stats)); err != nil {
			return nil, err
		}
	}
	q.Yielding = turnOf(ctx).priority != cheapPriority
	if turnOf(ctx).alone() {
		q.Workers = s.searcher.cfg.Threads
	}
	a, err := s.searcher.index.Rank(ctx, known, q)
	switch {
	case err != nil:
		return nil, err
	case a.Invalid:
		return nil, &Budget{invalidScore}
	}
	if s.first {
		s.cursor.Total = a.Total
	}
	r, err := s.shown(ctx, a.Places, readstore.AsOf{State: known.Documents, Unseen: known.Unseen})
	if errors.Is(err, readstore.ErrSharedHash) {
		return nil, fmt.Errorf("%w: %w", postings.ErrUnsupported, err)
	}
	return r, err
}

// shown reads the documents of a page.
func (s *Search) shown(ctx context.Context, places []planner.Place, as readstore.AsOf) (*ranking, error) {
	r := &ranking{places: places}
	if r.more = len(places) > s.request.Size; r.more {
		r.places = places[:s.request.Size]
	}
	if len(r.places) == 0 {
		return r, nil
	}
	keys := make([]readstore.ProfileKey, len(r.places))
	for i, p := range r.places {
		keys[i] = readstore.ProfileKey{Hash: p.Hash, ProfileID: p.ProfileID}
	}
	var err error
	r.documents, err = s.searcher.deps.Store.NetworkDocuments(ctx, keys, as)
	return r, err
}
