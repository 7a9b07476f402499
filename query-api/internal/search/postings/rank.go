package postings

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/schemas/readmodel"
)

// Question is a page that is asked for.
type Question struct {
	Node  algebra.Node
	Sort  []planner.Sort
	Stats *planner.Stats
	// First counts, in Stats, the terms that scores need.
	First bool
	After *planner.Place // nil: from the beginning
	Limit int            // people of the page; 0 counts alone
	// Hidden are the profile hashes of people who neither rank nor count.
	Hidden []uint64
	// MaxTime bounds ranking, once everything is read; 0: it does not. context.DeadlineExceeded is the error.
	MaxTime time.Duration
	// Workers is how many go over the people at the same time; at least 1.
	Workers int
	// Yielding lets other goroutines have the processor after each window: those of queries that take less.
	Yielding bool
	// CountFields counts in Stats what scores need of fields. It is called when the terms are known.
	CountFields func(context.Context, *Snapshot) error
}

// Answer is a page.
type Answer struct {
	Places []planner.Place
	Total  int64
	// Invalid: somebody's score is none, and comes first.
	Invalid bool
}

// Supported says whether the sort keys of a query are known: nil or an ErrUnsupported.
func Supported(q *Question) error {
	if len(planner.SortFilters(q.Sort)) > 0 {
		return unsupported("a sort key with a filter")
	}
	for _, s := range q.Sort {
		if s.Kind == planner.SortField && (s.Field.Nested != "" || s.Field.IsString() || s.Field.Type == readmodel.SearchBoolean) {
			return unsupported("a sort by " + s.Field.Name())
		}
	}
	return nil
}

// Rank answers a question as of a snapshot. Errors are ErrUnsupported, one that is Changed, or those of reading.
func (x *Index) Rank(ctx context.Context, s *Snapshot, q *Question) (*Answer, error) {
	scored := q.Limit > 0 && planner.Scored(q.Sort)
	if q.First {
		if err := x.count(ctx, s, q); err != nil {
			return nil, err
		}
	}
	c := compiler{stats: q.Stats, needs: newNeeds(), weights: planner.NewWeights(q.Stats, q.Node), pace: &pace{ctx: ctx, yielding: q.Yielding}}
	if _, err := c.node(q.Node, "", scored); err != nil {
		return nil, err
	}
	for _, key := range q.Sort {
		if key.Kind == planner.SortField {
			if _, err := c.column(key.Field, ""); err != nil {
				return nil, err
			}
		}
	}
	views, err := x.views(ctx, s, c.needs, q.Yielding)
	if err != nil {
		return nil, err
	}
	if q.MaxTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.MaxTime)
		defer cancel()
	}
	people := 0
	for _, v := range views {
		people += v.part.size
	}
	workers := max(1, min(q.Workers, people/(8*window)))
	collectors := make([]*collector, workers)
	g, working := errgroup.WithContext(ctx)
	for i := range collectors {
		var err error
		if collectors[i], err = newCollector(q, planner.Fallible(q.Node)); err != nil {
			return nil, errors.Join(err, g.Wait())
		}
		g.Go(func() error {
			own := c                                 // each has buffers of its own
			own.buffers = x.buffers.Get().(*buffers) //nolint:forcetypeassert // nothing else is in it
			own.buffers.pace = pace{ctx: working, yielding: q.Yielding}
			own.pace = &own.buffers.pace
			defer func() {
				own.buffers.pace = pace{}
				x.buffers.Put(own.buffers)
			}()
			mine := collectors[i]
			mine.scores, mine.matching = own.buffers.takeScores(window), own.buffers.takeBits(window/64)
			defer own.buffers.giveScores(mine.scores)
			defer own.buffers.giveBits(mine.matching)
			for _, v := range views {
				own.view, own.next = v, 0
				root, err := own.node(q.Node, "", scored)
				if err != nil {
					return err
				}
				windows := (v.part.size + window - 1) / window
				from, to := i*windows/workers*window, min((i+1)*windows/workers*window, v.part.size)
				if err := mine.collect(own.pace, v, root, q.Hidden, from, to); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for _, other := range collectors[1:] {
		collectors[0].join(other)
	}
	return collectors[0].answer(), nil
}

// join takes over whom another collector has found.
func (c *collector) join(other *collector) {
	c.total += other.total
	c.invalid = c.invalid || other.invalid
	c.best = append(c.best, other.best...)
	slices.SortFunc(c.best, func(a, b candidate) int { return a.compare(&b) })
	c.best = c.best[:min(len(c.best), c.limit)]
}

// Unread is how many leaves of a query have to be read. Terms that nobody has, as far as is known, are noted in its Stats.
func (x *Index) Unread(ctx context.Context, s *Snapshot, q *Question) (int, error) {
	algebra.Walk(q.Node, func(n algebra.Node) {
		note := func(f algebra.Field, text string) {
			key := planner.TermKey(f.Name(), text)
			if _, counted := q.Stats.Terms[key]; !counted && s.terms.absent(key) { // what the first page counted stays
				q.Stats.Count(key, 0)
			}
		}
		switch n := n.(type) {
		case algebra.Term:
			note(n.Field, n.Text)
		case algebra.Phrase:
			for _, position := range n.Terms {
				for _, text := range position {
					note(n.Field, text)
				}
			}
		}
	})
	c := compiler{stats: q.Stats, needs: newNeeds(), pace: &pace{ctx: ctx, yielding: q.Yielding}}
	if _, err := c.node(q.Node, "", true); err != nil {
		return 0, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	unread := 0
	for key := range c.needs.leaves {
		if _, ok := x.kept.get(entryKey{s.parts[0].identity, leafKind + key}); !ok {
			unread++
		}
	}
	return unread, nil
}

// Lacking notes terms that nobody has, by their keys.
func (s *Snapshot) Lacking(stats *planner.Stats) {
	for key := range stats.Absent {
		s.terms.count(key, 0)
	}
}

// count counts the terms that scores need, each among all people and elements who live.
func (x *Index) count(ctx context.Context, s *Snapshot, q *Question) error {
	decide := planner.ScoresDecide(q.Node)
	if !decide && (!planner.Scores(q.Node, q.Sort) || q.Limit == 0) {
		return nil
	}
	wanted := planner.Wanted(q.Node, q.Stats)
	n := newNeeds()
	leaves := make(map[string]string) // keys of what is not known yet, by those of their terms
	for key, t := range wanted {
		if t.Field.Identity {
			return unsupported("the identity as a term")
		}
		if q.Stats.Absent[key] {
			continue
		}
		if total, ok := s.terms.counted(key); ok {
			q.Stats.Count(key, total)
			continue
		}
		leaf := planner.Leaf{Node: algebra.Term{Field: t.Field, Text: t.Text}}
		leaves[key] = leaf.Key()
		n.leaves[leaves[key]] = leaf
	}
	if len(leaves) > 0 {
		views, err := x.views(ctx, s, n, q.Yielding)
		if err != nil {
			return err
		}
		for key, leaf := range leaves {
			total := int64(0)
			for _, v := range views {
				total += v.units(v.leaves[leaf], wanted[key].Field.Nested != "")
			}
			s.terms.count(key, total)
			q.Stats.Count(key, total)
		}
	}
	return q.CountFields(ctx, s)
}

// units is how many living people have a term, and how many of their elements.
func (v *view) units(m *matched, nested bool) int64 {
	if v.part.alive == nil {
		if !nested {
			return int64(m.n)
		}
		return 2*int64(m.n) + m.more
	}
	total := int64(0)
	m.each(func(unit uint32, place int) {
		if v.part.alive[unit>>6]>>(unit&63)&1 == 0 {
			return
		}
		total++
		if nested {
			total++
			if m.spread != nil {
				total += int64(m.spread[place])
			}
		}
	})
	return total
}
