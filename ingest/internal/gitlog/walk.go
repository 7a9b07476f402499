package gitlog

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// walk visits the commits that can be reached from some tips and not from the tips
// of an earlier walk, the newest first. It paints the history from both at once,
// as git rev-list does: what an old tip reaches is old. Where clocks went wrong, an
// old commit may be visited again; a new one is never left out.
type walk struct {
	objects storer.EncodedObjectStorer
	shallow map[plumbing.Hash]bool
	marks   map[plumbing.Hash]mark
	queue   commitQueue
	news    int   // commits in the queue that are not old
	held    int64 // bytes of the commits that the queue holds
}

// maxHeld is how many bytes of commits are kept in the queue; others of it are read
// again when it is their turn. A repository may have as many tips as it likes.
const maxHeld = 32 << 20

// queued is a commit in the queue.
type queued struct {
	hash   plumbing.Hash
	when   time.Time
	commit *object.Commit // nil when it is read again
	size   int64
	large  bool
}

// visited is a commit of a walk. Of one that is too large only the hash is known, and
// nothing of what it follows.
type visited struct {
	*object.Commit
	large bool
}

type mark uint8

const (
	markSeen mark = 1 << iota
	markOld
	markQueued
)

func newWalk(ctx context.Context, objects storer.EncodedObjectStorer, shallow []plumbing.Hash, tips, old []plumbing.Hash) (*walk, error) {
	w := &walk{objects: objects, shallow: map[plumbing.Hash]bool{}, marks: map[plumbing.Hash]mark{}}
	for _, h := range shallow {
		w.shallow[h] = true
	}
	for _, h := range old {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// A tip that is gone was rewritten; what it led to cannot be told from
		// what is new.
		if err := w.push(h, markOld); err != nil && !errors.Is(err, plumbing.ErrObjectNotFound) {
			return nil, err
		}
	}
	for _, h := range tips {
		if err := w.push(h, 0); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *walk) push(h plumbing.Hash, old mark) error {
	m := w.marks[h]
	if m&markSeen != 0 && (old == 0 || m&markOld != 0) {
		return nil
	}
	if m&markQueued != 0 { // and becomes old
		w.marks[h] = m | markOld
		w.news--
		return nil
	}
	q := queued{hash: h}
	c, size, err := w.read(h)
	switch {
	case errors.Is(err, errLarge):
		q.large = true
	case err != nil:
		return err
	default:
		q.when = c.Committer.When
		if w.held+size <= maxHeld {
			w.held += size
			q.commit, q.size = c, size
		}
	}
	w.marks[h] = m | markSeen | markQueued | old
	if old == 0 {
		w.news++
	}
	heap.Push(&w.queue, q)
	return nil
}

// read reads a commit; it holds about so many bytes.
func (w *walk) read(h plumbing.Hash) (*object.Commit, int64, error) {
	o, err := w.objects.EncodedObject(plumbing.CommitObject, h)
	if err != nil {
		return nil, 0, fmt.Errorf("read commit %s: %w", h, err)
	}
	c, err := object.DecodeCommit(w.objects, o)
	if err != nil {
		return nil, 0, fmt.Errorf("read commit %s: %w", h, err)
	}
	return c, 1024 + 2*o.Size(), nil // its bytes, and what was made of them
}

// next returns the next new commit, or nil when there are no more.
func (w *walk) next() (*visited, error) {
	for w.news > 0 {
		q, _ := heap.Pop(&w.queue).(queued)
		w.held -= q.size
		m := w.marks[q.hash] &^ markQueued
		w.marks[q.hash] = m
		if m&markOld == 0 {
			w.news--
		}
		c := q.commit
		switch {
		case q.large:
			c = &object.Commit{Hash: q.hash}
		case c == nil:
			var err error
			if c, _, err = w.read(q.hash); err != nil {
				return nil, err
			}
		}
		if !w.shallow[q.hash] {
			for _, parent := range c.ParentHashes {
				if err := w.push(parent, m&markOld); err != nil {
					return nil, err
				}
			}
		}
		if m&markOld == 0 {
			return &visited{c, q.large}, nil
		}
	}
	return nil, nil
}

// commitQueue is a heap of commits, the newest first.
type commitQueue []queued

func (q commitQueue) Len() int           { return len(q) }
func (q commitQueue) Less(i, j int) bool { return q[i].when.After(q[j].when) }
func (q commitQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *commitQueue) Push(x any) { *q = append(*q, x.(queued)) }

// Pop implements heap.Interface.
func (q *commitQueue) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	(*q)[last] = queued{}
	*q = (*q)[:last]
	return c
}
