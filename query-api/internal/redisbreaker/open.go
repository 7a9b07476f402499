package redisbreaker

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"muster/platform/tlsclient"
)

// ErrURL is returned by [Open] for an invalid URL. It does not repeat the URL, because a malformed URL may have the
// password anywhere.
var ErrURL = errors.New("not a URL such as redis://user:password@host:6379/0, or rediss:// for TLS: " +
	"in a password write %25 for a percent sign, %23 for #, %2F for /, %3F for ? and %40 for @; " +
	"with Sentinels redis://user:password@sentinel:26379/0?master_name=NAME&addr=sentinel2:26379&password=PASSWORD")

// Further errors of Open. Like ErrURL they continue a sentence that starts with the name of the variable.
var (
	errNoTLS    = errors.New("without TLS, although REDIS_TLS_CA_FILE or REDIS_TLS_CERT_FILE is set: write rediss://")
	errReplicas = errors.New("configured to read from replicas: remove replica_only, route_by_latency and " +
		"route_randomly")
)

// Timeouts are the timeouts of a client.
type Timeouts struct {
	Dial, Answer time.Duration
	// Command bounds a command, including connecting and one retry.
	Command time.Duration
	// Pipeline bounds a pipeline, as used for loading balances.
	Pipeline time.Duration
}

// DefaultTimeouts returns the timeouts of the service.
func DefaultTimeouts() Timeouts {
	return Timeouts{
		Dial: 300 * time.Millisecond, Answer: 500 * time.Millisecond, Command: time.Second, Pipeline: 2 * time.Second,
	}
}

// Times returns the timeouts multiplied by n, for tests on busy machines.
func (t Timeouts) Times(n int) Timeouts {
	return Timeouts{
		Dial: time.Duration(n) * t.Dial, Answer: time.Duration(n) * t.Answer,
		Command: time.Duration(n) * t.Command, Pipeline: time.Duration(n) * t.Pipeline,
	}
}

// Open returns a client with timeouts t, without waiting for the server. files holds the certificate authorities and
// the client certificate for TLS, or is nil.
//
// With the parameter master_name, the host of the URL and each addr is a Sentinel, and the client connects to the
// primary that they name. It never reads from replicas, which may lag behind charges.
func Open(address string, files *tlsclient.Settings, t Timeouts) (*redis.Client, error) {
	// The library logs every failure; a Guard logs an outage once.
	logging.Disable()
	if u, err := url.Parse(address); err == nil && u.Query().Has("master_name") {
		return openFailover(address, files, t)
	}
	options, err := redis.ParseURL(address)
	if err != nil || !strings.Contains(address, "//") { // redis:host:6379 would be localhost
		return nil, ErrURL
	}
	if err := secure(options.TLSConfig, files); err != nil {
		return nil, err
	}
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = t.Dial, t.Answer, t.Answer
	options.ContextTimeoutEnabled = true
	options.PoolSize, options.MaxRetries, options.DialerRetries = 64, 1, 1
	// Saves two round trips per new connection.
	options.DisableIdentity = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(options), nil
}

// openFailover is Open for a primary watched by Sentinels. Each new connection starts with a query of a Sentinel, and
// connections to a former primary are closed after a failover.
func openFailover(address string, files *tlsclient.Settings, t Timeouts) (*redis.Client, error) {
	options, err := redis.ParseFailoverURL(address)
	if err != nil || options.MasterName == "" {
		return nil, ErrURL
	}
	if options.ReplicaOnly || options.RouteByLatency || options.RouteRandomly {
		return nil, errReplicas
	}
	if options.TLSConfig != nil {
		// Verify each server by its own name; the library sets that of the first Sentinel for all.
		options.TLSConfig.ServerName = ""
	}
	if err := secure(options.TLSConfig, files); err != nil {
		return nil, err
	}
	options.Dialer = dialer(options.TLSConfig, t.Dial)
	// The library queries the last known Sentinel twice, with two attempts each, before it queries all. A shorter
	// timeout would end each dial before that while that Sentinel is silent. Callers time out sooner, and the
	// connection serves the next one.
	options.DialTimeout = 7 * (t.Dial + t.Answer)
	options.ReadTimeout, options.WriteTimeout = t.Answer, t.Answer
	options.ContextTimeoutEnabled = true
	options.PoolSize, options.MaxRetries, options.DialerRetries = 64, 1, 1
	options.DisableIdentity = true
	return redis.NewFailoverClient(options), nil
}

// dialer returns a dialer like that of the library, with a timeout per connection, including the TLS handshake.
// secure is nil without TLS.
func dialer(
	secure *tls.Config, timeout time.Duration,
) func(ctx context.Context, network, address string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: timeout, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3,
	}}
	if secure == nil {
		return plain.DialContext
	}
	return (&tls.Dialer{NetDialer: plain, Config: secure}).DialContext
}

// secure applies files to the TLS configuration of a URL, which is nil without TLS.
func secure(config *tls.Config, files *tlsclient.Settings) error {
	if files == nil {
		return nil
	}
	if config == nil {
		return errNoTLS
	}
	files.Apply(config)
	return nil
}
