// Package latest shares readings of a value that changes among concurrent callers, each of whom gets a value that is no
// older than its call.
package latest

import (
	"context"
	"sync"
)

// Reader reads a value. It is safe for concurrent use.
type Reader[T any] struct {
	read    func(context.Context) (T, error)
	after   func(T)
	ctx     context.Context // until Close
	stop    context.CancelFunc
	working sync.WaitGroup

	mu      sync.Mutex
	next    *Reading[T] // calls from now on share it
	running bool
}

// Reading is one reading, for all calls that began before it.
type Reading[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// New returns a Reader. One call of read runs at a time. after, unless nil, is called with each value once those who wait
// for it have it. Close must be called.
func New[T any](read func(context.Context) (T, error), after func(T)) *Reader[T] {
	ctx, stop := context.WithCancel(context.Background()) //nolint:gosec // Close calls it
	return &Reader[T]{read: read, after: after, ctx: ctx, stop: stop}
}

// Begin returns a reading that begins after the call, or has been requested by other calls and has not begun.
func (r *Reader[T]) Begin() *Reading[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &Reading[T]{done: make(chan struct{})}
	}
	next := r.next
	if !r.running {
		r.running = true
		r.working.Go(r.run)
	}
	return next
}

// Wait returns the value. If ctx ends, the reading continues, since others may wait for it.
func (g *Reading[T]) Wait(ctx context.Context) (T, error) {
	select {
	case <-g.done:
		return g.value, g.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// run reads while calls wait.
func (r *Reader[T]) run() {
	for {
		r.mu.Lock()
		reading := r.next
		r.next = nil // later calls wait for the next reading
		r.running = reading != nil
		r.mu.Unlock()
		if reading == nil {
			return
		}
		reading.value, reading.err = r.read(r.ctx)
		close(reading.done)
		if reading.err == nil && r.after != nil {
			r.after(reading.value)
		}
	}
}

// Close cancels a reading and waits for it. The Reader must not be used afterwards.
func (r *Reader[T]) Close() {
	r.stop()
	r.working.Wait()
}
