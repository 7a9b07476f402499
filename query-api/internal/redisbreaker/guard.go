package redisbreaker

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

// ErrUnavailable is returned by commands while Redis is unavailable, whether they were sent or not. The outage is
// already logged.
var ErrUnavailable = errors.New("redis unavailable")

const (
	// key is the only key of the breaker.
	key = "redis"
	// failures is the number of consecutive failures that opens the breaker for openFor.
	failures = 3
	openFor  = time.Second
	// recoveryTime is the time without failures after which the end of an outage is logged.
	recoveryTime = 5 * time.Second
)

// Guard is a circuit breaker of a client. It implements [redis.Hook].
type Guard struct {
	breaker  *breaker.Set
	timeouts Timeouts
	logger   *slog.Logger

	mu            sync.Mutex
	began, failed time.Time // first and last failure of the outage; zero if there is none
	count         int       // number of failures of the outage
}

// New returns a guard. Its metrics are those of the breaker set "redis".
func New(logger *slog.Logger, registerer prometheus.Registerer, t Timeouts) (*Guard, error) {
	set, err := breaker.NewSet(breaker.Config{
		// No logger: the breaker would log twice per second during an outage.
		Name: key, Failures: failures, OpenFor: openFor, IsFailure: isUnavailable, KeyMetrics: true,
		Registerer: registerer,
	})
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	return &Guard{breaker: set, timeouts: t, logger: logger}, nil
}

// DialHook implements [redis.Hook]. It turns replies of Sentinels into errors of the connection: they are not replies
// to the command that needs it.
func (g *Guard) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		var reply redis.Error
		switch {
		case errors.Is(err, redis.Nil):
			return nil, errors.New("no primary for this master_name at any Sentinel")
		case errors.As(err, &reply):
			return nil, fmt.Errorf("query Sentinel for the primary: %s", reply.Error())
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

// passedKey marks the context of commands sent on behalf of an admitted command, such as the handshake of its
// connection.
type passedKey struct{}

func (g *Guard) do(ctx context.Context, timeout time.Duration, send func(context.Context) error) error {
	if ctx.Value(passedKey{}) != nil {
		return send(ctx)
	}
	if ctx.Err() != nil { // unrelated to Redis
		return context.Cause(ctx)
	}
	// A canceled caller is not a failure of Redis. Neither is one whose deadline ends before the command's, which the
	// breaker would count.
	asked, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	err := g.breaker.Do(asked, key, func(context.Context) error {
		within, cancel := context.WithTimeout(context.WithValue(ctx, passedKey{}, true), timeout)
		defer cancel()
		err := send(within)
		gone := ended(ctx)
		if gone == nil {
			g.logOutage(ctx, err)
			return err
		}
		leave()
		var silent net.Error
		if errors.As(err, &silent) && silent.Timeout() && !errors.Is(err, gone) {
			return fmt.Errorf("%w: %w", gone, err)
		}
		return err
	})
	if isUnavailable(err) && asked.Err() == nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// ended returns why a caller no longer waits, or nil. It checks the deadline itself, because a connection read with the
// caller's deadline may fail slightly before the context does.
func ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// isUnavailable reports whether an error means that Redis is unavailable, rather than being a reply to the command.
// Reply codes describe states of the server, except those that a command causes; of the replies without a code, two
// are about the connection.
func isUnavailable(err error) bool {
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
		// The server sends the latter for a command with many arguments if a password is required.
		return strings.HasPrefix(text, "max number of clients") || strings.HasPrefix(text, "Protocol error")
	}
	return true
}

// logOutage logs the start and the end of an outage.
func (g *Guard) logOutage(ctx context.Context, err error) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case isUnavailable(err):
		if g.began.IsZero() {
			g.began = now
			g.logger.LogAttrs(ctx, slog.LevelWarn, "redis: unavailable, rates are not limited and charges fail",
				slog.Any("error", err))
		}
		g.failed = now
		g.count++
	case !g.began.IsZero() && now.Sub(g.failed) >= recoveryTime:
		g.logger.LogAttrs(ctx, slog.LevelInfo, "redis: available again",
			slog.Duration("outage", g.failed.Sub(g.began)), slog.Int("failed", g.count))
		g.began, g.failed, g.count = time.Time{}, time.Time{}, 0
	}
}
