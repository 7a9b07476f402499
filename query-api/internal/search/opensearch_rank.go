package search

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"muster/query-api/internal/search/dsl"
	"muster/query-api/internal/search/planner"
	"muster/schemas/searchindex"
)

const (
	// tieSample is the expected number of matching people, for each hit of a page, in the first range of hashes in which
	// people with the score of its last hit are looked for. At 100,000 people, 100 for each cost less than a round trip.
	tieSample = 100
	// tieGrowth is the factor from one range to the next.
	tieGrowth = 16
	// tieMargin is how many hits beyond the page are ranked by scores, in case that few people have the score of its last
	// hit. They cost less than another request.
	tieMargin = 40
)

// rankRemote returns the total, the aggregations, and the hits of the page and the one after it, in order.
//
// A first page is counted and ranked by concurrent requests: a ranking that need not count skips most of the people who
// match. Later pages, and those whose order skips nothing, take one request.
func (s *Search) rankRemote(ctx context.Context) (*searchResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.searcher.cfg.Timeout)
	defer cancel()
	page, count, err := s.remoteRequests()
	if err != nil {
		return nil, err
	}
	if count == nil {
		return s.sendRemote(ctx, page)
	}
	var counted, ranked *searchResponse
	g, working := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		counted, err = s.sendRemote(working, count)
		return err
	})
	g.Go(func() (err error) {
		ranked, err = s.sendRemote(working, s.withoutTieBreak(page))
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	counted.Hits.Hits = ranked.Hits.Hits
	if s.isRankedByScore() {
		if counted.Hits.Hits, err = s.breakTies(ctx, page, ranked.Hits.Hits, counted.Hits.Total.Value); err != nil {
			return nil, err
		}
	}
	// The index may have changed between the requests.
	counted.Hits.Total.Value = max(counted.Hits.Total.Value, int64(len(counted.Hits.Hits)))
	return counted, nil
}

// isRankedByScore reports whether a page is ranked by scores, then hashes and IDs. If OpenSearch sorts by all three, it
// reads the values of all people who have a score of the page: of all matches, if scores are constant.
func (s *Search) isRankedByScore() bool {
	return s.sorts[0].Kind == planner.SortScore && s.sorts[0].Descending && s.request.From == 0 && s.collapse == nil &&
		(len(s.sorts) == 1 || s.sorts[1].Kind == planner.SortDocument)
}

// canSkip reports whether OpenSearch ranks a page faster if it does not count: by scores, by a field of the person, or
// by hash.
func (s *Search) canSkip() bool {
	if s.collapse != nil {
		return false
	}
	first := s.sorts[0]
	return s.isRankedByScore() || first.Kind == planner.SortDocument ||
		first.Kind == planner.SortField && first.Nested == nil && first.Children == nil
}

// withoutTieBreak returns a request that ranks by scores alone, if the page is ranked by scores.
func (s *Search) withoutTieBreak(page dsl.Object) dsl.Object {
	if !s.isRankedByScore() {
		return page
	}
	page = maps.Clone(page)
	delete(page, "sort")
	page["docvalue_fields"] = []string{searchindex.FieldHash, searchindex.FieldID}
	page["size"] = s.request.Size + 1 + s.tieMargin()
	return page
}

// tieMargin returns the number of hits beyond the page and the one after it: none if hits are large.
func (s *Search) tieMargin() int {
	if len(innerClauses(s.node)) > 0 || len(s.named) > 0 {
		return 0
	}
	return tieMargin
}

// breakTies orders hits that are ranked by scores alone by score, hash and ID, and returns those of the page and the one
// after it. If there may be more people with the score of the last hit of the page, it searches for those with the
// lowest hashes, in a range of hashes that grows. total is the number of people who match.
func (s *Search) breakTies(ctx context.Context, page dsl.Object, hits []searchHit, total int64) ([]searchHit, error) {
	size := s.request.Size
	if asked := size + 1 + s.tieMargin(); len(hits) < asked || hits[asked-1].Score < hits[size-1].Score {
		slices.SortFunc(hits, compareScores)
		return hits[:min(size+1, len(hits))], nil
	}
	for people := int64(tieSample * (size + 1)); ; people *= tieGrowth {
		tied, err := s.sendRemote(ctx, s.tiesRequest(page, hits[size].Score, float64(people)/float64(total)))
		if err != nil {
			return nil, err
		}
		merged, ok := mergeTies(hits[:size+1], tied.Hits.Hits, hits[size].Score)
		if ok && len(merged) > size {
			slices.SortFunc(merged, compareScores)
			return merged, nil
		}
		if !ok || people >= total { // The index has changed since the first request.
			whole, err := s.sendRemote(ctx, page)
			if err != nil {
				return nil, err
			}
			return whole.Hits.Hits, nil
		}
	}
}

// tiesRequest asks for people with at least a score and the lowest hashes. Only the given share of the hashes is
// searched, unless it is 1 or more.
func (s *Search) tiesRequest(page dsl.Object, score float32, share float64) dsl.Object {
	ties, query := s.withoutTieBreak(page), page["query"]
	if share < 1 {
		last := searchindex.SortableHash(uint64(share * (1 << 64)))
		query = dsl.Object{"bool": dsl.Object{
			"must": query, "filter": dsl.Object{"range": dsl.Object{searchindex.FieldHash: dsl.Object{"lte": last}}},
		}}
	}
	// The parameter min_score of a request is applied too late for OpenSearch to skip people with greater hashes.
	ties["query"] = dsl.Object{"function_score": dsl.Object{"query": query, "min_score": score}}
	ties["sort"], ties["size"] = s.searcher.remote.renderer.TieBreak(), page["size"]
	return ties
}

// mergeTies replaces those of hits whose score is boundary, the lowest, by those of tied, which are ordered by hash and
// ID. The result is shorter than hits if tied has too few. It returns false if the two contradict each other.
func mergeTies(hits, tied []searchHit, boundary float32) (merged []searchHit, ok bool) {
	better := map[string]bool{}
	for _, h := range hits {
		if h.Score > boundary {
			better[h.place.ID] = true
			merged = append(merged, h)
		}
	}
	for _, h := range tied {
		if better[h.place.ID] != (h.Score > boundary) {
			return nil, false
		}
		if h.Score == boundary && len(merged) < len(hits) {
			merged = append(merged, h)
		}
	}
	return merged, true
}

// compareScores compares hits by score, the highest first, then hash and ID.
func compareScores(a, b searchHit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.place.Hash, b.place.Hash),
		cmp.Compare(a.place.ID, b.place.ID))
}
