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

	"muster/discovery-worker/internal/detached"
	"muster/platform/breaker"
)

// Provider answers questions from outside.
type Provider[Q, A any] interface {
	// Name names the provider in metrics, logs and errors.
	Name() string
	// Ask asks. It ends with ctx.
	Ask(ctx context.Context, q Q) (A, error)
}

// Config bounds a provider. Zero fields take their defaults.
type Config struct {
	// Timeout bounds one call; default 5 s.
	Timeout time.Duration
	// Concurrent is how many calls run at once; default 4. A call that finds all
	// taken waits as long as Timeout for a place, and has its whole time then.
	Concurrent int
	// Failures in a row open the breaker; default 5. OpenFor is how long it then
	// refuses before one call may try again; default 30 s.
	Failures uint32
	OpenFor  time.Duration
	// CacheSize is how many answers are kept, for CacheFor; defaults 10,000 and 1 h.
	CacheSize int
	CacheFor  time.Duration
	// Detached is what the calls belong to, which go on when their askers leave. Default: nobody ends them.
	Detached *detached.Group
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
	if c.Detached == nil {
		c.Detached = new(detached.Group)
	}
	return c
}

// Refusals of a guard.
var (
	// ErrPaused: the server has asked to be left alone.
	ErrPaused = errors.New("paused at the server's request")
	// ErrBusy: no call became free in time.
	ErrBusy = errors.New("all calls are taken")
)

// maxPause bounds how long a server is left alone because it asked for it.
const maxPause = 15 * time.Minute

// RetryError says that the server wants to be asked again after a time.
type RetryError struct {
	After time.Duration
	Err   error
}

// Error says so.
func (e *RetryError) Error() string {
	return fmt.Sprintf("%v; again after %v", e.Err, e.After.Round(time.Second))
}

// Unwrap returns what went wrong.
func (e *RetryError) Unwrap() error { return e.Err }

// Guarded is a provider that is safe to call often and concurrently.
type Guarded[Q, A any] struct {
	inner   Provider[Q, A]
	cfg     Config
	key     func(Q) string
	breaker *breaker.Set
	permits chan struct{}
	cache   *lru.Cache[string, keptAnswer[A]]
	asking  singleflight.Group
	metrics *Metrics
	logger  *slog.Logger

	mu     sync.Mutex
	paused time.Time
}

// keptAnswer is an answer of the cache.
type keptAnswer[A any] struct {
	answer A
	until  time.Time
}

// Guard guards a provider. Answers to questions of one key are equal.
func Guard[Q, A any](p Provider[Q, A], cfg Config, key func(Q) string, m *Metrics, logger *slog.Logger) (*Guarded[Q, A], error) {
	cfg = cfg.withDefaults()
	set, err := breaker.NewSet(breaker.Config{
		Name: "discovery-" + p.Name(), Failures: cfg.Failures, OpenFor: cfg.OpenFor, KeyMetrics: true, Logger: logger, Registerer: m.registerer,
		IsFailure: func(err error) bool { return !errors.As(err, new(*RetryError)) },
	})
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", p.Name(), err)
	}
	cache, err := lru.New[string, keptAnswer[A]](cfg.CacheSize)
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", p.Name(), err)
	}
	return &Guarded[Q, A]{
		inner: p, cfg: cfg, key: key, breaker: set, permits: make(chan struct{}, cfg.Concurrent),
		cache: cache, metrics: m, logger: logger,
	}, nil
}

// Name is the provider's name.
func (g *Guarded[Q, A]) Name() string { return g.inner.Name() }

// Ask asks the provider, or answers from the cache. Equal questions at the same
// time are asked once, and the asking goes on when one of the askers leaves.
func (g *Guarded[Q, A]) Ask(ctx context.Context, q Q) (A, error) {
	key := g.key(q)
	if answer, ok := g.kept(key); ok {
		return answer, nil
	}
	result := g.asking.DoChan(key, func() (any, error) {
		if answer, ok := g.kept(key); ok { // since it was looked up above
			return answer, nil
		}
		// The asker's own end shall not fail others who wait for the same.
		asking, done := g.cfg.Detached.Begin(ctx)
		defer done()
		return g.ask(asking, key, q)
	})
	var none A
	select {
	case r := <-result:
		if r.Err != nil {
			return none, fmt.Errorf("%s: %w", g.Name(), r.Err)
		}
		return r.Val.(A), nil // made above
	case <-ctx.Done():
		return none, fmt.Errorf("%s: %w", g.Name(), context.Cause(ctx))
	}
}

// kept is the cache's answer. What has been kept for its time is forgotten by whatever is asked next.
func (g *Guarded[Q, A]) kept(key string) (A, bool) {
	now := time.Now()
	for {
		oldest, kept, ok := g.cache.GetOldest()
		if !ok || now.Before(kept.until) {
			break
		}
		g.cache.Remove(oldest)
	}
	kept, ok := g.cache.Peek(key) // no use of it: the oldest is the one that has been kept for longest
	if !ok || !now.Before(kept.until) {
		var none A
		return none, false
	}
	g.metrics.calls.WithLabelValues(g.Name(), "cached").Inc()
	return kept.answer, true
}

func (g *Guarded[Q, A]) ask(ctx context.Context, key string, q Q) (answer A, err error) {
	began := time.Now()
	defer func() {
		g.metrics.calls.WithLabelValues(g.Name(), outcome(err)).Inc()
		g.metrics.seconds.WithLabelValues(g.Name()).Observe(time.Since(began).Seconds())
	}()
	if wait := g.pause(0); wait > 0 {
		return answer, fmt.Errorf("%w for another %v", ErrPaused, wait.Round(time.Second))
	}
	select {
	case g.permits <- struct{}{}:
	case <-time.After(g.cfg.Timeout):
		return answer, ErrBusy
	case <-ctx.Done():
		return answer, context.Cause(ctx)
	}
	defer func() { <-g.permits }()
	if ctx.Err() != nil { // of several that are ready select takes any
		return answer, context.Cause(ctx)
	}
	// What is left after the wait would be too little for a server that is well, and
	// speak against it.
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Timeout)
	defer cancel()
	answer, err = breaker.Do(ctx, g.breaker, g.Name(), func(ctx context.Context) (A, error) { return g.unbroken(ctx, q) })
	if retry := (*RetryError)(nil); errors.As(err, &retry) {
		g.pause(retry.After)
	}
	if err == nil {
		g.cache.Add(key, keptAnswer[A]{answer: answer, until: time.Now().Add(g.cfg.CacheFor)})
	}
	return answer, err
}

// errPanic is a defect in reading what a server has answered.
var errPanic = errors.New("panic")

// unbroken asks, and makes an error of a panic: nobody else could recover from it, since
// singleflight runs the asking in a goroutine of its own.
func (g *Guarded[Q, A]) unbroken(ctx context.Context, q Q) (answer A, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %T", errPanic, p)
			g.logger.LogAttrs(ctx, slog.LevelError, "provider panicked", slog.String("provider", g.Name()), slog.String("stack", string(debug.Stack())))
		}
	}()
	return g.inner.Ask(ctx, q)
}

// pause leaves the server alone for a time, and returns how long it is left
// alone from now.
func (g *Guarded[Q, A]) pause(d time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if until := now.Add(min(d, maxPause)); d > 0 && until.After(g.paused) {
		g.paused = until
	}
	return g.paused.Sub(now)
}

// State is that of the breaker: "closed", "half-open" or "open".
func (g *Guarded[Q, A]) State() string { return g.breaker.State(g.Name()) }

// outcome labels the end of a call.
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

// Metrics are those of all providers of a process.
type Metrics struct {
	registerer prometheus.Registerer
	calls      *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
}

// NewMetrics registers metrics; a nil registerer registers none.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		registerer: reg,
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_discovery_provider_calls_total",
			Help: "Calls of discovery's providers by how they ended (answered, cached, failed, timeout, limited, paused, open, busy).",
		}, []string{"provider", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "muster_discovery_provider_seconds", Help: "Time of calls of discovery's providers that the cache did not answer.",
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
