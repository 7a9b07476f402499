package search

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"muster/platform/clickhouse"
	"muster/query-api/internal/readstore"
	"muster/query-api/internal/search/planner"
	"muster/query-api/internal/search/postings"
)

// readPostings is what the index reads by.
func (s *Searcher) readPostings(ctx context.Context, step string, statement planner.Statement, scan func(driver.Rows) error) error {
	err := s.query(ctx, step, statement, scan)
	if code, ok := clickhouse.CodeOf(err); ok && step == stepParts && code == proto.ErrAccessDenied {
		s.deps.Logger.Warn("search: the ClickHouse user may not read system.parts: every page is ranked by SQL, which takes longer", slog.Any("error", err))
		return fmt.Errorf("%w: %w", postings.ErrUnsupported, err)
	}
	return err
}

// maxSnapshots is of how many snapshots a page is tried.
const maxSnapshots = 4

// kept reads the page from the postings that are kept. The error is postings.ErrUnsupported where SQL has to.
func (s *Search) kept(ctx context.Context) (*ranking, error) {
	x := s.searcher.index
	if x == nil {
		return nil, postings.ErrUnsupported
	}
	if s.from.Refreshed {
		return nil, fmt.Errorf("%w: versions newer than their content", postings.ErrUnsupported)
	}
	if !s.first && s.request.Size == 0 {
		return &ranking{}, nil
	}
	q := &postings.Question{
		Node: s.node, Sort: s.sorts, Stats: s.cursor.Stats, First: s.first, Hidden: s.from.Hidden,
		CountFields: func(ctx context.Context, snapshot *postings.Snapshot) error {
			return s.searcher.countFields(ctx, s.node, nil, s.cursor.Stats, snapshot.Number)
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
	a, err := s.answer(ctx, q)
	switch {
	case err != nil:
		return nil, err
	case a.Invalid:
		return nil, &Budget{invalidScore}
	}
	if s.first {
		s.cursor.Total = a.Total
	}
	r, err := s.shown(ctx, a.Places)
	if errors.Is(err, readstore.ErrSharedHash) {
		return nil, fmt.Errorf("%w: %w", postings.ErrUnsupported, err)
	}
	return r, err
}

// answer ranks by what is known of the table, while it is looked whether that is so still.
func (s *Search) answer(ctx context.Context, q *postings.Question) (*postings.Answer, error) {
	x := s.searcher.index
	known := x.Current()
	for range maxSnapshots {
		var latest *postings.Snapshot
		var a *postings.Answer
		var failed error
		g, working := errgroup.WithContext(ctx)
		g.Go(func() (err error) {
			latest, err = x.Latest(working)
			return err
		})
		if known != nil {
			a, failed = x.Rank(working, known, q)
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		if known != nil && latest.Number == known.Number && !postings.Changed(failed) {
			return a, failed
		}
		known = latest
	}
	return nil, fmt.Errorf("%w: the table's parts change too fast", postings.ErrUnsupported)
}

// shown reads the documents of a page.
func (s *Search) shown(ctx context.Context, places []planner.Place) (*ranking, error) {
	r := &ranking{places: places}
	if r.more = len(places) > s.request.Size; r.more {
		r.places = places[:s.request.Size]
	}
	keys := make([]readstore.ProfileKey, len(r.places))
	for i, p := range r.places {
		keys[i] = readstore.ProfileKey{Hash: p.Hash, ProfileID: p.ProfileID}
	}
	var err error
	r.documents, err = s.searcher.deps.Store.NetworkDocuments(ctx, keys)
	return r, err
}
