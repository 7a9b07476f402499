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

// Open returns a client that does not wait for the server, and not for long for any
// answer of it.
func Open(url string) (*redis.Client, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, ErrURL
	}
	// The library tells of each failure on its own; a Guard tells of an outage once.
	logging.Disable()
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = dialTimeout, answerTimeout, answerTimeout
	options.ContextTimeoutEnabled = true
	options.PoolSize, options.MaxRetries, options.DialerRetries = 64, 1, 1
	// A new connection begins with one round trip, not with three.
	options.DisableIdentity = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(options), nil
}

const (
	dialTimeout   = 300 * time.Millisecond
	answerTimeout = 500 * time.Millisecond
	// commandTimeout bounds a command, connecting for it and its second try included.
	commandTimeout = time.Second
	// pipelineTimeout bounds many commands at once, as balances are written.
	pipelineTimeout = 2 * time.Second
)
