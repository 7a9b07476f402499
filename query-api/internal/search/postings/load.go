package postings

import (
	"context"
	"errors"
	"fmt"

	"muster/query-api/internal/search/planner"
)

// elements are where the elements of a nested path stand that the people of a part have, one after the other.
type elements struct {
	starts []uint32 // of each person's, and the end of the last
	owners []uint32 // of each element
}

func (e *elements) bytes() int { return 64 + 4*len(e.starts) + 4*len(e.owners) }

// norms are the lengths of a text, as Lucene's norms keep them, one a unit.
type norms []uint8

func (n norms) bytes() int { return 64 + len(n) }

// The kinds of what is kept of a part.
const (
	leafKind     = "leaf\x00"
	normsKind    = "norms\x00"
	valuesKind   = "values\x00"
	elementsKind = "elements\x00"
)

// valuesKey returns the cache key of a column.
func (n *needs) valuesKey(name string) string {
	if n.seen != "" && planner.ReadsUpdatedAt(n.values[name]) {
		return valuesKind + name + "\x00" + n.seen
	}
	return valuesKind + name
}

// views reads what a query needs and is not kept. It fails with errChanged when a part went while it was read.
func (x *Index) views(ctx context.Context, s *Snapshot, n *needs, yielding bool) ([]*view, error) {
	views := make([]*view, len(s.parts))
	for i, p := range s.parts {
		views[i] = newView(p)
	}
	if !s.Unseen {
		n.seen = s.seen
	}
	if x.kept.all(x, views, n) {
		return views, nil
	}
	loads := x.loads[0]
	if yielding {
		loads = x.loads[1]
	}
	select {
	case loads <- struct{}{}:
		defer func() { <-loads }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if x.kept.all(x, views, n) { // another load has read it meanwhile
		return views, nil
	}
	for _, some := range byReplica(views) {
		l := &loader{Index: x, ctx: ctx, snapshot: s, views: some}
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

// byReplica groups views by the replica that their parts are read from: a statement reads from one.
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

// load reads what the views lack.
func (l *loader) load(n *needs) error {
	for _, step := range []func(*needs) error{l.loadElements, l.loadLeaves, l.loadNorms, l.loadValues} {
		if err := step(n); err != nil {
			return err
		}
	}
	return nil
}

// all gives views what is kept, and says whether that is all.
func (c *cache) all(x *Index, views []*view, n *needs) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	complete := true
	take := func(p *part, what string) sized {
		value, ok := c.get(entryKey{p.identity, what})
		complete = complete && ok
		return value
	}
	for _, v := range views {
		for key := range n.leaves {
			if m, ok := take(v.part, leafKind+key).(*matched); ok {
				v.leaves[key] = m
			}
		}
		for key := range n.norms {
			if m, ok := take(v.part, normsKind+key).(norms); ok {
				v.norms[key] = m
			}
		}
		for key := range n.values {
			if m, ok := take(v.part, n.valuesKey(key)).(*values); ok {
				v.values[key] = m
			}
		}
		for path := range n.paths {
			if m, ok := take(v.part, elementsKind+path).(*elements); ok {
				v.elements[path] = m
			}
		}
	}
	return complete
}

// loader reads what is missing for one query.
type loader struct {
	*Index
	ctx      context.Context
	snapshot *Snapshot
	views    []*view
	read     []entry
	bytes    int  // of what was read
	behind   bool // no search waits for it
}

func (l *loader) note(v *view, what string, value sized) {
	l.read = append(l.read, entry{entryKey{v.part.identity, what}, value})
	l.bytes += value.bytes()
}

// bounded fails when what was read takes more than may be kept.
func (l *loader) bounded() error {
	if l.bytes > l.cfg.MaxBytes {
		return &TooLarge{
			fmt.Sprintf("what the query needs of the index takes more than %d MiB of memory, which is what a "+
				"query may (--search-index-memory): name fewer fields, or fewer words", l.cfg.MaxBytes>>20),
		}
	}
	return nil
}

// leave keeps what was read before the query's time was over and, while nothing else is read so, reads the rest:
// the next search is answered.
func (l *loader) leave(n *needs) {
	first := l.left.CompareAndSwap(false, true)
	if !first && len(l.read) == 0 {
		return
	}
	l.working.Go(func() {
		ctx, cancel := context.WithTimeout(behind(l.living), SharedTimeout)
		defer cancel()
		l.ctx, l.behind = ctx, true
		if first {
			defer l.left.Store(false)
		}
		err := l.keep()
		if first && err == nil {
			err = l.load(n)
		}
		_ = errors.Join(err, l.keep()) // the next one reads what was not kept
	})
}

// keep keeps what was read so far, when nobody waits for it.
func (l *loader) keep() error {
	if !l.behind || len(l.read) == 0 {
		return nil
	}
	err := l.publish()
	l.read = nil
	return err
}

// behindKey is what contexts of statements have for which nobody waits.
type behindKey struct{}

func behind(ctx context.Context) context.Context { return context.WithValue(ctx, behindKey{}, true) }

// Behind says that nobody waits for a statement: it is to leave the server to others.
func Behind(ctx context.Context) bool { return ctx.Value(behindKey{}) != nil }

// publish keeps what was read, if the parts were there until it had been.
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
		if active[e.key.part] {
			l.kept.put(e.key, e.value)
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

// Changed says that an error is of a part that went while it was read: the question can be asked of the next snapshot.
func Changed(err error) bool { return errors.Is(err, errChanged) }
