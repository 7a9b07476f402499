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

// maxAsked is more terms than a statement is ever done with in the time of a search: each takes half a millisecond before
// anything is read, and writing the statement down takes as long again.
const maxAsked = 8192

// ranking is a page: where its people stand, and what is shown of them.
type ranking struct {
	places    []planner.Place
	documents []readstore.Document // one a place
	more      bool                 // others follow
}

// people reads the page by SQL and, for the first, what all pages need beside: the
// total, and the statistics of scores.
func (s *Search) people(ctx context.Context) (*ranking, error) {
	if err := s.expand(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.searcher.cfg.Timeout)
	defer cancel()
	var err error
	if s.from.Refreshed, err = s.searcher.refreshed(ctx, s.node, s.sorts); err != nil {
		return nil, err
	}
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
		places, err := s.rank(ctx, total, identified)
		if err != nil {
			return nil, err
		}
		r, err := s.shown(ctx, places, readstore.AsOf{})
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
	if planner.WorthStages(s.node, s.sorts, s.cursor.Stats) {
		var err error
		if r.Staged, err = s.searcher.largeAtRest(ctx); err != nil {
			return nil, err
		}
	}
	if !total && !r.Staged {
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
