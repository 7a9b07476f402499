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

// ErrTimeout is returned if Redis did not decide in time. It does not imply that Redis is unavailable.
var ErrTimeout = errors.New("rate limit decision timed out")

// ErrClosed is returned by Allow after Close.
var ErrClosed = errors.New("rate limiter closed")

// AllowTimeout is the timeout of a decision in production; after it the request is allowed.
const AllowTimeout = 300 * time.Millisecond

// maxPendingTimeouts is the number of timed-out decisions still pending above which no further ones are requested, so
// that not every request waits for an unresponsive server.
const maxPendingTimeouts = 3

// Redis is a [Limiter] shared by replicas. It decides in one script, so concurrent requests of one key neither conflict
// nor wait for each other. It uses the server's clock.
type Redis struct {
	client  redis.UniversalClient
	prefix  string
	timeout time.Duration
	script  *redis.Script
	window  *redis.Script
	late    atomic.Int64 // pending decisions whose callers timed out

	mu      sync.Mutex
	closed  bool           // guarded by mu
	running sync.WaitGroup // pending decisions; grows under mu while closed is false
}

// NewRedis returns a Limiter whose keys start with prefix. A decision takes one round trip and is limited by timeout.
// The caller must call Close before it closes the client.
func NewRedis(client redis.UniversalClient, prefix string, timeout time.Duration) *Redis {
	return &Redis{
		client: client, prefix: prefix, timeout: timeout,
		script: redis.NewScript(redisScript), window: redis.NewScript(windowScript),
	}
}

// Close waits for pending decisions, up to the command timeout of the client. Further calls fail.
func (l *Redis) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.running.Wait()
}

// Allow implements [Limiter]. It waits up to the timeout even if ctx ends, so that late decisions are counted.
func (l *Redis) Allow(ctx context.Context, key string, perMinute int64) (Decision, error) {
	if err := check(perMinute); err != nil {
		return Decision{}, err
	}
	each := time.Minute / time.Duration(perMinute)
	burst := each * time.Duration(perMinute)
	reply, err := l.run(ctx, l.script, 3, l.prefix+name(key, perMinute), each.Nanoseconds(), burst.Nanoseconds())
	if err != nil {
		return Decision{}, fmt.Errorf("rate limit: %w", err)
	}
	d := Decision{
		Allowed: reply[0] == 1, Limit: perMinute,
		ResetAfter: time.Duration(reply[1]), RetryAfter: time.Duration(reply[2]),
	}
	d.Remaining = int64(max(0, burst-d.ResetAfter) / each)
	return d, nil
}

// AllowInWindow implements [Limiter].
func (l *Redis) AllowInWindow(ctx context.Context, key string, most int64) (Decision, error) {
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

// run runs a script with the given number of results, and waits for it up to the timeout. The command itself continues
// up to the command timeout of the client: other users of Redis wait longer, and only that timeout distinguishes a slow
// server from an unavailable one.
func (l *Redis) run(ctx context.Context, script *redis.Script, results int, key string, args ...any) ([]int64, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if l.late.Load() >= maxPendingTimeouts {
		return nil, ErrTimeout
	}
	type result struct {
		reply []int64
		err   error
	}
	done := make(chan result, 1)
	var ended atomic.Bool // whether the caller or the command has ended
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, ErrClosed
	}
	l.running.Go(func() {
		reply, err := script.Run(context.WithoutCancel(ctx), l.client, []string{key}, args...).Int64Slice()
		if err == nil && len(reply) != results {
			err = errors.New("invalid decision")
		}
		done <- result{reply, err}
		if ended.Swap(true) {
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
	if ended.Swap(true) { // the decision has just arrived
		l.late.Add(-1)
		r := <-done
		return r.reply, r.err
	}
	return nil, ErrTimeout
}
