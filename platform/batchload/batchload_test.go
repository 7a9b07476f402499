package batchload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// store returns 10*k for every key k that is not negative. Tests can block its queries.
type store struct {
	mu      sync.Mutex
	queries [][]int
	running atomic.Int64
	most    atomic.Int64
	// enter, if set, is called by each query before it returns.
	enter func(ctx context.Context, keys []int) error
}

func (s *store) fetch(ctx context.Context, keys []int) (map[int]int, error) {
	n := s.running.Add(1)
	defer s.running.Add(-1)
	for {
		most := s.most.Load()
		if n <= most || s.most.CompareAndSwap(most, n) {
			break
		}
	}
	s.mu.Lock()
	s.queries = append(s.queries, slices.Clone(keys))
	s.mu.Unlock()
	if s.enter != nil {
		if err := s.enter(ctx, keys); err != nil {
			return nil, err
		}
	}
	found := make(map[int]int, len(keys))
	for _, k := range keys {
		if k >= 0 {
			found[k] = 10 * k
		}
	}
	return found, nil
}

func (s *store) sent() [][]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.queries)
}

func newTestLoader(t *testing.T, s *store, change func(*Config[int, int])) *Loader[int, int] {
	cfg := Config[int, int]{Name: "numbers", MaxKeys: 256, InFlight: 2, Timeout: 10 * time.Second, Fetch: s.fetch}
	if change != nil {
		change(&cfg)
	}
	g := New(t.Context(), cfg)
	t.Cleanup(g.Close)
	return g
}

// queued waits until n callers wait for keys in the queue.
func queued(t *testing.T, g *Loader[int, int], n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		waiters := 0
		for _, e := range g.queue {
			waiters += len(e.waiters)
		}
		return waiters == n
	}, 10*time.Second, time.Millisecond)
}

// held makes every query send its keys to entered and block until release.
func held(s *store) (entered chan []int, release chan struct{}) {
	entered, release = make(chan []int, 100), make(chan struct{})
	s.enter = func(ctx context.Context, keys []int) error {
		entered <- keys
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return entered, release
}

func TestLoader_ReturnsValuesInOrder(t *testing.T) {
	g := newTestLoader(t, &store{}, nil)
	got, err := g.Get(t.Context(), []int{7, -1, 3, 7})
	require.NoError(t, err)
	require.Equal(t, []int{70, 0, 30, 70}, got)
	got, err = g.Get(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestLoader_BatchesKeysWhileQueriesRun(t *testing.T) {
	s := &store{}
	entered, release := held(s)
	g := newTestLoader(t, s, func(c *Config[int, int]) { c.MaxKeys = 8 })
	var wg sync.WaitGroup
	get := func(k int) {
		wg.Go(func() {
			got, err := g.Get(t.Context(), []int{k})
			if err != nil || got[0] != 10*k {
				t.Errorf("key %d: %v, %v", k, got, err)
			}
		})
	}
	get(1000)
	<-entered // one slot is busy; the next key may take the other one
	get(1001)
	<-entered
	for k := range 20 {
		get(k)
		get(k) // a key of two callers is read once
	}
	queued(t, g, 40)
	close(release)
	wg.Wait()
	sent := s.sent()
	require.Len(t, sent, 2+3, "20 keys, 8 per query")
	sizes := []int{len(sent[2]), len(sent[3]), len(sent[4])}
	slices.Sort(sizes)
	require.Equal(t, []int{4, 8, 8}, sizes)
	require.LessOrEqual(t, s.most.Load(), int64(2))
}

func TestLoader_ServesOldestFirst(t *testing.T) {
	s := &store{}
	entered, release := held(s)
	g := newTestLoader(t, s, func(c *Config[int, int]) { c.MaxKeys, c.InFlight = 4, 1 })
	var wg sync.WaitGroup
	get := func(keys ...int) {
		wg.Go(func() { _, err := g.Get(t.Context(), keys); require.NoError(t, err) })
	}
	get(0)
	<-entered
	get(1, 2, 3, 4, 5, 6) // a long list must not starve later callers
	queued(t, g, 6)
	get(7)
	queued(t, g, 7)
	close(release)
	wg.Wait()
	require.Equal(t, [][]int{{0}, {1, 2, 3, 4}, {5, 6, 7}}, s.sent())
}

func TestLoader_CancelsQueriesWithoutCallers(t *testing.T) {
	s := &store{}
	entered, release := held(s)
	g := newTestLoader(t, s, func(c *Config[int, int]) { c.InFlight = 1 })
	results := make(chan error, 3)
	start := func(k int) context.CancelFunc {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, err := g.Get(ctx, []int{k}); results <- err }()
		return cancel
	}
	cancelFirst := start(1)
	require.Equal(t, []int{1}, <-entered)
	cancelSecond := start(2)
	queued(t, g, 1)
	cancelThird := start(3)
	queued(t, g, 2)
	defer cancelThird()

	cancelSecond() // still in the queue: never read
	require.ErrorIs(t, <-results, context.Canceled)
	cancelFirst() // the only caller of its query: the query ends, other callers are not affected
	require.ErrorIs(t, <-results, context.Canceled)
	require.Equal(t, []int{3}, <-entered)
	close(release)
	require.NoError(t, <-results)
	require.Equal(t, [][]int{{1}, {3}}, s.sent())

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := g.Get(ended, []int{4})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, s.sent(), 2, "a canceled caller queries nothing")
}

func TestLoader_KeepsQueriesOfRemainingCallers(t *testing.T) {
	s := &store{}
	entered, release := held(s)
	g := newTestLoader(t, s, func(c *Config[int, int]) { c.InFlight = 1 })
	go func() { _, _ = g.Get(t.Context(), []int{0}) }()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	canceled := make(chan error, 1)
	go func() { _, err := g.Get(ctx, []int{1, 2}); canceled <- err }()
	queued(t, g, 2)
	remaining := make(chan []int, 1)
	go func() {
		got, err := g.Get(t.Context(), []int{2, 3})
		if err != nil {
			t.Errorf("remaining caller: %v", err)
		}
		remaining <- got
	}()
	queued(t, g, 4)
	release <- struct{}{}
	<-entered // the query of keys 1, 2 and 3
	cancel()
	require.ErrorIs(t, <-canceled, context.Canceled)
	close(release)
	require.Equal(t, []int{20, 30}, <-remaining)
}

func TestLoader_ReportsFailedQueriesAsUnavailable(t *testing.T) {
	cause := errors.New("connection refused")
	s := &store{enter: func(_ context.Context, keys []int) error {
		switch keys[0] {
		case 1:
			return cause
		case 2:
			panic("boom")
		}
		return nil
	}}
	var observed []error
	g := newTestLoader(t, s, func(c *Config[int, int]) {
		c.InFlight = 1
		c.Observe = func(_ int, _ time.Duration, err error) { observed = append(observed, err) }
	})
	_, err := g.Get(t.Context(), []int{1})
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorIs(t, err, cause)
	_, err = g.Get(t.Context(), []int{2})
	require.ErrorIs(t, err, ErrUnavailable)
	got, err := g.Get(t.Context(), []int{3})
	require.NoError(t, err, "a failed query does not affect later ones")
	require.Equal(t, []int{30}, got)
	g.Close()
	require.Len(t, observed, 3)
	require.NoError(t, observed[2])
}

func TestLoader_ReportsTimeoutAsUnavailable(t *testing.T) {
	s := &store{enter: func(ctx context.Context, _ []int) error { <-ctx.Done(); return ctx.Err() }}
	g := newTestLoader(t, s, func(c *Config[int, int]) { c.Timeout = time.Millisecond })
	_, err := g.Get(t.Context(), []int{1})
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestLoader_CloseFailsWaitingCallers(t *testing.T) {
	s := &store{}
	entered, _ := held(s)
	g := newTestLoader(t, s, func(c *Config[int, int]) { c.InFlight = 1 })
	results := make(chan error, 2)
	for k := range 2 {
		go func() { _, err := g.Get(t.Context(), []int{k}); results <- err }()
		if k == 0 {
			<-entered
		}
	}
	queued(t, g, 1)
	g.Close()
	for range 2 {
		require.ErrorIs(t, <-results, ErrUnavailable)
	}
	require.Zero(t, s.running.Load())
	_, err := g.Get(t.Context(), []int{1})
	require.ErrorIs(t, err, ErrUnavailable)
}

// The load has lists, repeated keys, failures and canceled callers.
func TestLoader_ReturnsCorrectResultsUnderLoad(t *testing.T) {
	s := &store{enter: func(_ context.Context, keys []int) error {
		if slices.Contains(keys, 13) {
			return errors.New("failed")
		}
		return nil
	}}
	g := newTestLoader(t, s, func(c *Config[int, int]) { c.MaxKeys, c.Linger = 16, 50*time.Microsecond })
	var wg sync.WaitGroup
	for w := range 32 {
		wg.Go(func() {
			for i := range 100 {
				ctx, cancel := context.WithCancel(t.Context())
				keys := make([]int, 1+(w*i)%40)
				for j := range keys {
					keys[j] = (w*7 + i*3 + j) % 500
				}
				if (w+i)%5 == 0 {
					go cancel()
				}
				got, err := g.Get(ctx, keys)
				cancel()
				switch {
				case err == nil:
					for j, k := range keys {
						if got[j] != 10*k {
							t.Errorf("key %d: %d", k, got[j])
						}
					}
				case !errors.Is(err, context.Canceled) && !errors.Is(err, ErrUnavailable):
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, s.most.Load(), int64(2))
	for _, q := range s.sent() {
		require.LessOrEqual(t, len(q), 16)
		slices.Sort(q)
		require.Len(t, slices.Compact(q), len(q), "the keys of a query are distinct")
	}
	g.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	require.Empty(t, g.queue)
	require.Empty(t, g.waiting)
	require.Zero(t, g.running)
}

func BenchmarkLoader(b *testing.B) {
	for _, callers := range []int{1, 32, 256} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			s := &store{}
			g := New(b.Context(), Config[int, int]{Name: "numbers", MaxKeys: 256, InFlight: 2, Timeout: time.Minute,
				Fetch: func(_ context.Context, keys []int) (map[int]int, error) {
					s.running.Add(1)
					found := make(map[int]int, len(keys))
					for _, k := range keys {
						found[k] = k
					}
					return found, nil
				}})
			defer g.Close()
			b.ReportAllocs()
			b.SetParallelism(max(1, callers/2))
			var next atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := g.Get(b.Context(), []int{int(next.Add(1))}); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/float64(s.running.Load()), "keys/query")
		})
	}
}
