package contexts

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"muster/schemas/event"
)

// Left is where replicas tell each other which calls were answered without their
// outcome, so that any of them hands it over.
type Left interface {
	// Note says that a call is answered without its outcome.
	Note(ctx context.Context, requestID string) error
	// Has reports whether it was.
	Has(ctx context.Context, requestID string) (bool, error)
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

// Note implements [Left].
func (r *RedisLeft) Note(ctx context.Context, requestID string) error {
	if err := r.client.Set(ctx, r.prefix+requestID, 1, event.ContextKept).Err(); err != nil {
		return fmt.Errorf("redis: note a call that was left: %w", err)
	}
	return nil
}

// Has implements [Left].
func (r *RedisLeft) Has(ctx context.Context, requestID string) (bool, error) {
	n, err := r.client.Exists(ctx, r.prefix+requestID).Result()
	if err != nil {
		return false, fmt.Errorf("redis: look for a call that was left: %w", err)
	}
	return n > 0, nil
}
