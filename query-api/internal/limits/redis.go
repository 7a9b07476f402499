package limits

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed redis.lua
var redisScript string

// ErrLate says that Redis has not decided in time. That it is away it does not say.
var ErrLate = errors.New("no decision in time")

const (
	// takeTimeout bounds a decision of Redis: a request that waits for it longer passes.
	takeTimeout = 300 * time.Millisecond
	// maxLate is how many late decisions are waited for before further ones are not
	// asked for: requests shall not each wait for a server that is silent.
	maxLate = 3
)

// redisLimiter decides in one script, so that requests of one key neither overtake
// each other nor wait for each other, in one process or in several. The clock is the
// server's.
type redisLimiter struct {
	client redis.UniversalClient
	prefix string
	script *redis.Script
	late   atomic.Int64 // decisions that nobody waits for any more, and that are still to come
}

// NewRedis returns a Limiter that shares its state, under names that begin with
// prefix, with the other replicas. One decision is one round trip.
func NewRedis(client redis.UniversalClient, prefix string) Limiter {
	return &redisLimiter{client: client, prefix: prefix, script: redis.NewScript(redisScript)}
}

// Take implements [Limiter].
func (l *redisLimiter) Take(ctx context.Context, key string, perMinute int64) (Decision, error) {
	if err := check(perMinute); err != nil {
		return Decision{}, err
	}
	if ctx.Err() != nil {
		return Decision{}, fmt.Errorf("rate limit: %w", context.Cause(ctx))
	}
	if l.late.Load() >= maxLate {
		return Decision{}, fmt.Errorf("rate limit: %w", ErrLate)
	}
	each := time.Minute / time.Duration(perMinute)
	ahead := each * time.Duration(perMinute)
	reply, err := l.run(ctx, l.prefix+name(key, perMinute), each, ahead)
	if err != nil {
		return Decision{}, fmt.Errorf("rate limit: %w", err)
	}
	if len(reply) != 3 {
		return Decision{}, errors.New("rate limit: not a decision")
	}
	d := Decision{Allowed: reply[0] == 1, Limit: perMinute, ResetAfter: time.Duration(reply[1]), RetryAfter: time.Duration(reply[2])}
	d.Remaining = int64(max(0, ahead-d.ResetAfter) / each)
	return d, nil
}

// run waits for the script for as long as takeTimeout. The command itself goes on for as
// long as the client lets it: whoever else uses Redis waits longer, and only that bound
// tells a slow server from one that is away.
func (l *redisLimiter) run(ctx context.Context, key string, each, ahead time.Duration) ([]int64, error) {
	type result struct {
		reply []int64
		err   error
	}
	results := make(chan result, 1)
	go func() {
		reply, err := l.script.Run(context.WithoutCancel(ctx), l.client, []string{key}, each.Nanoseconds(), ahead.Nanoseconds()).Int64Slice()
		results <- result{reply, err}
	}()
	timer := time.NewTimer(takeTimeout)
	defer timer.Stop()
	select {
	case r := <-results:
		return r.reply, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-timer.C:
	}
	l.late.Add(1)
	go func() {
		<-results
		l.late.Add(-1)
	}()
	return nil, ErrLate
}
