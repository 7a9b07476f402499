package postings

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"muster/query-api/internal/search/planner"
	"muster/schemas/readmodel"
)

// elements are the positions of the elements of a nested path, person by person.
type elements struct {
	starts []uint32 // of each person's elements, and the end of the last
	owners []uint32 // of each element
}

func (e *elements) bytes() int { return 64 + 4*len(e.starts) + 4*len(e.owners) }

// norms are the lengths of a text, encoded as Lucene's norms, one for each unit.
type norms []uint8

func (n norms) bytes() int { return 64 + len(n) }

// The kinds of cached data of a part.
const (
	leafKind     = "leaf\x00"
	normsKind    = "norms\x00"
	valuesKind   = "values\x00"
	elementsKind = "elements\x00"
)

// valuesKey returns the cache key of a column.
func (n *needs) valuesKey(v *view, name string) entryKey {
	if n.seen != "" && planner.ReadsUpdatedAt(n.values[name]) {
		return v.key(valuesKind, name+"\x00"+n.seen, false)
	}
	return v.key(valuesKind, name, n.values[name].Linked)
}

// reader is a query that reads: the number of its concurrent statements, and whether it yields to cheaper ones.
type reader struct {
	workers  int
	yielding bool
}

// views reads what a query needs and is not cached. It returns errChanged if a part disappears meanwhile.
func (x *Index) views(ctx context.Context, s *Snapshot, n *needs, r reader) ([]*view, error) {
	views := make([]*view, len(s.parts))
	for i, p := range s.parts {
		views[i] = newView(p, s)
	}
	if !s.Unseen {
		n.seen = s.seen
	}
	if x.cache.fill(x, views, n) {
		return views, nil
	}
	loads := x.loads[0]
	if r.yielding {
		loads = x.loads[1]
	}
	select {
	case loads <- struct{}{}:
		defer func() { <-loads }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if x.cache.fill(x, views, n) { // another load has read it meanwhile
		return views, nil
	}
	for _, some := range byReplica(views) {
		l := &loader{Index: x, ctx: ctx, snapshot: s, views: some, workers: r.workers}
		if err := l.load(n); err != nil {
			if ctx.Err() != nil {
				l.leave(n)
			}
			return nil, err
		}
		if err := l.publish(); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// byReplica groups views by the replica of their parts, since a statement reads from one replica.
func byReplica(views []*view) [][]*view {
	var out [][]*view
	at := make(map[planner.Replica]int)
	for _, v := range views {
		i, ok := at[v.part.replica]
		if !ok {
			i = len(out)
			at[v.part.replica], out = i, append(out, nil)
		}
		out[i] = append(out[i], v)
	}
	return out
}

// load reads what the views lack: first where elements are, then the rest, concurrently if there are several workers.
func (l *loader) load(n *needs) error {
	if err := l.loadElements(n); err != nil {
		return err
	}
	if err := l.loadValues(n, true); err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(max(1, l.workers))
	var failed atomic.Bool
	for _, step := range []func() error{
		func() error { return l.loadLeaves(n) },
		func() error { return l.loadNorms(n) },
		func() error { return l.loadValues(n, false) },
	} {
		g.Go(func() error {
			if failed.Load() {
				return nil
			}
			err := step()
			failed.Store(err != nil)
			return err
		})
	}
	return g.Wait()
}

// fill fills views from the cache and reports whether nothing is missing.
func (c *cache) fill(x *Index, views []*view, n *needs) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	complete := true
	take := func(key entryKey) sized {
		value, ok := c.get(key)
		complete = complete && ok
		return value
	}
	for _, v := range views {
		for key, leaf := range n.leaves {
			if m, ok := take(v.key(leafKind, key, leaf.Linked())).(*matched); ok {
				v.leaves[key] = m
			}
		}
		for key, text := range n.norms {
			if m, ok := take(v.key(normsKind, key, text.Field.Linked)).(norms); ok {
				v.norms[key] = m
			}
		}
		for key := range n.values {
			if m, ok := take(n.valuesKey(v, key)).(*values); ok {
				v.values[key] = m
			}
		}
		for path := range n.paths {
			if m, ok := take(v.key(elementsKind, path, isLinked(x.cfg.Collection, path))).(*elements); ok {
				v.elements[path] = m
			}
		}
	}
	return complete
}

// loader reads missing data for one query.
type loader struct {
	*Index
	ctx        context.Context
	snapshot   *Snapshot
	views      []*view
	workers    int  // statements that run concurrently; less than 2: one
	background bool // no search waits for it

	reading sync.Mutex // guards the fields below and the maps of views while several workers read
	read    []entry
	bytes   int // of read
}

// note records data for the cache. It requires reading to be locked.
func (l *loader) note(key entryKey, value sized) {
	l.read = append(l.read, entry{key, value})
	l.bytes += value.bytes()
}

// isLinked reports whether a path is a list of values of linked accounts.
func isLinked(of *readmodel.SearchCollection, path string) bool {
	return slices.ContainsFunc(of.Fields, func(f readmodel.SearchField) bool {
		return f.Nested == path && f.Linked
	})
}

// checkSize returns an error, with reading locked, if the data read exceeds the memory limit.
func (l *loader) checkSize() error {
	if l.bytes > l.cfg.MaxBytes {
		return &TooLarge{
			fmt.Sprintf("the query needs more than %d MiB of the search index, which is the limit of one "+
				"query may (--search-index-memory): name fewer fields, or fewer words", l.cfg.MaxBytes>>20),
		}
	}
	return nil
}

// leave caches what was read before the query's time was over. If no other such load runs, it reads the rest in the
// background for the next search.
func (l *loader) leave(n *needs) {
	first := l.finishing.CompareAndSwap(false, true)
	if !first && len(l.read) == 0 {
		return
	}
	l.working.Go(func() {
		ctx, cancel := context.WithTimeout(background(l.lifetime), SharedTimeout)
		defer cancel()
		l.ctx, l.background, l.workers = ctx, true, 1
		if first {
			defer l.finishing.Store(false)
		}
		err := l.keep()
		if first && err == nil {
			err = l.load(n)
		}
		// best effort: the next query reads what was not cached
		_ = errors.Join(err, l.keep())
	})
}

// keep caches what was read so far, if no search waits for it.
func (l *loader) keep() error {
	if !l.background || len(l.read) == 0 {
		return nil
	}
	err := l.publish()
	l.read = nil
	return err
}

type backgroundKey struct{}

func background(ctx context.Context) context.Context {
	return context.WithValue(ctx, backgroundKey{}, true)
}

// IsBackground reports whether no call waits for a statement, so that it yields to others.
func IsBackground(ctx context.Context) bool { return ctx.Value(backgroundKey{}) != nil }

// publish caches what was read, if the parts still exist.
func (l *loader) publish() error {
	now, err := l.Latest(l.ctx)
	if err != nil {
		return err
	}
	active := make(map[string]bool, len(now.parts))
	for _, p := range now.parts {
		active[p.identity] = true
	}
	l.mu.Lock()
	for _, e := range l.read {
		// Data of linked accounts may be newer than its key says, unless they are unchanged.
		if active[e.key.part] && (e.key.linked == "" || e.key.linked == now.linked) {
			l.cache.put(e.key, e.value)
		}
	}
	l.mu.Unlock()
	for _, p := range l.snapshot.parts {
		if !active[p.identity] {
			return errChanged
		}
	}
	return nil
}

// Changed reports whether an error is that of a part that disappeared while it was read. The question can be repeated
// as of the next snapshot.
func Changed(err error) bool { return errors.Is(err, errChanged) }
