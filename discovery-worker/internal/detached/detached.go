// Package detached has work that goes on when whoever began it leaves, since others wait for the same, and that
// ends all the same with the service that it belongs to.
package detached

import (
	"context"
	"errors"
	"sync"
)

// ErrEnded is the cause of the end of a context of a [Group] that has ended.
var ErrEnded = errors.New("the service has stopped")

// Group is the detached work of one service. The zero value has none.
type Group struct {
	mu      sync.Mutex
	ended   bool
	cancels map[int]context.CancelCauseFunc
	next    int
	running sync.WaitGroup
}

// Begin returns a context with the values of ctx that ends with the group, at once in one that has ended, and what is to be
// called when the work is done.
func (g *Group) Begin(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		cancel(ErrEnded)
		return ctx, func() {}
	}
	if g.cancels == nil {
		g.cancels = make(map[int]context.CancelCauseFunc)
	}
	n := g.next
	g.next++
	g.cancels[n] = cancel
	g.running.Add(1)
	return ctx, func() {
		g.mu.Lock()
		delete(g.cancels, n)
		g.mu.Unlock()
		cancel(nil)
		g.running.Done()
	}
}

// End ends all work that has begun and waits for it.
func (g *Group) End() {
	g.mu.Lock()
	g.ended = true
	for _, cancel := range g.cancels {
		cancel(ErrEnded)
	}
	g.mu.Unlock()
	g.running.Wait()
}
