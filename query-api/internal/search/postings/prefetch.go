package postings

import (
	"context"
	"errors"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
)

// minPrefetchRows is the size of the smallest part that is prefetched. Smaller ones load within a query.
const minPrefetchRows = 100_000

// Prefetch describes what the index reads of each new large part in the background, before a query needs it: the
// lengths of the texts that Node scores.
type Prefetch struct {
	Node algebra.Node
	// Then is called afterwards, with a background context.
	Then func(context.Context, *Snapshot) error
}

// WarmUp loads the parts before the first search. It does not record that the table is unavailable: the table may not
// exist yet.
func (x *Index) WarmUp(prefetch Prefetch) {
	x.mu.Lock()
	x.prefetching = &prefetch
	x.mu.Unlock()
	x.refreshes.Begin()
}

// prefetch starts reading the new large parts of a snapshot. Only refreshes call it.
func (x *Index) prefetch(s *Snapshot) {
	x.mu.Lock()
	ahead := x.prefetching
	x.mu.Unlock()
	if ahead == nil {
		return
	}
	l := &loader{Index: x, snapshot: s, background: true}
	large := make(map[string]bool)
	for _, p := range s.parts {
		if p.size < minPrefetchRows {
			continue
		}
		large[p.identity] = true
		if !x.prefetched[p.identity] {
			l.views = append(l.views, newView(p, s))
		}
	}
	if len(l.views) == 0 || !x.finishing.CompareAndSwap(false, true) {
		return
	}
	x.prefetched = large
	x.working.Go(func() {
		defer x.finishing.Store(false)
		ctx, cancel := context.WithTimeout(background(x.lifetime), SharedTimeout)
		defer cancel()
		l.ctx = ctx
		_ = errors.Join(l.lengths(ahead.Node), ahead.Then(ctx, s)) // best effort: queries read what is missing
	})
}

// lengths reads the lengths of the texts of a query.
func (l *loader) lengths(node algebra.Node) error {
	c := compiler{stats: planner.NewStats(), needs: newNeeds(), pace: &pace{ctx: l.ctx}}
	if _, err := c.node(node, "", true); err != nil {
		return err
	}
	n := newNeeds()
	n.norms, n.paths = c.needs.norms, c.needs.paths
	if l.rows()*len(n.norms) > l.cfg.MaxBytes/2 {
		return errors.New("postings: the lengths exceed half of the memory")
	}
	l.cache.fill(l.Index, l.views, n)
	return errors.Join(l.load(n), l.keep())
}
