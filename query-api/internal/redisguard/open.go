package redisguard

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"muster/platform/tlsclient"
)

// ErrURL is the error of Open. It repeats nothing of the URL: what cannot be read as a
// URL may have its password anywhere.
var ErrURL = errors.New("not a URL such as redis://user:password@host:6379/0, or rediss:// for TLS: " +
	"in a password write %25 for a percent sign, %23 for #, %2F for /, %3F for ? and %40 for @; " +
	"with Sentinels redis://user:password@sentinel:26379/0?master_name=NAME&addr=sentinel2:26379&password=PASSWORD")

// Further errors of Open, which read on from the name of the variable as ErrURL does.
var (
	errNoTLS    = errors.New("without TLS, although REDIS_TLS_CA_FILE or REDIS_TLS_CERT_FILE is set: write rediss://")
	errReplicas = errors.New("to read from replicas: remove replica_only, route_by_latency and route_randomly")
)

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
// answer of it. files are nil, or the authorities and the certificate of a URL with TLS.
//
// With the parameter master_name the host of the URL, and each addr, is a Sentinel, and the
// server is the primary that they name. Nothing is ever read from its replicas: they may
// not have a charge yet.
func Open(address string, files *tlsclient.Settings, t Timeouts) (*redis.Client, error) {
	// The library tells of each failure on its own; a Guard tells of an outage once.
	logging.Disable()
	if u, err := url.Parse(address); err == nil && u.Query().Has("master_name") {
		return openWatched(address, files, t)
	}
	options, err := redis.ParseURL(address)
	if err != nil {
		return nil, ErrURL
	}
	if err := secure(options.TLSConfig, files); err != nil {
		return nil, err
	}
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = t.Dial, t.Answer, t.Answer
	options.ContextTimeoutEnabled = true
	options.PoolSize, options.MaxRetries, options.DialerRetries = 64, 1, 1
	// A new connection begins with one round trip, not with three.
	options.DisableIdentity = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(options), nil
}

// openWatched is Open for a primary that Sentinels watch. Each new connection begins with
// asking one of them, and those to a former primary end when it tells of another.
func openWatched(address string, files *tlsclient.Settings, t Timeouts) (*redis.Client, error) {
	options, err := redis.ParseFailoverURL(address)
	if err != nil || options.MasterName == "" {
		return nil, ErrURL
	}
	if options.ReplicaOnly || options.RouteByLatency || options.RouteRandomly {
		return nil, errReplicas
	}
	if options.TLSConfig != nil {
		options.TLSConfig.ServerName = "" // each by its own name: the library takes the first Sentinel's for all
	}
	if err := secure(options.TLSConfig, files); err != nil {
		return nil, err
	}
	options.Dialer = dialer(options.TLSConfig, t.Dial)
	// The Sentinel that answered last is given up once it was asked twice, with two tries each, and then
	// all are asked. A shorter time would end each dial before that, as long as this one is silent. Callers
	// leave sooner, and the connection is there for the next one.
	options.DialTimeout = 7 * (t.Dial + t.Answer)
	options.ReadTimeout, options.WriteTimeout = t.Answer, t.Answer
	options.ContextTimeoutEnabled = true
	options.PoolSize, options.MaxRetries, options.DialerRetries = 64, 1, 1
	options.DisableIdentity = true
	return redis.NewFailoverClient(options), nil
}

// dialer returns the library's dialer with a time of its own for each connection, to a Sentinel or to a server,
// the handshake of TLS included; secure is nil without TLS.
func dialer(secure *tls.Config, timeout time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: timeout, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}}
	if secure == nil {
		return plain.DialContext
	}
	return (&tls.Dialer{NetDialer: plain, Config: secure}).DialContext
}

// secure adds files to what a URL says of TLS; nil: it has none.
func secure(of *tls.Config, files *tlsclient.Settings) error {
	if files == nil {
		return nil
	}
	if of == nil {
		return errNoTLS
	}
	files.Apply(of)
	return nil
}
