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

// termCount is how many documents had a term at an instant.
type termCount struct {
	count int64
	at    time.Time
	age   time.Duration // for which it is good
}

type fieldStats struct {
	planner.FieldStats
	at       time.Time
	age      time.Duration // for which they are good
	snapshot uint64        // of postings, while which is the newest they are good, too; 0: of none
}

// fewStatements are over so soon that an expensive query, too, may send several at once while no other runs.
const fewStatements = 4

// sought looks for the terms of a query that names many, and notes those that nobody has.
func (s *Search) sought(ctx context.Context) error {
	statements := planner.PresenceStatements(s.node, planner.SortFilters(s.sorts), firstBlend)
	if len(statements) == 0 {
		return nil
	}
	asked := []string{"absent"}
	for _, p := range statements {
		for _, keys := range p.Groups {
			asked = append(asked, keys...)
		}
	}
	absent, err := remembered(ctx, asked, func() ([]string, error) { return s.absent(ctx, statements) })
	for _, key := range absent {
		s.cursor.Stats.Terms[key], s.cursor.Stats.Absent[key] = 0, true
	}
	return err
}

// absent gives the terms that nobody has, by their keys.
func (s *Search) absent(ctx context.Context, statements []planner.Presence) ([]string, error) {
	var mu sync.Mutex
	present := make(map[int]bool)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(1)
	if turn := turnOf(ctx); turn.alone() || turn.idle() && len(statements) <= fewStatements {
		g.SetLimit(s.searcher.cfg.Threads)
	}
	for _, p := range statements {
		g.Go(func() error {
			return s.searcher.seek(ctx, p, func(rows driver.Rows) error {
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

// seek looks for terms in the dictionaries of their indexes or, where those cannot be read, in the columns.
func (s *Searcher) seek(ctx context.Context, p planner.Presence, scan func(driver.Rows) error) error {
	if s.seeksIndex(p) {
		err := s.query(ctx, stepPresence, p.Index, scan)
		var none *unindexedError
		if !errors.As(err, &none) {
			return err
		}
		s.noteUnindexed()
	}
	return s.query(ctx, "columns", p.Columns, scan)
}

// seeksIndex says whether terms are looked for in the dictionaries of their indexes.
func (s *Searcher) seeksIndex(p planner.Presence) bool { return p.Index.SQL != "" && s.indexed() }

// indexed says whether text indexes may be read as tables, as far as is known.
func (s *Searcher) indexed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.deps.Now().Before(s.unindexed)
}

// noteUnindexed notes that they may not, for a minute.
func (s *Searcher) noteUnindexed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unindexed = s.deps.Now().Add(time.Minute)
}

// count reads the statistics of scores that are not known, and the total when
// it is to be had with them.
func (s *Search) count(ctx context.Context) (counted bool, err error) {
	stats := s.cursor.Stats
	decide := planner.ScoresDecide(s.node)
	if !decide && (!planner.Scores(s.node, s.sorts) || s.request.Size == 0) {
		return false, nil
	}
	filters := planner.SortFilters(s.sorts)
	// Where scores decide who matches the people are counted after the terms, and where finding them is dear by the
	// statement that ranks them.
	total := !decide && !planner.Dear(s.node, s.sorts)
	statement, keys := planner.TermStatement(s.node, filters, total, s.from, stats, func(key string) bool { return s.searcher.knownTerm(key, stats) })
	if planner.AtMost(s.node, stats) == 0 { // so it was: somebody may be the first
		statement, keys = planner.TermStatement(s.node, filters, total, s.from, stats, func(key string) bool { return stats.Terms[key] > 0 })
	}
	if len(keys) > 0 {
		began := s.searcher.deps.Now()
		if err := s.countPeople(ctx, statement, keys); err != nil {
			return false, err
		}
		s.searcher.keepTerms(keys, stats, began)
		counted = total
	}
	if counted && s.cursor.Total == 0 {
		return true, nil
	}
	if err := s.searcher.countFields(ctx, s.node, filters, stats, 0); err != nil {
		return false, err
	}
	return counted, s.searcher.countTimes(ctx, s.node, stats)
}

// countTimes reads how many bits the repeats take of the words that scores need, where it is not known and an index says so.
func (s *Searcher) countTimes(ctx context.Context, n algebra.Node, stats *planner.Stats) error {
	now := s.deps.Now()
	s.mu.Lock()
	statement, keys := planner.TimesStatement(n, stats, func(key string) bool {
		t, ok := s.bits[key]
		if ok = ok && now.Sub(t.at) <= t.age; ok {
			stats.Bits[key] = t.count
		}
		return ok
	})
	s.mu.Unlock()
	if len(keys) == 0 || !s.indexed() {
		return nil
	}
	found := make(map[string]int64)
	err := s.query(ctx, stepTimes, statement, func(rows driver.Rows) error {
		var field, word string
		var bits uint64
		if err := rows.Scan(&field, &word, &bits); err != nil {
			return err
		}
		found[planner.TermKey(field, word)] = int64(bits)
		return nil
	})
	var none *unindexedError
	if errors.As(err, &none) {
		s.noteUnindexed()
		return nil
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bits)+len(keys) > maxTerms {
		clear(s.bits)
	}
	for _, key := range keys {
		stats.Bits[key] = found[key]
		s.bits[key] = termCount{count: found[key], at: now, age: s.cfg.StatsAge}
	}
	return nil
}

// The steps that read indexes: whether anybody has words, and how often they are repeated.
const (
	stepPresence = "presence"
	stepTimes    = "times"
)

// maxTerms bounds the terms whose counts are kept.
const maxTerms = 100_000

// knownTerm takes the count of a term that was counted lately.
func (s *Searcher) knownTerm(key string, stats *planner.Stats) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.terms[key]
	if !ok || s.deps.Now().Sub(t.at) > t.age {
		return false
	}
	stats.Terms[key] = t.count
	return true
}

// keepTerms keeps counts for a while, that of a term that nobody had no longer than it must.
func (s *Searcher) keepTerms(keys []string, stats *planner.Stats, began time.Time) {
	age := s.age(began)
	if most := maxTermAge * s.cfg.StatsAge; most > 0 {
		age = min(age, most)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.terms)+len(keys) > maxTerms {
		clear(s.terms)
	}
	for _, key := range keys {
		t := termCount{count: stats.Terms[key], at: began, age: age}
		if t.count == 0 {
			t.age = s.cfg.StatsAge
		}
		s.terms[key] = t
	}
}

// age is how long counts are good that began to be read at an instant: those that take long are kept so many times longer.
func (s *Searcher) age(began time.Time) time.Duration {
	took := s.deps.Now().Sub(began)
	return time.Duration(float64(s.cfg.StatsAge) * max(1, took.Seconds()/longCount.Seconds()))
}

// maxTermAge is how many times longer counts of terms are kept at most: what they took includes pauses for other searches.
const maxTermAge = 6

// countPeople reads the total and who has each term.
func (s *Search) countPeople(ctx context.Context, statement planner.Statement, keys []string) error {
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

// countFields counts the fields that scores need, those not counted lately, or for a snapshot of postings.
func (s *Searcher) countFields(ctx context.Context, n algebra.Node, filters []algebra.Node, stats *planner.Stats, snapshot uint64) error {
	known := func(name string) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		f, ok := s.fields[name]
		if !ok || s.deps.Now().Sub(f.at) > f.age && (snapshot == 0 || f.snapshot != snapshot) {
			return false
		}
		stats.Fields[name] = f.FieldStats
		return true
	}
	for _, c := range planner.FieldStatements(n, filters, stats, known) {
		began := s.deps.Now()
		var counts []int64
		if err := s.query(ctx, "fields", c.Statement, func(rows driver.Rows) error { return rows.Scan(&counts) }); err != nil {
			return err
		}
		if len(counts) != 2*len(c.Names) {
			return fmt.Errorf("search: %d counts of %d fields", len(counts), len(c.Names))
		}
		age := s.age(began)
		s.mu.Lock()
		for i, name := range c.Names {
			f := planner.FieldStats{Documents: counts[2*i], Terms: counts[2*i+1]}
			stats.Fields[name] = f
			s.fields[name] = fieldStats{FieldStats: f, at: began, age: age, snapshot: snapshot}
		}
		s.mu.Unlock()
	}
	return nil
}

// longCount is how long counting may take without being kept longer than StatsAge for it.
const longCount = 20 * time.Millisecond

// seenState is what is known of newer versions of unchanged people: that there
// are none, since when, or that there are some.
type seenState struct {
	any bool
	at  time.Time
}

// seenAge is how long it is taken for granted that there are none.
const seenAge = 200 * time.Millisecond

// refreshed says whether newer versions matter to a query.
func (s *Searcher) refreshed(ctx context.Context, n algebra.Node, sorts []planner.Sort) (bool, error) {
	if !planner.ReadsUpdates(n, sorts) {
		return false, nil
	}
	now := s.deps.Now()
	s.mu.Lock()
	state := s.seen
	s.mu.Unlock()
	if state.any || !state.at.IsZero() && now.Sub(state.at) < seenAge {
		return state.any, nil
	}
	state = seenState{at: now}
	err := s.query(ctx, "refreshed", planner.RefreshedStatement(), func(driver.Rows) error {
		state.any = true
		return nil
	})
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	s.seen = state
	s.mu.Unlock()
	return state.any, nil
}

// restState is whether the people stood in one part at an instant.
type restState struct {
	large  bool
	at     time.Time
	denied bool // to be asked
}

// stepParts is the step that asks.
const stepParts = "parts"

// countedBeside says whether the total is read by a statement of its own (Config.CountBeside). That finds who matches
// twice, which is cheap only where it is not dear, and while the table is one part, whose people are each there once.
func (s *Search) countedBeside(ctx context.Context) (bool, error) {
	if planner.ScoresDecide(s.node) || planner.Dear(s.node, s.sorts) || s.from.Refreshed || planner.AtMost(s.node, s.cursor.Stats) < s.searcher.cfg.CountBeside {
		return false, nil
	}
	return s.searcher.largeAtRest(ctx)
}

// largeAtRest says whether many people stood in one part lately.
func (s *Searcher) largeAtRest(ctx context.Context) (bool, error) {
	now := s.deps.Now()
	s.mu.Lock()
	state := s.rest
	s.mu.Unlock()
	if state.denied || !state.at.IsZero() && now.Sub(state.at) < s.cfg.StatsAge {
		return state.large, nil
	}
	state = restState{at: now}
	err := s.query(ctx, stepParts, planner.PartsStatement(), func(rows driver.Rows) error {
		var parts, people uint64
		if err := rows.Scan(&parts, &people); err != nil {
			return err
		}
		state.large = parts == 1 && int64(people) >= s.cfg.CountBeside
		return nil
	})
	if code, ok := clickhouse.CodeOf(err); ok && code == proto.ErrAccessDenied {
		s.deps.Logger.Warn("search: the ClickHouse user may not read system.parts: totals of many people come with the ranks, which takes longer", slog.Any("error", err))
		state.denied, err = true, nil
	}
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	s.rest = state
	s.mu.Unlock()
	return state.large, nil
}
