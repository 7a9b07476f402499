package gather

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrUnavailable says that the store could not answer: the query failed or timed
// out, or the store is being stopped. Asking again later may succeed.
var ErrUnavailable = errors.New("the read store is unavailable")

// ErrClosed is the cause of what a closed gatherer refuses.
var ErrClosed = errors.New("closed")

// Config describes a gatherer. All fields are required but Linger,
// Permits and Observe.
type Config[K comparable, V any] struct {
	// Name appears in errors.
	Name string
	// MaxKeys bounds the distinct keys of one query.
	MaxKeys int
	// InFlight bounds the queries that run at once.
	InFlight int
	// Timeout bounds one query.
	Timeout time.Duration
	// Linger is how long a query waits for more keys when the one before it
	// carried several: callers that were answered together ask together again,
	// and without it the first of them would go alone.
	Linger time.Duration
	// Permits, when set, is shared with other gatherers: a query holds one place
	// in it while it runs.
	Permits chan struct{}
	// Fetch reads keys, which are distinct. A key without a value is missing.
	Fetch func(ctx context.Context, keys []K) (map[K]V, error)
	// Observe is told of every query that ended.
	Observe func(keys int, took time.Duration, err error)
}

// Gatherer turns many concurrent lookups by key into few queries: while
// InFlight queries run, the keys of further callers gather, and the next free
// slot takes up to MaxKeys of them, oldest first. A key that several callers
// wait for is asked once. A query never answers a caller that came after it was
// sent, so whoever asks sees at least what was visible when they asked.
//
// Values are shared between callers and must not be changed.
type Gatherer[K comparable, V any] struct {
	cfg    Config[K, V]
	base   context.Context // ends when the gatherer is closed
	cancel context.CancelCauseFunc
	slots  sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	running int                // slots in use
	taking  int                // those of them that are about to take a batch
	crowd   bool               // the last batch carried several keys
	queue   []*entry[K, V]     // oldest first
	waiting map[K]*entry[K, V] // those in the queue
}

// entry is one key in the queue, or in a query.
type entry[K comparable, V any] struct {
	key     K
	waiters []waiter[K, V]
}

// waiter is a place in a caller's answer.
type waiter[K comparable, V any] struct {
	call  *call[K, V]
	index int
}

// call is one Get.
type call[K comparable, V any] struct {
	out     []V
	missing atomic.Int64 // keys without an answer yet
	err     atomic.Pointer[error]
	done    chan struct{}

	// Guarded by the gatherer's mutex.
	gone    bool
	batches []*batch[K, V]
}

// batch is one query.
type batch[K comparable, V any] struct {
	entries []*entry[K, V]
	live    int // callers who still wait
	cancel  context.CancelFunc
}

// New returns a gatherer that lives until Close.
func New[K comparable, V any](ctx context.Context, cfg Config[K, V]) *Gatherer[K, V] {
	if cfg.Observe == nil {
		cfg.Observe = func(int, time.Duration, error) {}
	}
	g := &Gatherer[K, V]{cfg: cfg, waiting: make(map[K]*entry[K, V])}
	g.base, g.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return g
}

// Close fails everybody who waits and returns when no query runs any more.
func (g *Gatherer[K, V]) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.cancel(ErrClosed)
	g.slots.Wait()
}

// Get returns the values of keys, in their order; the zero value stands for a
// missing one. It returns ctx's error when ctx ends first, and an error
// matching [ErrUnavailable] when a query failed.
func (g *Gatherer[K, V]) Get(ctx context.Context, keys []K) ([]V, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", g.cfg.Name, err)
	}
	c := &call[K, V]{out: make([]V, len(keys)), done: make(chan struct{})}
	c.missing.Store(int64(len(keys)))
	if err := g.enqueue(c, keys); err != nil {
		return nil, err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		g.leave(c)
		return nil, fmt.Errorf("read %s: %w", g.cfg.Name, ctx.Err())
	}
	if err := c.err.Load(); err != nil {
		return nil, *err
	}
	return c.out, nil
}

func (g *Gatherer[K, V]) enqueue(c *call[K, V], keys []K) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return g.unavailable(ErrClosed)
	}
	for i, k := range keys {
		e := g.waiting[k]
		if e == nil {
			e = &entry[K, V]{key: k}
			g.waiting[k] = e
			g.queue = append(g.queue, e)
		}
		e.waiters = append(e.waiters, waiter[K, V]{c, i})
	}
	// More slots than batches would only make the batches smaller.
	for g.running < g.cfg.InFlight && g.taking*g.cfg.MaxKeys < len(g.queue) {
		g.running++
		g.taking++
		g.slots.Go(g.serve)
	}
	return nil
}

// leave takes a caller who no longer waits out of the queue, and stops the
// queries that nobody waits for.
func (g *Gatherer[K, V]) leave(c *call[K, V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.gone = true
	for _, b := range c.batches {
		if b.live--; b.live == 0 {
			b.cancel()
		}
	}
}

// serve is one slot, about to take a batch: it runs queries until the queue is
// empty.
func (g *Gatherer[K, V]) serve() {
	for {
		g.mu.Lock()
		crowd := g.crowd && len(g.queue) < g.cfg.MaxKeys
		g.mu.Unlock()
		if crowd && g.cfg.Linger > 0 {
			select {
			case <-time.After(g.cfg.Linger):
			case <-g.base.Done():
			}
		}
		// A full store makes the batch larger, since more callers come meanwhile.
		if g.cfg.Permits != nil {
			g.cfg.Permits <- struct{}{}
		}
		ctx, cancel := context.WithTimeout(g.base, g.cfg.Timeout)
		b, keys := g.take(cancel)
		if b == nil {
			cancel()
			g.permit()
			return
		}
		start := time.Now()
		found, err := g.query(ctx, keys)
		if err != nil && g.base.Err() != nil {
			err = context.Cause(g.base)
		}
		cancel()
		g.permit()
		g.cfg.Observe(len(keys), time.Since(start), err)
		g.deliver(b, found, err)
		g.mu.Lock()
		g.taking++
		g.mu.Unlock()
	}
}

// permit gives back the place of a query.
func (g *Gatherer[K, V]) permit() {
	if g.cfg.Permits != nil {
		<-g.cfg.Permits
	}
}

// take removes the next batch from the queue, without the keys for which nobody
// waits any more. It returns nil, and frees the slot, when there is none.
func (g *Gatherer[K, V]) take(cancel context.CancelFunc) (*batch[K, V], []K) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.taking--
	b := &batch[K, V]{cancel: cancel}
	keys := make([]K, 0, min(len(g.queue), g.cfg.MaxKeys))
	taken := 0
	for _, e := range g.queue {
		if len(keys) == g.cfg.MaxKeys {
			break
		}
		taken++
		delete(g.waiting, e.key)
		wanted := false
		for _, w := range e.waiters {
			if w.call.gone {
				continue
			}
			wanted = true
			if n := len(w.call.batches); n == 0 || w.call.batches[n-1] != b {
				w.call.batches = append(w.call.batches, b)
				b.live++
			}
		}
		if wanted {
			b.entries = append(b.entries, e)
			keys = append(keys, e.key)
		}
	}
	if taken == len(g.queue) {
		clear(g.queue)
		g.queue = g.queue[:0]
	} else {
		n := copy(g.queue, g.queue[taken:])
		clear(g.queue[n:])
		g.queue = g.queue[:n]
	}
	if len(keys) == 0 {
		g.running--
		return nil, nil
	}
	g.crowd = len(keys) > 1
	return b, keys
}

// query is fetch; a panic becomes an error, because it must not take down the
// other callers.
func (g *Gatherer[K, V]) query(ctx context.Context, keys []K) (found map[K]V, err error) {
	defer func() {
		if p := recover(); p != nil {
			found, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	return g.cfg.Fetch(ctx, keys)
}

func (g *Gatherer[K, V]) deliver(b *batch[K, V], found map[K]V, err error) {
	var failure *error
	if err != nil {
		e := g.unavailable(err)
		failure = &e
	}
	for _, e := range b.entries {
		for _, w := range e.waiters {
			if failure != nil {
				w.call.err.CompareAndSwap(nil, failure)
			} else if v, ok := found[e.key]; ok {
				w.call.out[w.index] = v
			}
			if w.call.missing.Add(-1) == 0 {
				close(w.call.done)
			}
		}
	}
}

func (g *Gatherer[K, V]) unavailable(err error) error {
	return fmt.Errorf("%w: read %s: %w", ErrUnavailable, g.cfg.Name, err)
}
