package contexts

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"muster/schemas/event"
)

// AbandonedCalls is the shared set of calls that were answered without their result, so that any replica can deliver
// it, and of results that were settled before that.
type AbandonedCalls interface {
	// MarkAbandoned records that a call is answered without its result. settled reports whether the result was already
	// settled, so that no replica will look for the mark.
	MarkAbandoned(ctx context.Context, requestID string) (settled bool, err error)
	// Settle records that a result is settled, and reports whether its call was answered without it.
	Settle(ctx context.Context, requestID string) (abandoned bool, err error)
}

// RedisAbandonedCalls implements [AbandonedCalls] in Redis.
type RedisAbandonedCalls struct {
	client redis.UniversalClient
	prefix string
}

// NewRedisAbandonedCalls returns a set whose keys start with prefix.
func NewRedisAbandonedCalls(client redis.UniversalClient, prefix string) *RedisAbandonedCalls {
	return &RedisAbandonedCalls{client: client, prefix: prefix}
}

// settledTTL is the lifetime of a settled mark, much longer than any call waits.
const settledTTL = 15 * time.Minute

// keys returns the keys of the abandoned and the settled mark of a call, in one slot of a cluster. Earlier versions use
// the same key for abandoned calls.
func (r *RedisAbandonedCalls) keys(requestID string) (abandoned, settled string) {
	abandoned = r.prefix + requestID
	return abandoned, "{" + abandoned + "}:settled"
}

// MarkAbandoned implements [AbandonedCalls].
func (r *RedisAbandonedCalls) MarkAbandoned(ctx context.Context, requestID string) (settled bool, err error) {
	abandoned, done := r.keys(requestID)
	var exists *redis.IntCmd
	if _, err := r.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		exists = p.Exists(ctx, done)
		p.Set(ctx, abandoned, 1, event.ContextRetention)
		return nil
	}); err != nil {
		return false, fmt.Errorf("redis: mark call as abandoned: %w", err)
	}
	if exists.Val() == 0 {
		return false, nil
	}
	// The call is answered after all: remove the mark in case the result is consumed again.
	if err := r.client.Del(ctx, abandoned).Err(); err != nil {
		return true, fmt.Errorf("redis: remove abandoned mark: %w", err)
	}
	return true, nil
}

// Settle implements [AbandonedCalls].
func (r *RedisAbandonedCalls) Settle(ctx context.Context, requestID string) (abandoned bool, err error) {
	mark, done := r.keys(requestID)
	var exists *redis.IntCmd
	if _, err := r.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, done, 1, settledTTL)
		exists = p.Exists(ctx, mark)
		return nil
	}); err != nil {
		return false, fmt.Errorf("redis: look up abandoned mark: %w", err)
	}
	return exists.Val() > 0, nil
}
