package limits

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed redis.lua
var redisScript string

//go:embed window.lua
var windowScript string

// ErrLate says that Redis has not decided in time. That it is away it does not say.
var ErrLate = errors.New("no decision in time")

// ErrClosed is the error of Take after Close.
var ErrClosed = errors.New("the rates are closed")

// TakeTimeout bounds a decision of Redis in service: a request that waits for it longer
// passes.
const TakeTimeout = 300 * time.Millisecond

// maxLate is how many late decisions are waited for before further ones are not
// asked for: requests shall not each wait for a server that is silent.
const maxLate = 3

// Redis is a [Limiter] that decides in one script, so that requests of one key neither
// overtake each other nor wait for each other, in one process or in several. The clock is
// the server's.
type Redis struct {
	client  redis.UniversalClient
	prefix  string
	timeout time.Duration
	script  *redis.Script
	window  *redis.Script
	late    atomic.Int64 // decisions that nobody waits for any more, and that are still to come

	mu      sync.Mutex
	closed  bool           // guarded by mu
	running sync.WaitGroup // decisions that are asked for; grows under mu while closed is false
}

// NewRedis returns a Limiter that shares its state, under names that begin with
// prefix, with the other replicas. One decision is one round trip, and is waited for as
// long as timeout. Whoever makes it calls Close before the client is closed.
func NewRedis(client redis.UniversalClient, prefix string, timeout time.Duration) *Redis {
	return &Redis{client: client, prefix: prefix, timeout: timeout, script: redis.NewScript(redisScript), window: redis.NewScript(windowScript)}
}

// Close waits for the decisions that are still to come, which takes as long as the client
// lets a command take. There are no further ones.
func (l *Redis) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.running.Wait()
}

// Take implements [Limiter]. A caller who leaves meanwhile waits no longer than timeout
// all the same, so that a decision that is late is known to be.
func (l *Redis) Take(ctx context.Context, key string, perMinute int64) (Decision, error) {
	if err := check(perMinute); err != nil {
		return Decision{}, err
	}
	each := time.Minute / time.Duration(perMinute)
	ahead := each * time.Duration(perMinute)
	reply, err := l.run(ctx, l.script, 3, l.prefix+name(key, perMinute), each.Nanoseconds(), ahead.Nanoseconds())
	if err != nil {
		return Decision{}, fmt.Errorf("rate limit: %w", err)
	}
	d := Decision{Allowed: reply[0] == 1, Limit: perMinute, ResetAfter: time.Duration(reply[1]), RetryAfter: time.Duration(reply[2])}
	d.Remaining = int64(max(0, ahead-d.ResetAfter) / each)
	return d, nil
}

// TakeInMinute implements [Limiter].
func (l *Redis) TakeInMinute(ctx context.Context, key string, most int64) (Decision, error) {
	if err := check(most); err != nil {
		return Decision{}, err
	}
	reply, err := l.run(ctx, l.window, 4, l.prefix+"minute:"+name(key, most), most, time.Minute.Microseconds())
	if err != nil {
		return Decision{}, fmt.Errorf("rate limit: %w", err)
	}
	return Decision{
		Allowed: reply[0] == 1, Limit: most, Remaining: max(0, most-reply[1]),
		ResetAfter: time.Duration(reply[2]) * time.Microsecond, RetryAfter: time.Duration(reply[3]) * time.Microsecond,
	}, nil
}

// run waits for a script of so many results for as long as timeout. The command itself goes on for as
// long as the client lets it: whoever else uses Redis waits longer, and only that bound
// tells a slow server from one that is away.
func (l *Redis) run(ctx context.Context, script *redis.Script, results int, key string, args ...any) ([]int64, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if l.late.Load() >= maxLate {
		return nil, ErrLate
	}
	type result struct {
		reply []int64
		err   error
	}
	done := make(chan result, 1)
	var one atomic.Bool // of the caller and the decision has ended
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, ErrClosed
	}
	l.running.Go(func() {
		reply, err := script.Run(context.WithoutCancel(ctx), l.client, []string{key}, args...).Int64Slice()
		if err == nil && len(reply) != results {
			err = errors.New("not a decision")
		}
		done <- result{reply, err}
		if one.Swap(true) {
			l.late.Add(-1)
		}
	})
	l.mu.Unlock()
	timer := time.NewTimer(l.timeout)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.reply, r.err
	case <-timer.C:
	}
	l.late.Add(1)
	if one.Swap(true) { // it has just come
		l.late.Add(-1)
		r := <-done
		return r.reply, r.err
	}
	return nil, ErrLate
}
