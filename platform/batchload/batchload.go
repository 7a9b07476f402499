package batchload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrUnavailable is matched by errors of the store: the query failed or timed out, or the store is shutting down. A
// later retry may succeed.
var ErrUnavailable = errors.New("read store is unavailable")

// ErrClosed is the cause of errors of a closed loader.
var ErrClosed = errors.New("closed")

// Config configures a Loader. All fields but Linger, Permits and Observe are required.
type Config[K comparable, V any] struct {
	// Name appears in errors.
	Name string
	// MaxKeys limits the distinct keys of one query.
	MaxKeys int
	// InFlight limits the concurrent queries.
	InFlight int
	// Timeout limits the time of one query.
	Timeout time.Duration
	// Linger is how long a query waits for more keys if the previous one had several: callers that were answered
	// together call again together, and without a delay the first of them would get a separate query.
	Linger time.Duration
	// Permits, if set, is shared with other loaders: a query holds one slot of it while it runs.
	Permits chan struct{}
	// Fetch reads keys, which are distinct. Keys without a value are absent from the result.
	Fetch func(ctx context.Context, keys []K) (map[K]V, error)
	// Observe is called after every query.
	Observe func(keys int, took time.Duration, err error)
}

// Loader batches concurrent lookups by key into few queries: while InFlight queries run, the keys of further callers
// are queued, and the next free slot takes up to MaxKeys of them, oldest first. A key that several callers wait for is
// read once. A query never answers a caller that arrived after it was sent, so a caller sees at least what was visible
// when it called.
//
// Values are shared between callers and must not be modified.
type Loader[K comparable, V any] struct {
	cfg    Config[K, V]
	base   context.Context // ends when the loader is closed
	cancel context.CancelCauseFunc
	slots  sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	running int                // slots in use
	taking  int                // running slots that are about to take a batch
	crowded bool               // whether the last batch had several keys
	queue   []*entry[K, V]     // oldest first
	waiting map[K]*entry[K, V] // queue by key
}

// entry is a key in the queue or in a query.
type entry[K comparable, V any] struct {
	key     K
	waiters []waiter[K, V]
}

// waiter is a position in the result of a call.
type waiter[K comparable, V any] struct {
	call  *call[K, V]
	index int
}

// call is a call of Get.
type call[K comparable, V any] struct {
	out     []V
	missing atomic.Int64 // keys without a result yet
	err     atomic.Pointer[error]
	done    chan struct{}

	// Guarded by the loader's mutex.
	gone    bool
	batches []*batch[K, V]
}

// batch is the keys of one query.
type batch[K comparable, V any] struct {
	entries []*entry[K, V]
	live    int // callers that are still waiting
	cancel  context.CancelFunc
}

// New returns a loader that runs until Close.
func New[K comparable, V any](ctx context.Context, cfg Config[K, V]) *Loader[K, V] {
	if cfg.Observe == nil {
		cfg.Observe = func(int, time.Duration, error) {}
	}
	g := &Loader[K, V]{cfg: cfg, waiting: make(map[K]*entry[K, V])}
	g.base, g.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return g
}

// Close fails all waiting callers and returns when no query is running.
func (g *Loader[K, V]) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.cancel(ErrClosed)
	g.slots.Wait()
}

// Get returns the values of keys in order, with the zero value for missing ones. It returns ctx's error if ctx ends
// first, and an error matching [ErrUnavailable] if a query failed.
func (g *Loader[K, V]) Get(ctx context.Context, keys []K) ([]V, error) {
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

func (g *Loader[K, V]) enqueue(c *call[K, V], keys []K) error {
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

// leave removes a caller that stopped waiting, and cancels the queries that no caller waits for.
func (g *Loader[K, V]) leave(c *call[K, V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.gone = true
	for _, b := range c.batches {
		if b.live--; b.live == 0 {
			b.cancel()
		}
	}
}

// serve runs queries in one slot until the queue is empty. The caller has counted the slot in running and taking.
func (g *Loader[K, V]) serve() {
	for {
		g.mu.Lock()
		linger := g.crowded && len(g.queue) < g.cfg.MaxKeys
		g.mu.Unlock()
		if linger && g.cfg.Linger > 0 {
			select {
			case <-time.After(g.cfg.Linger):
			case <-g.base.Done():
			}
		}
		// While the store is busy, more callers join the batch.
		if g.cfg.Permits != nil {
			g.cfg.Permits <- struct{}{}
		}
		ctx, cancel := context.WithTimeout(g.base, g.cfg.Timeout)
		b, keys := g.take(cancel)
		if b == nil {
			cancel()
			g.releasePermit()
			return
		}
		start := time.Now()
		found, err := g.query(ctx, keys)
		if err != nil && g.base.Err() != nil {
			err = context.Cause(g.base)
		}
		cancel()
		g.releasePermit()
		g.cfg.Observe(len(keys), time.Since(start), err)
		g.deliver(b, found, err)
		g.mu.Lock()
		g.taking++
		g.mu.Unlock()
	}
}

// releasePermit releases the permit of a query.
func (g *Loader[K, V]) releasePermit() {
	if g.cfg.Permits != nil {
		<-g.cfg.Permits
	}
}

// take removes the next batch from the queue, without keys that no caller waits for. If there is none, it frees the
// slot and returns nil.
func (g *Loader[K, V]) take(cancel context.CancelFunc) (*batch[K, V], []K) {
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
	g.crowded = len(keys) > 1
	return b, keys
}

// query calls Fetch and turns a panic into an error, because it must not affect other callers.
func (g *Loader[K, V]) query(ctx context.Context, keys []K) (found map[K]V, err error) {
	defer func() {
		if p := recover(); p != nil {
			found, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	return g.cfg.Fetch(ctx, keys)
}

func (g *Loader[K, V]) deliver(b *batch[K, V], found map[K]V, err error) {
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

func (g *Loader[K, V]) unavailable(err error) error {
	return fmt.Errorf("%w: read %s: %w", ErrUnavailable, g.cfg.Name, err)
}
