package limits

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed redis.lua
var redisScript string

// takeTimeout bounds a decision of Redis: a request that waits for it longer passes.
const takeTimeout = 300 * time.Millisecond

// redisLimiter decides in one script, so that requests of one key neither overtake
// each other nor wait for each other, in one process or in several. The clock is the
// server's.
type redisLimiter struct {
	client redis.UniversalClient
	prefix string
	script *redis.Script
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
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	each := time.Minute / time.Duration(perMinute)
	ahead := each * time.Duration(perMinute)
	reply, err := l.script.Run(ctx, l.client, []string{l.prefix + name(key, perMinute)}, each.Nanoseconds(), ahead.Nanoseconds()).Int64Slice()
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
