package redisguard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"muster/platform/breaker"
)

// ErrAway is the error of commands while Redis is away, those included that were not
// sent. The log has the outage already.
var ErrAway = errors.New("redis is away")

const (
	// key is the one key of the breaker.
	key = "redis"
	// failures is how many commands in a row find that Redis is away before the others
	// are not sent, for as long as openFor.
	failures = 3
	openFor  = time.Second
	// calm is how long no command must have failed for an outage to be over in the log.
	calm = 5 * time.Second
)

// Guard is a circuit breaker before a client. It implements [redis.Hook].
type Guard struct {
	breaker  *breaker.Set
	timeouts Timeouts
	logger   *slog.Logger

	mu            sync.Mutex
	began, failed time.Time // the first and the last failure of an outage; zero: there is none
	count         int       // of failures
}

// New returns a guard, whose metrics are those of the breaker set "redis".
func New(logger *slog.Logger, registerer prometheus.Registerer, t Timeouts) (*Guard, error) {
	set, err := breaker.NewSet(breaker.Config{
		// Its own log would have two lines for every second of an outage.
		Name: key, Failures: failures, OpenFor: openFor, IsFailure: away, KeyMetrics: true, Registerer: registerer,
	})
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	return &Guard{breaker: set, timeouts: t, logger: logger}, nil
}

// DialHook implements [redis.Hook]. Connecting is part of the command that needs it; what a
// Sentinel answers then is no answer to that.
func (g *Guard) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		var reply redis.Error
		switch {
		case errors.Is(err, redis.Nil):
			return nil, errors.New("no Sentinel knows a primary of this master_name")
		case errors.As(err, &reply):
			return nil, fmt.Errorf("ask a Sentinel for the primary: %s", reply.Error())
		}
		return conn, err
	}
}

// ProcessHook implements [redis.Hook].
func (g *Guard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return g.do(ctx, g.timeouts.Command, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (g *Guard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		sent := false
		err := g.do(ctx, g.timeouts.Pipeline, func(ctx context.Context) error {
			sent = true
			return next(ctx, cmds)
		})
		if !sent {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

// passedKey marks what is done for a command that has passed, such as the greeting of
// its connection.
type passedKey struct{}

func (g *Guard) do(ctx context.Context, timeout time.Duration, send func(context.Context) error) error {
	if ctx.Value(passedKey{}) != nil {
		return send(ctx)
	}
	if ctx.Err() != nil { // says nothing of Redis
		return context.Cause(ctx)
	}
	// A caller who leaves says nothing to the breaker. Neither does one whose own time is over
	// before the command's is, which the breaker alone would count.
	asked, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	err := g.breaker.Do(asked, key, func(context.Context) error {
		within, cancel := context.WithTimeout(context.WithValue(ctx, passedKey{}, true), timeout)
		defer cancel()
		err := send(within)
		gone := over(ctx)
		if gone == nil {
			g.note(ctx, err)
			return err
		}
		leave()
		var silent net.Error
		if errors.As(err, &silent) && silent.Timeout() && !errors.Is(err, gone) {
			return fmt.Errorf("%w: %w", gone, err)
		}
		return err
	})
	if away(err) && asked.Err() == nil {
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	return err
}

// over is why a caller waits no longer, or nil. Where a connection is read until the caller's own deadline, it
// tells of that a moment before the context does.
func over(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// away reports whether an error is not an answer to the command. Replies with a code of
// their own are states of the server, but for those that a command brings about; of those
// without one, two are about the connection.
func away(err error) bool {
	var reply redis.Error
	switch {
	case err == nil, errors.Is(err, redis.Nil):
		return false
	case !errors.As(err, &reply):
		return true
	}
	code, text, _ := strings.Cut(reply.Error(), " ")
	switch code {
	case "NOSCRIPT", "WRONGTYPE":
		return false
	case "ERR":
		// The latter is said to a command of many arguments where a password is wanted.
		return strings.HasPrefix(text, "max number of clients") || strings.HasPrefix(text, "Protocol error")
	}
	return true
}

// note keeps the log: an outage has begun, or is over.
func (g *Guard) note(ctx context.Context, err error) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case away(err):
		if g.began.IsZero() {
			g.began = now
			g.logger.LogAttrs(ctx, slog.LevelWarn, "Redis is away: calls pass without a rate, and nothing is charged", slog.Any("error", err))
		}
		g.failed = now
		g.count++
	case !g.began.IsZero() && now.Sub(g.failed) >= calm:
		g.logger.LogAttrs(ctx, slog.LevelInfo, "Redis answers again",
			slog.Duration("away", g.failed.Sub(g.began)), slog.Int("failed", g.count))
		g.began, g.failed, g.count = time.Time{}, time.Time{}, 0
	}
}
