package contexts

import (
	"context"
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

// settledKept is much longer than a call waits.
const settledKept = 15 * time.Minute

// keys are those of a call that was left, which the version before knows it by, and of one whose outcome is
// settled; both in one slot of a cluster.
func (r *RedisLeft) keys(requestID string) (left, settled string) {
	left = r.prefix + requestID
	return left, "{" + left + "}:settled"
}

// Note implements [Left].
func (r *RedisLeft) Note(ctx context.Context, requestID string) (settled bool, err error) {
	left, done := r.keys(requestID)
	var is *redis.IntCmd
	if _, err := r.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		is = p.Exists(ctx, done)
		p.Set(ctx, left, 1, event.ContextKept)
		return nil
	}); err != nil {
		return false, fmt.Errorf("redis: note a call that was left: %w", err)
	}
	if is.Val() == 0 {
		return false, nil
	}
	// The call is answered after all: nobody is to find the note, should the outcome come again.
	if err := r.client.Del(ctx, left).Err(); err != nil {
		return true, fmt.Errorf("redis: take back the note of a call: %w", err)
	}
	return true, nil
}

// Settle implements [Left].
func (r *RedisLeft) Settle(ctx context.Context, requestID string) (left bool, err error) {
	note, done := r.keys(requestID)
	var is *redis.IntCmd
	if _, err := r.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, done, 1, settledKept)
		is = p.Exists(ctx, note)
		return nil
	}); err != nil {
		return false, fmt.Errorf("redis: look for a call that was left: %w", err)
	}
	return is.Val() > 0, nil
}
