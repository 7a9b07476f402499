package search

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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

// queryIndex runs the statements of the in-memory index.
func (s *Searcher) queryIndex(
	ctx context.Context, step string, statement planner.Statement, scan func(driver.Rows) error,
) error {
	switch {
	case postings.Shared(step): // Other searches wait for it, so that it must not pause for them.
		ctx = (&slot{priority: cheapPriority}).newContext(ctx)
	case postings.Behind(ctx):
		if err := s.admission.waitIdle(ctx); err != nil {
			return err
		}
		ctx = (&slot{priority: expensivePriority}).newContext(ctx)
	}
	err := s.query(ctx, step, statement, scan)
	var tooExpensive *TooExpensiveError
	// The shared part scan exceeded its limits; this query did not.
	if postings.Shared(step) && (errors.As(err, &tooExpensive) || errors.Is(err, context.DeadlineExceeded)) {
		s.deps.Logger.Warn("search: index load exceeded limits, using SQL", slog.String("step", step),
			slog.Any("error", err))
		return fmt.Errorf("%w: %w", postings.ErrUnsupported, err)
	}
	if code, ok := clickhouse.CodeOf(err); ok && step == stepParts && code == proto.ErrAccessDenied {
		s.deps.Logger.Warn("search: no access to system.parts, using SQL", slog.Any("error", err))
		return fmt.Errorf("%w: %w", postings.ErrUnsupported, err)
	}
	return err
}

// maxSnapshotAttempts is how often a page is computed, if parts keep changing, before the SQL path takes over.
const maxSnapshotAttempts = 4

// minUncachedLeaves is the number of uncached leaves above which absent terms are found first. That takes less than
// reading their empty posting lists.
const minUncachedLeaves = 8

// attempt is the computation of a page from one snapshot.
type attempt struct {
	snapshot *postings.Snapshot
	// readTerms reports whether terms were read from the table, whose parts may have changed since the snapshot.
	readTerms atomic.Bool
}

// newAttempt returns a copy of the search whose query and statistics are its own. a is nil if SQL ranks.
func (s *Search) newAttempt(a *attempt) *Search {
	out := *s
	out.attempt, out.sorts = a, slices.Clone(s.sorts)
	if out.cursor.Stats = s.cursor.Stats.Clone(); s.first {
		out.cursor.Stats, out.cursor.Expansions = planner.NewStats(), nil
	}
	out.cursor.Expansions = maps.Clone(out.cursor.Expansions)
	return &out
}

// memoizeTerms returns the terms cached under key in the snapshot, or calls find and caches its result. Errors are not
// cached.
func (s *Search) memoizeTerms(key []string, find func() ([]string, error)) ([]string, error) {
	if s.attempt == nil {
		return find()
	}
	list, err := s.attempt.snapshot.Terms(strings.Join(key, "\x00"), func() ([]string, error) {
		s.attempt.readTerms.Store(true)
		return find()
	})
	return slices.Clone(list), err
}

// searchIndex computes the page with the in-memory index, and returns the attempt that did. It returns
// postings.ErrUnsupported if SQL has to rank.
func (s *Search) searchIndex(ctx context.Context) (*Search, *resultPage, error) {
	x := s.searcher.index
	if x == nil {
		return nil, nil, postings.ErrUnsupported
	}
	known := x.Current()
	for range maxSnapshotAttempts {
		working, stop := context.WithCancel(ctx)
		refreshed := make(chan error, 1)
		var latest *postings.Snapshot
		// Refresh concurrently with computing the page from the current snapshot.
		go func() {
			var err error
			latest, err = x.Latest(working)
			refreshed <- err
		}()
		var run *Search
		var page *resultPage
		var failed error
		readTerms := false
		if known != nil {
			run = s.newAttempt(&attempt{snapshot: known})
			page, failed = run.searchSnapshot(working)
			readTerms = run.attempt.readTerms.Load()
			if errors.Is(failed, postings.ErrUnsupported) {
				stop()
			}
		}
		err := <-refreshed
		if err == nil && failed == nil && readTerms {
			latest, err = x.Latest(working)
		}
		stop()
		switch {
		case errors.Is(failed, postings.ErrUnsupported):
			return nil, nil, failed
		case err != nil:
			return nil, nil, err
		}
		if known != nil && latest.Number == known.Number && !postings.Changed(failed) {
			return run, page, failed
		}
		known = latest
	}
	return nil, nil, fmt.Errorf("%w: the table's parts change too fast", postings.ErrUnsupported)
}

// searchSnapshot computes the page from the snapshot of the attempt.
func (s *Search) searchSnapshot(ctx context.Context) (*resultPage, error) {
	snapshot := s.attempt.snapshot
	if err := s.expand(ctx); err != nil {
		return nil, err
	}
	if !s.first && s.request.Size == 0 {
		return &resultPage{}, nil
	}
	if n := planner.Asked(s.node, s.cursor.Stats); n > maxTermsPerStatement {
		return nil, fmt.Errorf("%w: %d terms", postings.ErrUnsupported, n)
	}
	t := slotFrom(ctx)
	q := &postings.Question{
		Node: s.node, Sort: s.sorts, Stats: s.cursor.Stats, First: s.first, Hidden: s.from.Hidden, Workers: 1,
		MaxTime: s.searcher.cfg.Timeout, Yielding: t.priority != cheapPriority,
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
	uncached, err := s.searcher.index.Unread(ctx, snapshot, q)
	if err != nil {
		return nil, err
	}
	if s.first && uncached > minUncachedLeaves {
		if err := s.findAbsentTerms(ctx); err != nil {
			return nil, err
		}
		snapshot.Lacking(s.cursor.Stats)
	}
	if s.first {
		if err := t.downgrade(ctx, estimateCost(s.node, s.cursor.Stats)); err != nil {
			return nil, err
		}
	}
	q.Yielding = t.priority != cheapPriority
	if t.mayUseAllThreads() {
		q.Workers = s.searcher.cfg.Threads
	}
	a, err := s.searcher.index.Rank(ctx, snapshot, q)
	switch {
	case err != nil:
		return nil, err
	case a.Invalid:
		return nil, &TooExpensiveError{invalidScore}
	}
	if s.first {
		s.cursor.Total = a.Total
	}
	page, err := s.fetchDocuments(ctx, a.Places, readstore.AsOf{State: snapshot.Documents, Unseen: snapshot.Unseen})
	if errors.Is(err, readstore.ErrSharedHash) {
		return nil, fmt.Errorf("%w: %w", postings.ErrUnsupported, err)
	}
	return page, err
}

// fetchDocuments reads the documents of a page of at most one hit more than its size.
func (s *Search) fetchDocuments(ctx context.Context, hits []planner.Place, as readstore.AsOf) (*resultPage, error) {
	page := &resultPage{hits: hits}
	if page.more = len(hits) > s.request.Size; page.more {
		page.hits = hits[:s.request.Size]
	}
	if len(page.hits) == 0 {
		return page, nil
	}
	keys := make([]readstore.ProfileKey, len(page.hits))
	for i, p := range page.hits {
		keys[i] = readstore.ProfileKey{Hash: p.Hash, ProfileID: p.ProfileID}
	}
	var err error
	page.documents, err = s.searcher.deps.Store.NetworkDocuments(ctx, keys, as)
	return page, err
}
