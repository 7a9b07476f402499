package contexts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"muster/schemas/event"
)

// Left is where replicas tell each other which calls were answered without their
// outcome, so that any of them hands it over, and which outcomes were settled before that.
type Left interface {
	// Note says that a call is answered without its outcome. settled reports whether that
	// was settled already, so that no replica looks for the note any more.
	Note(ctx context.Context, requestID string) (settled bool, err error)
	// Settle says that an outcome is settled, and reports whether its call was answered
	// without it.
	Settle(ctx context.Context, requestID string) (left bool, err error)
}

// RedisLeft is a [Left] in Redis.
type RedisLeft struct {
	client redis.UniversalClient
	prefix string
}

// NewRedisLeft returns one whose keys begin with prefix.
func NewRedisLeft(client redis.UniversalClient, prefix string) *RedisLeft {
	return &RedisLeft{client: client, prefix: prefix}
}

// Values of a call's key. settledKept is much longer than a call waits.
const (
	isLeft, isSettled = "1", "settled"
	settledKept       = 15 * time.Minute
)

// Note implements [Left].
func (r *RedisLeft) Note(ctx context.Context, requestID string) (settled bool, err error) {
	var before *redis.StringCmd
	if _, err := r.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		before = p.Get(ctx, r.prefix+requestID)
		p.Set(ctx, r.prefix+requestID, isLeft, event.ContextKept)
		return nil
	}); err != nil && !errors.Is(err, redis.Nil) {
		return false, fmt.Errorf("redis: note a call that was left: %w", err)
	}
	return before.Val() == isSettled, nil
}

// Settle implements [Left].
func (r *RedisLeft) Settle(ctx context.Context, requestID string) (left bool, err error) {
	var now *redis.StringCmd
	if _, err := r.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.SetNX(ctx, r.prefix+requestID, isSettled, settledKept)
		now = p.Get(ctx, r.prefix+requestID)
		return nil
	}); err != nil {
		return false, fmt.Errorf("redis: look for a call that was left: %w", err)
	}
	return now.Val() == isLeft, nil
}
