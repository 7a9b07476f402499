package limits

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
)

// Decision is the result of a rate-limit check.
type Decision struct {
	Allowed bool
	// Limit is the number of requests per minute, which is also the maximum burst. Remaining is the number of requests
	// allowed now.
	Limit, Remaining int64
	// ResetAfter is the time until Remaining is Limit, RetryAfter the time until a rejected request is allowed.
	ResetAfter, RetryAfter time.Duration
}

// Limiter limits the requests of keys. It is safe for concurrent use.
type Limiter interface {
	// Allow counts one request of perMinute, at least 1. An error means that there is no decision.
	Allow(ctx context.Context, key string, perMinute int64) (Decision, error)
	// AllowInWindow counts one request, of which no window of a minute may have more than most. Unlike with Allow, a
	// request is restored only after a full minute. Its keys are separate from those of Allow.
	AllowInWindow(ctx context.Context, key string, most int64) (Decision, error)
}

// memoryKeys is the maximum number of keys in memory. The least recently used key is evicted, which resets its limit.
const memoryKeys = 100_000

// NewMemory returns a Limiter for a single replica.
func NewMemory(now func() time.Time) (Limiter, error) {
	store, err := memstore.New(memoryKeys)
	if err != nil {
		return nil, fmt.Errorf("in-memory rate limiter: %w", err)
	}
	store.SetTimeNow(now)
	return newLimiter(throttled.WrapStoreWithContext(store), now), nil
}

// maxAttempts is the maximum number of compare-and-swap attempts of a decision.
const maxAttempts = 100

// limiter has one throttled limiter per rate, on a common store.
type limiter struct {
	windows
	store throttled.GCRAStoreCtx

	mu    sync.RWMutex
	rates map[int64]*throttled.GCRARateLimiterCtx
}

// maxRates is the maximum number of cached rates; plans have few.
const maxRates = 1024

func newLimiter(store throttled.GCRAStoreCtx, now func() time.Time) *limiter {
	return &limiter{
		windows: windows{now: now, taken: make(map[string][]time.Time)},
		store:   store, rates: make(map[int64]*throttled.GCRARateLimiterCtx),
	}
}

// name returns the name of the state of a key. A plan change resets the limit, because the old state has another unit.
func name(key string, perMinute int64) string { return key + ":" + strconv.FormatInt(perMinute, 10) }

func check(perMinute int64) error {
	if perMinute < 1 || time.Duration(perMinute) > time.Minute {
		return errors.New("rate limit: invalid rate")
	}
	return nil
}

// Allow implements [Limiter].
func (l *limiter) Allow(ctx context.Context, key string, perMinute int64) (Decision, error) {
	rate, err := l.rate(perMinute)
	if err != nil {
		return Decision{}, err
	}
	limited, result, err := rate.RateLimitCtx(ctx, name(key, perMinute), 1)
	if err != nil {
		return Decision{}, fmt.Errorf("rate limit: %w", err)
	}
	return Decision{
		Allowed: !limited, Limit: int64(result.Limit), Remaining: int64(max(0, result.Remaining)),
		ResetAfter: max(0, result.ResetAfter), RetryAfter: max(0, result.RetryAfter),
	}, nil
}

func (l *limiter) rate(perMinute int64) (*throttled.GCRARateLimiterCtx, error) {
	l.mu.RLock()
	rate := l.rates[perMinute]
	l.mu.RUnlock()
	if rate != nil {
		return rate, nil
	}
	if err := check(perMinute); err != nil {
		return nil, err
	}
	rate, err := throttled.NewGCRARateLimiterCtx(l.store, throttled.RateQuota{
		MaxRate: throttled.PerMin(int(perMinute)), MaxBurst: int(perMinute) - 1,
	})
	if err != nil {
		return nil, fmt.Errorf("rate limit: %w", err)
	}
	rate.SetMaxCASAttemptsLimit(maxAttempts)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rates) >= maxRates {
		clear(l.rates)
	}
	l.rates[perMinute] = rate
	return rate, nil
}
