package postings

import (
	"context"
	"errors"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
)

// aheadFrom is from how many rows on a part is read ahead. What smaller ones take nobody notices.
const aheadFrom = 100_000

// Ahead is what is read of each large part once it is there, while nothing else is read, before a search would have to
// wait for it: how long the texts are that a query scores.
type Ahead struct {
	Node algebra.Node
	// Then is called behind it, with a context that is [Behind].
	Then func(context.Context, *Snapshot) error
}

// Begin looks for the parts, and reads who is in them, before the first search. That the table cannot be held yet is
// not remembered: it may be empty, or not there.
func (x *Index) Begin(ahead Ahead) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.running {
		return
	}
	x.ahead = &ahead
	x.next, x.running = &round{done: make(chan struct{})}, true
	x.working.Go(x.look)
}

// readAhead begins to read what is new of a snapshot. Only looks call it.
func (x *Index) readAhead(s *Snapshot) {
	x.mu.Lock()
	ahead := x.ahead
	x.mu.Unlock()
	if ahead == nil {
		return
	}
	l := &loader{Index: x, snapshot: s, behind: true}
	large := make(map[string]bool)
	for _, p := range s.parts {
		if p.size < aheadFrom {
			continue
		}
		large[p.identity] = true
		if !x.isAhead[p.identity] {
			l.views = append(l.views, newView(p))
		}
	}
	if len(l.views) == 0 || !x.left.CompareAndSwap(false, true) {
		return
	}
	x.isAhead = large
	x.working.Go(func() {
		defer x.left.Store(false)
		ctx, cancel := context.WithTimeout(behind(x.living), SharedTimeout)
		defer cancel()
		l.ctx = ctx
		_ = errors.Join(l.lengths(ahead.Node), ahead.Then(ctx, s)) // who asks reads what was not
	})
}

// lengths reads those of the texts of a query.
func (l *loader) lengths(node algebra.Node) error {
	c := compiler{stats: planner.NewStats(), needs: newNeeds(), pace: &pace{ctx: l.ctx}}
	if _, err := c.node(node, "", true); err != nil {
		return err
	}
	n := newNeeds()
	n.norms, n.paths = c.needs.norms, c.needs.paths
	people := 0
	for _, v := range l.views {
		people += v.part.size
	}
	if people*len(n.norms) > l.cfg.MaxBytes/2 {
		return errors.New("postings: the lengths take more memory than they are worth")
	}
	l.kept.all(l.Index, l.views, n)
	return errors.Join(l.load(n), l.keep())
}
