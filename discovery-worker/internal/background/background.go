// Package background runs work that outlives its caller, because others wait for it too, and that
// ends with its service.
package background

import (
	"context"
	"errors"
	"sync"
)

// ErrStopped is the cause of contexts that end because their [Group] is stopped.
var ErrStopped = errors.New("service has stopped")

// Group is the background work of one service. The zero value is ready to use.
type Group struct {
	mu      sync.Mutex
	stopped bool
	cancels map[int]context.CancelCauseFunc
	nextID  int
	running sync.WaitGroup
}

// Start returns a context with the values of ctx that ends when the group stops, and a function to
// call when the work is done. If the group is stopped, the context has already ended.
func (g *Group) Start(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		cancel(ErrStopped)
		return ctx, func() {}
	}
	if g.cancels == nil {
		g.cancels = make(map[int]context.CancelCauseFunc)
	}
	n := g.nextID
	g.nextID++
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

// Stop cancels all work and waits for it.
func (g *Group) Stop() {
	g.mu.Lock()
	g.stopped = true
	for _, cancel := range g.cancels {
		cancel(ErrStopped)
	}
	g.mu.Unlock()
	g.running.Wait()
}
