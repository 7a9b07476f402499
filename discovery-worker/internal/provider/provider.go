package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"muster/discovery-worker/internal/background"
	"muster/platform/breaker"
)

// Provider is a source of external data.
type Provider[Q, A any] interface {
	// Name returns the name in metrics, logs and errors.
	Name() string
	// Ask returns the answer to q. It ends with ctx.
	Ask(ctx context.Context, q Q) (A, error)
}

// Config configures a [Guarded] provider. Zero fields mean their defaults.
type Config struct {
	// Timeout limits one call. Default 5 s.
	Timeout time.Duration
	// Concurrent limits the concurrent calls. Default 4. A call waits up to Timeout for a free
	// slot, which does not shorten its own time.
	Concurrent int
	// Failures is the number of consecutive failures that open the breaker, for OpenFor. Defaults 5
	// and 30 s.
	Failures uint32
	OpenFor  time.Duration
	// CacheSize and CacheFor limit the cached responses. Defaults 10,000 and 1 h.
	CacheSize int
	CacheFor  time.Duration
	// Background is the group that ends calls which outlive their callers. Nil means that nothing
	// ends them.
	Background *background.Group
}

func (c Config) withDefaults() Config {
	if c.Timeout <= 0 {
		c.Timeout = 5 * time.Second
	}
	if c.Concurrent <= 0 {
		c.Concurrent = 4
	}
	if c.Failures == 0 {
		c.Failures = 5
	}
	if c.OpenFor <= 0 {
		c.OpenFor = 30 * time.Second
	}
	if c.CacheSize <= 0 {
		c.CacheSize = 10_000
	}
	if c.CacheFor <= 0 {
		c.CacheFor = time.Hour
	}
	if c.Background == nil {
		c.Background = new(background.Group)
	}
	return c
}

// Errors of a guarded provider without a call.
var (
	// ErrPaused is returned while the server has asked for a pause.
	ErrPaused = errors.New("provider is paused")
	// ErrBusy is returned if no call slot became free in time.
	ErrBusy = errors.New("no free call slot")
)

// maxPause limits the pause that a server can ask for.
const maxPause = 15 * time.Minute

// RetryError reports that the server asked for a pause.
type RetryError struct {
	After time.Duration
	Err   error
}

func (e *RetryError) Error() string {
	return fmt.Sprintf("%v; retry after %v", e.Err, e.After.Round(time.Second))
}

// Unwrap returns the cause.
func (e *RetryError) Unwrap() error { return e.Err }

// Guarded is a provider with limits, breaker and cache. It is safe for concurrent use.
type Guarded[Q, A any] struct {
	inner    Provider[Q, A]
	cfg      Config
	key      func(Q) string
	breaker  *breaker.Set
	permits  chan struct{}
	cache    *lru.Cache[string, cachedResponse[A]]
	inFlight singleflight.Group
	metrics  *Metrics
	logger   *slog.Logger

	mu          sync.Mutex
	pausedUntil time.Time
}

// cachedResponse is a cached answer.
type cachedResponse[A any] struct {
	answer    A
	expiresAt time.Time
}

// Guard wraps a provider. Questions with the same key must have the same answer.
func Guard[Q, A any](p Provider[Q, A], cfg Config, key func(Q) string, m *Metrics,
	logger *slog.Logger) (*Guarded[Q, A], error) {
	cfg = cfg.withDefaults()
	set, err := breaker.NewSet(breaker.Config{
		Name: "discovery-" + p.Name(), Failures: cfg.Failures, OpenFor: cfg.OpenFor, KeyMetrics: true, Logger: logger,
		Registerer: m.registerer, IsFailure: func(err error) bool { return !errors.As(err, new(*RetryError)) },
	})
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", p.Name(), err)
	}
	cache, err := lru.New[string, cachedResponse[A]](cfg.CacheSize)
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", p.Name(), err)
	}
	return &Guarded[Q, A]{
		inner: p, cfg: cfg, key: key, breaker: set, permits: make(chan struct{}, cfg.Concurrent),
		cache: cache, metrics: m, logger: logger,
	}, nil
}

// Name returns the provider's name.
func (g *Guarded[Q, A]) Name() string { return g.inner.Name() }

// Ask returns the answer from the cache or the provider. Concurrent equal questions share one call,
// which continues if some of the callers have gone.
func (g *Guarded[Q, A]) Ask(ctx context.Context, q Q) (A, error) {
	key := g.key(q)
	if answer, ok := g.fromCache(key); ok {
		return answer, nil
	}
	result := g.inFlight.DoChan(key, func() (any, error) {
		// It may have been cached since the lookup above.
		if answer, ok := g.fromCache(key); ok {
			return answer, nil
		}
		// The end of one caller must not fail the others.
		callCtx, done := g.cfg.Background.Start(ctx)
		defer done()
		return g.call(callCtx, key, q)
	})
	var none A
	select {
	case r := <-result:
		if r.Err != nil {
			return none, fmt.Errorf("%s: %w", g.Name(), r.Err)
		}
		return r.Val.(A), nil // set above
	case <-ctx.Done():
		return none, fmt.Errorf("%s: %w", g.Name(), context.Cause(ctx))
	}
}

// fromCache returns a cached answer. It removes expired answers first.
func (g *Guarded[Q, A]) fromCache(key string) (A, bool) {
	now := time.Now()
	for {
		oldest, cached, ok := g.cache.GetOldest()
		if !ok || now.Before(cached.expiresAt) {
			break
		}
		g.cache.Remove(oldest)
	}
	cached, ok := g.cache.Peek(key) // Peek keeps the order of insertion, so that the oldest expires first
	if !ok || !now.Before(cached.expiresAt) {
		var none A
		return none, false
	}
	g.metrics.calls.WithLabelValues(g.Name(), "cached").Inc()
	return cached.answer, true
}

func (g *Guarded[Q, A]) call(ctx context.Context, key string, q Q) (answer A, err error) {
	began := time.Now()
	defer func() {
		g.metrics.calls.WithLabelValues(g.Name(), outcome(err)).Inc()
		g.metrics.seconds.WithLabelValues(g.Name()).Observe(time.Since(began).Seconds())
	}()
	if wait := g.pause(0); wait > 0 {
		return answer, fmt.Errorf("%w for %v", ErrPaused, wait.Round(time.Second))
	}
	select {
	case g.permits <- struct{}{}:
	case <-time.After(g.cfg.Timeout):
		return answer, ErrBusy
	case <-ctx.Done():
		return answer, context.Cause(ctx)
	}
	defer func() { <-g.permits }()
	// select may choose the slot although ctx has ended.
	if ctx.Err() != nil {
		return answer, context.Cause(ctx)
	}
	// The call gets the full timeout: a shortened one would count against a healthy server.
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Timeout)
	defer cancel()
	answer, err = breaker.Do(ctx, g.breaker, g.Name(), func(ctx context.Context) (A, error) {
		return g.callRecovered(ctx, q)
	})
	if retry := (*RetryError)(nil); errors.As(err, &retry) {
		g.pause(retry.After)
	}
	if err == nil {
		g.cache.Add(key, cachedResponse[A]{answer: answer, expiresAt: time.Now().Add(g.cfg.CacheFor)})
	}
	return answer, err
}

// errPanic is a panic in a provider.
var errPanic = errors.New("panic")

// callRecovered calls the provider and returns a panic as an error. singleflight runs it in its own
// goroutine, where no caller can recover.
func (g *Guarded[Q, A]) callRecovered(ctx context.Context, q Q) (answer A, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %T", errPanic, p)
			g.logger.LogAttrs(ctx, slog.LevelError, "provider: panic", slog.String("provider", g.Name()),
				slog.String("stack", string(debug.Stack())))
		}
	}()
	return g.inner.Ask(ctx, q)
}

// pause extends the pause of the server by d from now, and returns the remaining pause.
func (g *Guarded[Q, A]) pause(d time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if until := now.Add(min(d, maxPause)); d > 0 && until.After(g.pausedUntil) {
		g.pausedUntil = until
	}
	return g.pausedUntil.Sub(now)
}

// State returns the state of the breaker: "closed", "half-open" or "open".
func (g *Guarded[Q, A]) State() string { return g.breaker.State(g.Name()) }

// outcome returns the outcome label of a call.
func outcome(err error) string {
	switch {
	case err == nil:
		return "answered"
	case errors.Is(err, breaker.ErrOpen):
		return "open"
	case errors.Is(err, ErrPaused):
		return "paused"
	case errors.Is(err, ErrBusy):
		return "busy"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.As(err, new(*RetryError)):
		return "limited"
	}
	return "failed"
}

// Metrics are the metrics of all providers of a process.
type Metrics struct {
	registerer prometheus.Registerer
	calls      *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
}

// NewMetrics registers the metrics. A nil registerer disables them.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		registerer: reg,
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_discovery_provider_calls_total",
			Help: "Calls to discovery providers by outcome (answered, cached, failed, timeout, limited, " +
				"paused, open, busy).",
		}, []string{"provider", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "muster_discovery_provider_duration_seconds",
			Help:    "Time of uncached calls to discovery providers, in seconds.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 13),
		}, []string{"provider"}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.calls, m.seconds} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}
