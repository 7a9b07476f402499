package gitlog

import (
	"container/heap"
	"context"
	"errors"
	"fmt"

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
	news    int // commits in the queue that are not old
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
	c, err := object.GetCommit(w.objects, h)
	if err != nil {
		return fmt.Errorf("read commit %s: %w", h, err)
	}
	w.marks[h] = m | markSeen | markQueued | old
	if old == 0 {
		w.news++
	}
	heap.Push(&w.queue, c)
	return nil
}

// next returns the next new commit, or nil when there are no more.
func (w *walk) next() (*object.Commit, error) {
	for w.news > 0 {
		c, _ := heap.Pop(&w.queue).(*object.Commit)
		m := w.marks[c.Hash] &^ markQueued
		w.marks[c.Hash] = m
		if m&markOld == 0 {
			w.news--
		}
		if !w.shallow[c.Hash] {
			for _, parent := range c.ParentHashes {
				if err := w.push(parent, m&markOld); err != nil {
					return nil, err
				}
			}
		}
		if m&markOld == 0 {
			return c, nil
		}
	}
	return nil, nil
}

// commitQueue is a heap of commits, the newest first.
type commitQueue []*object.Commit

func (q commitQueue) Len() int           { return len(q) }
func (q commitQueue) Less(i, j int) bool { return q[i].Committer.When.After(q[j].Committer.When) }
func (q commitQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *commitQueue) Push(x any) { *q = append(*q, x.(*object.Commit)) }

// Pop implements heap.Interface.
func (q *commitQueue) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return c
}
