package redisguard

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// ErrURL is the error of Open. It repeats nothing of the URL: what cannot be read as a
// URL may have its password anywhere.
var ErrURL = errors.New("not a URL such as redis://user:password@host:6379/0, or rediss:// for TLS: " +
	"in a password write %25 for a percent sign, %23 for #, %2F for /, %3F for ? and %40 for @")

// Timeouts are how long the server is waited for.
type Timeouts struct {
	Dial, Answer time.Duration
	// Command bounds a command, connecting for it and its second try included.
	Command time.Duration
	// Pipeline bounds many commands at once, as balances are written.
	Pipeline time.Duration
}

// DefaultTimeouts are those of the service.
func DefaultTimeouts() Timeouts {
	return Timeouts{Dial: 300 * time.Millisecond, Answer: 500 * time.Millisecond, Command: time.Second, Pipeline: 2 * time.Second}
}

// Times returns n times as long ones, for tests in which only what they stop is late.
func (t Timeouts) Times(n int) Timeouts {
	return Timeouts{
		Dial: time.Duration(n) * t.Dial, Answer: time.Duration(n) * t.Answer,
		Command: time.Duration(n) * t.Command, Pipeline: time.Duration(n) * t.Pipeline,
	}
}

// Open returns a client that does not wait for the server, and not for long for any
// answer of it.
func Open(url string, t Timeouts) (*redis.Client, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, ErrURL
	}
	// The library tells of each failure on its own; a Guard tells of an outage once.
	logging.Disable()
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = t.Dial, t.Answer, t.Answer
	options.ContextTimeoutEnabled = true
	options.PoolSize, options.MaxRetries, options.DialerRetries = 64, 1, 1
	// A new connection begins with one round trip, not with three.
	options.DisableIdentity = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(options), nil
}
