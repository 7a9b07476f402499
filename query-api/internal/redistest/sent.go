package redistest

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Sent is a client hook that counts commands; after a guard, those that the guard admits. Handshakes and pipelines are
// not counted.
type Sent struct{ n atomic.Int64 }

// Load returns the number of commands.
func (s *Sent) Load() int64 { return s.n.Load() }

// DialHook implements [redis.Hook].
func (*Sent) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (s *Sent) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "hello" {
			s.n.Add(1)
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (*Sent) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
