package search

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"muster/platform/clickhouse"
	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
)

// termCount is a cached count of a term.
type termCount struct {
	count  int64
	at     time.Time
	maxAge time.Duration
}

// fieldStats are cached statistics of a field.
type fieldStats struct {
	planner.FieldStats
	at       time.Time
	maxAge   time.Duration
	snapshot uint64 // of the index, while which is current they are valid after maxAge, too; 0: of none
}

// maxConcurrentStatements is the number of statements that an expensive query may run concurrently if no other search
// runs: they take too little time to delay others.
const maxConcurrentStatements = 4

// findAbsentTerms finds the terms of a query with many terms that no document has, and marks them in its statistics.
func (s *Search) findAbsentTerms(ctx context.Context) error {
	statements := planner.PresenceStatements(s.node, planner.SortFilters(s.sorts), firstBlend)
	if len(statements) == 0 {
		return nil
	}
	key := []string{"absent"}
	for _, p := range statements {
		for _, keys := range p.Groups {
			key = append(key, keys...)
		}
	}
	absent, err := s.memoizeTerms(key, func() ([]string, error) { return s.readAbsentTerms(ctx, statements) })
	for _, key := range absent {
		s.cursor.Stats.Terms[key], s.cursor.Stats.Absent[key] = 0, true
	}
	return err
}

// readAbsentTerms returns the keys of the terms that no document has.
func (s *Search) readAbsentTerms(ctx context.Context, statements []planner.Presence) ([]string, error) {
	var mu sync.Mutex
	present := make(map[int]bool)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(1)
	t := slotFrom(ctx)
	if t.mayUseAllThreads() || t.isOnlySearch() && len(statements) <= maxConcurrentStatements {
		g.SetLimit(s.searcher.cfg.Threads)
	}
	for _, p := range statements {
		g.Go(func() error {
			return s.searcher.lookUpTerms(ctx, p, func(rows driver.Rows) error {
				var numbers []uint16
				if err := rows.Scan(&numbers); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				for _, n := range numbers {
					present[p.First+int(n)] = true
				}
				return nil
			})
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out := []string{}
	for _, p := range statements {
		for i, keys := range p.Groups {
			if !present[p.First+i] {
				out = append(out, keys...)
			}
		}
	}
	return out, nil
}

// lookUpTerms looks up terms in text indexes or, if those cannot be read, in the columns.
func (s *Searcher) lookUpTerms(ctx context.Context, p planner.Presence, scan func(driver.Rows) error) error {
	if s.usesIndex(p) {
		err := s.query(ctx, stepTerms, p.Index, scan)
		var noIndex *noIndexError
		if !errors.As(err, &noIndex) {
			return err
		}
		s.disableIndexReads()
	}
	return s.query(ctx, "columns", p.Columns, scan)
}

// usesIndex reports whether lookUpTerms reads text indexes.
func (s *Searcher) usesIndex(p planner.Presence) bool { return p.Index.SQL != "" && s.canReadIndex() }

// canReadIndex reports whether text indexes can be read as tables, as far as is known.
func (s *Searcher) canReadIndex() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.deps.Now().Before(s.noIndexUntil)
}

// disableIndexReads makes canReadIndex false for a minute.
func (s *Searcher) disableIndexReads() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noIndexUntil = s.deps.Now().Add(time.Minute)
}

// count reads the statistics of scores that are not cached, and the total if one statement can read both. counted
// reports whether the total was read.
func (s *Search) count(ctx context.Context) (counted bool, err error) {
	stats := s.cursor.Stats
	scoresDecide := planner.ScoresDecide(s.node)
	if !scoresDecide && (!planner.Scores(s.node, s.sorts) || s.request.Size == 0) {
		return false, nil
	}
	filters := planner.SortFilters(s.sorts)
	// If scores decide what matches, hits are counted after the terms; if the query is expensive to match, by the
	// statement that ranks.
	total := !scoresDecide && !planner.Dear(s.node, s.sorts)
	statement, keys := planner.TermStatement(s.node, filters, total, s.from, stats, func(key string) bool {
		return s.searcher.cachedTerm(key, stats)
	})
	if planner.AtMost(s.node, stats) == 0 { // The cached counts are 0: the first match may have arrived since.
		statement, keys = planner.TermStatement(s.node, filters, total, s.from, stats, func(key string) bool {
			return stats.Terms[key] > 0
		})
	}
	if len(keys) > 0 {
		began := s.searcher.deps.Now()
		if err := s.readCounts(ctx, statement, keys); err != nil {
			return false, err
		}
		s.searcher.cacheTerms(keys, stats, began)
		counted = total
	}
	if counted && s.cursor.Total == 0 {
		return true, nil
	}
	if err := s.searcher.countFields(ctx, s.node, filters, stats, 0); err != nil {
		return false, err
	}
	return counted, s.searcher.countRepeats(ctx, s.node, stats)
}

// countRepeats reads how many bits the repeats of the terms that scores need take, if it is not cached and the text
// index can be read.
func (s *Searcher) countRepeats(ctx context.Context, n algebra.Node, stats *planner.Stats) error {
	now := s.deps.Now()
	s.mu.Lock()
	statement, keys := planner.TimesStatement(n, stats, func(key string) bool {
		t, ok := s.repeats[key]
		if ok = ok && now.Sub(t.at) <= t.maxAge; ok {
			stats.Bits[key] = t.count
		}
		return ok
	})
	s.mu.Unlock()
	if len(keys) == 0 || !s.canReadIndex() {
		return nil
	}
	counts := make(map[string]int64)
	err := s.query(ctx, stepRepeats, statement, func(rows driver.Rows) error {
		var field, word string
		var bits uint64
		if err := rows.Scan(&field, &word, &bits); err != nil {
			return err
		}
		counts[planner.TermKey(field, word)] = int64(bits)
		return nil
	})
	var noIndex *noIndexError
	if errors.As(err, &noIndex) {
		s.disableIndexReads()
		return nil
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.repeats)+len(keys) > maxTerms {
		clear(s.repeats)
	}
	for _, key := range keys {
		stats.Bits[key] = counts[key]
		s.repeats[key] = termCount{count: counts[key], at: now, maxAge: s.cfg.StatsAge}
	}
	return nil
}

// The steps that read text indexes: which terms exist, and how often they are repeated.
const (
	stepTerms   = "terms"
	stepRepeats = "repeats"
)

// maxTerms is the maximum number of cached term counts.
const maxTerms = 100_000

// cachedTerm copies the cached count of a term to stats and reports whether there is one.
func (s *Searcher) cachedTerm(key string, stats *planner.Stats) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.terms[key]
	if !ok || s.deps.Now().Sub(t.at) > t.maxAge {
		return false
	}
	stats.Terms[key] = t.count
	return true
}

// cacheTerms caches counts that were read since began. Counts of 0 are cached for StatsAge only.
func (s *Searcher) cacheTerms(keys []string, stats *planner.Stats, began time.Time) {
	maxAge := s.maxAge(began)
	if limit := maxTermAge * s.cfg.StatsAge; limit > 0 {
		maxAge = min(maxAge, limit)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.terms)+len(keys) > maxTerms {
		clear(s.terms)
	}
	for _, key := range keys {
		t := termCount{count: stats.Terms[key], at: began, maxAge: maxAge}
		if t.count == 0 {
			t.maxAge = s.cfg.StatsAge
		}
		s.terms[key] = t
	}
}

// maxAge returns how long counts are cached that were read since began: proportionally longer if reading took long.
func (s *Searcher) maxAge(began time.Time) time.Duration {
	took := s.deps.Now().Sub(began)
	return time.Duration(float64(s.cfg.StatsAge) * max(1, took.Seconds()/slowCount.Seconds()))
}

// maxTermAge limits how long counts of terms are cached, as a multiple of StatsAge: the time that they took includes
// pauses for other searches.
const maxTermAge = 6

// readCounts reads the total and the document frequency of each term.
func (s *Search) readCounts(ctx context.Context, statement planner.Statement, keys []string) error {
	var counts []int64
	err := s.searcher.query(ctx, "count", statement, func(rows driver.Rows) error {
		return rows.Scan(&s.cursor.Total, &counts)
	})
	if err != nil {
		return err
	}
	if len(counts) != len(keys) {
		return fmt.Errorf("search: %d counts of %d terms", len(counts), len(keys))
	}
	for i, key := range keys {
		s.cursor.Stats.Count(key, counts[i])
	}
	return nil
}

// countFields reads the statistics of the fields that scores need, unless they are cached. Those of the current
// snapshot of the index do not expire; snapshot is 0 without one.
func (s *Searcher) countFields(ctx context.Context, n algebra.Node, filters []algebra.Node, stats *planner.Stats,
	snapshot uint64) error {
	cached := func(name string) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		f, ok := s.fields[name]
		if !ok || s.deps.Now().Sub(f.at) > f.maxAge && (snapshot == 0 || f.snapshot != snapshot) {
			return false
		}
		stats.Fields[name] = f.FieldStats
		return true
	}
	for _, c := range planner.FieldStatements(n, filters, stats, cached) {
		began := s.deps.Now()
		var counts []int64
		scan := func(rows driver.Rows) error { return rows.Scan(&counts) }
		if err := s.query(ctx, "field_stats", c.Statement, scan); err != nil {
			return err
		}
		if len(counts) != 2*len(c.Names) {
			return fmt.Errorf("search: %d counts of %d fields", len(counts), len(c.Names))
		}
		maxAge := s.maxAge(began)
		s.mu.Lock()
		for i, name := range c.Names {
			f := planner.FieldStats{Documents: counts[2*i], Terms: counts[2*i+1]}
			stats.Fields[name] = f
			s.fields[name] = fieldStats{FieldStats: f, at: began, maxAge: maxAge, snapshot: snapshot}
		}
		s.mu.Unlock()
	}
	return nil
}

// slowCount is the time from which counts are cached for longer than StatsAge.
const slowCount = 20 * time.Millisecond

// bumpState caches whether there are version bumps (newer versions of unchanged people).
type bumpState struct {
	any bool
	at  time.Time
}

// maxBumpAge is how long the absence of version bumps is cached. Their presence is cached forever.
const maxBumpAge = 200 * time.Millisecond

// hasVersionBumps reports whether version bumps may change the result of a query.
func (s *Searcher) hasVersionBumps(ctx context.Context, n algebra.Node, sorts []planner.Sort) (bool, error) {
	if !planner.ReadsUpdates(n, sorts) {
		return false, nil
	}
	now := s.deps.Now()
	s.mu.Lock()
	state := s.bumps
	s.mu.Unlock()
	if state.any || !state.at.IsZero() && now.Sub(state.at) < maxBumpAge {
		return state.any, nil
	}
	state = bumpState{at: now}
	err := s.query(ctx, "refreshed", planner.RefreshedStatement(), func(driver.Rows) error {
		state.any = true
		return nil
	})
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	s.bumps = state
	s.mu.Unlock()
	return state.any, nil
}

// partsState caches whether many people are in a single part.
type partsState struct {
	large  bool
	at     time.Time
	denied bool // system.parts cannot be read
}

// stepParts is the step that reads the parts of the table.
const stepParts = "parts"

// shouldCountSeparately reports whether the total has a statement of its own (Config.SeparateCountMinHits). The query
// is then matched twice, which is cheap only if the table has a single part, where each person is once.
func (s *Search) shouldCountSeparately(ctx context.Context) (bool, error) {
	if planner.ScoresDecide(s.node) || planner.Dear(s.node, s.sorts) || s.from.Refreshed ||
		planner.AtMost(s.node, s.cursor.Stats) < s.searcher.cfg.SeparateCountMinHits {
		return false, nil
	}
	return s.searcher.isLargeSinglePart(ctx)
}

// isLargeSinglePart reports whether many people are in a single part. The answer is cached for StatsAge.
func (s *Searcher) isLargeSinglePart(ctx context.Context) (bool, error) {
	now := s.deps.Now()
	s.mu.Lock()
	state := s.parts
	s.mu.Unlock()
	if state.denied || !state.at.IsZero() && now.Sub(state.at) < s.cfg.StatsAge {
		return state.large, nil
	}
	state = partsState{at: now}
	err := s.query(ctx, stepParts, planner.PartsStatement(), func(rows driver.Rows) error {
		var parts, people uint64
		if err := rows.Scan(&parts, &people); err != nil {
			return err
		}
		state.large = parts == 1 && int64(people) >= s.cfg.SeparateCountMinHits
		return nil
	})
	if code, ok := clickhouse.CodeOf(err); ok && code == proto.ErrAccessDenied {
		s.deps.Logger.Warn("search: no access to system.parts, counting large totals while ranking",
			slog.Any("error", err))
		state.denied, err = true, nil
	}
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	s.parts = state
	s.mu.Unlock()
	return state.large, nil
}
