package limits

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
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
	return newLimiter(throttled.WrapStoreWithContext(store), false), nil
}

// NewRedis returns a Limiter that shares its state, under names that begin with
// prefix, with the other replicas. One decision is two round trips.
func NewRedis(client redis.UniversalClient, prefix string) (Limiter, error) {
	store, err := goredisstore.NewCtx(client, prefix)
	if err != nil {
		return nil, fmt.Errorf("rate limits in Redis: %w", err)
	}
	return newLimiter(store, true), nil
}

// attempts is how often a decision is tried that others overtake.
const attempts = 100

// limiter has one of throttled's limiters for each rate that it has met, over
// one store.
type limiter struct {
	store throttled.GCRAStoreCtx
	// lanes make the requests of one key wait for each other, so that within a
	// process they do not overtake each other between the round trips; nil
	// where there are none.
	lanes []sync.Mutex
	seed  maphash.Seed

	mu    sync.RWMutex
	rates map[int64]*throttled.GCRARateLimiterCtx
}

// maxRates bounds the rates that are kept; plans have few.
const maxRates = 1024

func newLimiter(store throttled.GCRAStoreCtx, remote bool) *limiter {
	l := &limiter{store: store, seed: maphash.MakeSeed(), rates: make(map[int64]*throttled.GCRARateLimiterCtx)}
	if remote {
		l.lanes = make([]sync.Mutex, 256)
	}
	return l
}

// Take implements [Limiter].
func (l *limiter) Take(ctx context.Context, key string, perMinute int64) (Decision, error) {
	rate, err := l.rate(perMinute)
	if err != nil {
		return Decision{}, err
	}
	// A plan that changes begins afresh: the old state is in another unit.
	name := key + ":" + strconv.FormatInt(perMinute, 10)
	if l.lanes != nil {
		lane := &l.lanes[maphash.String(l.seed, name)%uint64(len(l.lanes))]
		lane.Lock()
		defer lane.Unlock()
	}
	limited, result, err := rate.RateLimitCtx(ctx, name, 1)
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
	if perMinute < 1 || time.Duration(perMinute) > time.Minute {
		return nil, errors.New("rate limit: no such rate")
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
