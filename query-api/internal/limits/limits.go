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

// Decision is what came of a request.
type Decision struct {
	Allowed bool
	// Limit is how many requests may come at once when none came before, which
	// is also how many are allowed a minute. Remaining is how many may come now.
	Limit, Remaining int64
	// ResetAfter is when Remaining is Limit again, RetryAfter when a refused
	// request is allowed.
	ResetAfter, RetryAfter time.Duration
}

// Limiter decides whether a key's request may pass.
type Limiter interface {
	// Take uses one request of perMinute, which is 1 at least. An error means
	// that there is no decision.
	Take(ctx context.Context, key string, perMinute int64) (Decision, error)
	// TakeInMinute uses one of the requests of which no minute may have more than most. Unlike with
	// Take, none comes back before a minute has passed. Its keys are apart from those of Take.
	TakeInMinute(ctx context.Context, key string, most int64) (Decision, error)
}

// memoryKeys bounds the keys whose rate is in memory. The key that was not used
// for the longest time is forgotten first, which gives it a full minute again.
const memoryKeys = 100_000

// NewMemory returns a Limiter for one replica.
func NewMemory(now func() time.Time) (Limiter, error) {
	store, err := memstore.New(memoryKeys)
	if err != nil {
		return nil, fmt.Errorf("rate limits in memory: %w", err)
	}
	store.SetTimeNow(now)
	return newLimiter(throttled.WrapStoreWithContext(store), now), nil
}

// attempts is how often a decision is tried that others overtake.
const attempts = 100

// limiter has one of throttled's limiters for each rate that it has met, over
// one store.
type limiter struct {
	windows
	store throttled.GCRAStoreCtx

	mu    sync.RWMutex
	rates map[int64]*throttled.GCRARateLimiterCtx
}

// maxRates bounds the rates that are kept; plans have few.
const maxRates = 1024

func newLimiter(store throttled.GCRAStoreCtx, now func() time.Time) *limiter {
	return &limiter{
		windows: windows{now: now, taken: make(map[string][]time.Time)},
		store:   store, rates: make(map[int64]*throttled.GCRARateLimiterCtx),
	}
}

// name is the name of a key's state. A plan that changes begins afresh: the old state
// is in another unit.
func name(key string, perMinute int64) string { return key + ":" + strconv.FormatInt(perMinute, 10) }

func check(perMinute int64) error {
	if perMinute < 1 || time.Duration(perMinute) > time.Minute {
		return errors.New("rate limit: no such rate")
	}
	return nil
}

// Take implements [Limiter].
func (l *limiter) Take(ctx context.Context, key string, perMinute int64) (Decision, error) {
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
	rate.SetMaxCASAttemptsLimit(attempts)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rates) >= maxRates {
		clear(l.rates)
	}
	l.rates[perMinute] = rate
	return rate, nil
}
