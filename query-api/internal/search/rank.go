package search

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"muster/query-api/internal/readstore"
	"muster/query-api/internal/search/planner"
)

// maxTermsPerStatement is more terms than a statement can read within the deadline: each takes half a millisecond
// before anything is read, and as long again to build the statement.
const maxTermsPerStatement = 8192

// resultPage is a page of hits with their documents.
type resultPage struct {
	hits      []planner.Place
	documents []readstore.Document // one for each hit
	more      bool                 // there is a next page
}

// searchSQL computes the page with SQL. The first page also determines the total and the statistics of scores, which
// all pages share.
func (s *Search) searchSQL(ctx context.Context) (*resultPage, error) {
	if err := s.expand(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.searcher.cfg.Timeout)
	defer cancel()
	var err error
	if s.from.Refreshed, err = s.searcher.hasVersionBumps(ctx, s.node, s.sorts); err != nil {
		return nil, err
	}
	if !s.first {
		if s.request.Size == 0 {
			return &resultPage{}, nil
		}
		return s.rankPage(ctx, false)
	}
	if err := s.findAbsentTerms(ctx); err != nil {
		return nil, err
	}
	if err := slotFrom(ctx).downgrade(ctx, estimateCost(s.node, s.cursor.Stats)); err != nil {
		return nil, err
	}
	if n := planner.Asked(s.node, s.cursor.Stats); n > maxTermsPerStatement {
		return nil, &TooExpensiveError{fmt.Sprintf("the query searches for %d words in their fields: name fewer fields, "+
			"or fewer words", n)}
	}
	if planner.AtMost(s.node, s.cursor.Stats) == 0 {
		return &resultPage{}, nil
	}
	counted, err := s.count(ctx)
	switch {
	case err != nil:
		return nil, err
	case counted && (s.request.Size == 0 || s.cursor.Total == 0):
		return &resultPage{}, nil
	case s.request.Size == 0:
		return &resultPage{}, s.readCounts(ctx, planner.CountStatement(s.node, s.cursor.Stats, s.from), nil)
	}
	separate := false
	if !counted {
		if separate, err = s.shouldCountSeparately(ctx); err != nil {
			return nil, err
		}
	}
	if !separate {
		return s.rankPage(ctx, !counted)
	}
	var page *resultPage
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		statement := planner.CountStatement(s.node, s.cursor.Stats, s.from)
		statement.OneThread = !planner.InTableOrder(s.node, s.sorts) // Ranking takes longer then.
		return s.readCounts(ctx, statement, nil)
	})
	g.Go(func() (err error) {
		page, err = s.rankPage(ctx, false)
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return page, nil
}

// rankPage reads the hits of the page with their documents, and the total if total is set. It identifies people by
// their hashes, which are cheaper than IDs, and reads them again with IDs if hashes collide.
func (s *Search) rankPage(ctx context.Context, total bool) (*resultPage, error) {
	for identified := s.cursor.After.ProfileID != ""; ; identified = true {
		hits, err := s.rank(ctx, total, identified)
		if err != nil {
			return nil, err
		}
		page, err := s.fetchDocuments(ctx, hits, readstore.AsOf{})
		if !identified && errors.Is(err, readstore.ErrSharedHash) {
			total = false // known by now
			continue
		}
		return page, err
	}
}

// rank reads the hits of the page and one more if there is one. total also reads the total, identified also the IDs.
func (s *Search) rank(ctx context.Context, total, identified bool) ([]planner.Place, error) {
	r := planner.Rank{
		Node: s.node, Sort: s.sorts, Stats: s.cursor.Stats, Limit: s.request.Size + 1, From: s.from, Total: total,
		Identified: identified,
	}
	if !s.first {
		r.After = &s.cursor.After
	}
	if planner.WorthStages(s.node, s.sorts, s.cursor.Stats) {
		var err error
		if r.Staged, err = s.searcher.isLargeSinglePart(ctx); err != nil {
			return nil, err
		}
	}
	if !total && !r.Staged {
		var err error
		if r.Floor, err = s.minCompetitiveScore(ctx, r); err != nil {
			return nil, err
		}
	}
	hits, err := s.hits(ctx, stepRank, r)
	// People may have changed since the minimum score was found.
	if r.Floor > 0 && err == nil && !pageComplete(hits, r) {
		r.Floor = 0
		hits, err = s.hits(ctx, stepRank, r)
	}
	return hits, err
}

// The steps that rank.
const (
	stepRank   = "rank"
	stepSample = "sample"
)

// minCompetitiveScore returns a score that at least a page of people reaches, found in a sample. It returns 0 if it is
// unknown or not worth a statement.
func (s *Search) minCompetitiveScore(ctx context.Context, r planner.Rank) (float64, error) {
	if planner.AtMost(r.Node, r.Stats) < s.searcher.cfg.MinScoreMinHits || !planner.WorthFloor(r.Node, r.Sort, r.Stats) {
		return 0, nil
	}
	r.Sample = s.searcher.cfg.SampleRate
	hits, err := s.hits(ctx, stepSample, r)
	if err != nil || len(hits) < r.Limit {
		return 0, err
	}
	return scoreOf(hits[len(hits)-1]), nil
}

// scoreOf returns the score of a hit whose first sort key it is.
func scoreOf(p planner.Place) float64 {
	score, _ := strconv.ParseFloat(p.Keys[0].Value, 64) // as the server writes it
	return score
}

// pageComplete reports whether a page is full of hits with at least the minimum score, so that none below it is
// missing.
func pageComplete(hits []planner.Place, r planner.Rank) bool {
	return len(hits) == r.Limit && scoreOf(hits[len(hits)-1]) >= r.Floor
}

// hits runs a ranking statement.
func (s *Search) hits(ctx context.Context, step string, r planner.Rank) ([]planner.Place, error) {
	hits, invalid := make([]planner.Place, 0, r.Limit), false
	err := s.searcher.query(ctx, step, planner.RankStatement(r), func(rows driver.Rows) error {
		var p planner.Place
		var values []string
		var missing []uint8
		var total int64
		if err := rows.Scan(&p.Hash, &p.ProfileID, &values, &missing, &total); err != nil {
			return err
		}
		if r.Total {
			s.cursor.Total = total
		}
		p.Keys = make([]planner.Key, len(values))
		for i := range values {
			invalid = invalid || planner.InvalidScore(s.sorts, i, values[i])
			p.Keys[i] = planner.Key{Missing: missing[i] != 0, Value: values[i]}
		}
		hits = append(hits, p)
		return nil
	})
	if invalid && err == nil {
		return nil, &TooExpensiveError{invalidScore}
	}
	return hits, err
}
