package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/cenkalti/backoff/v5"

	"muster/platform/tlsclient"
)

// DSNEnv is the environment variable with the DSN of an external server.
const DSNEnv = "CLICKHOUSE_DSN"

// Config configures a connection to ClickHouse. Only DSN is required.
type Config struct {
	// DSN is http://, https://, clickhouse:// (native) or clickhouses:// (native with TLS), followed by
	// user:password@host[,host...]:port/database, with options of clickhouse-go and any ClickHouse setting as query
	// parameters. TLS trusts the system's authorities and those of SSL_CERT_DIR, unless TLS names others. Other values
	// for the settings that [Open] pins are rejected.
	DSN string
	// TLS holds the authorities and the client certificate for a DSN with TLS. Over HTTP, a user without a password is
	// the one named in the certificate.
	TLS *tlsclient.Settings
	// MaxOpenConns limits the connections and so the concurrent statements; the default is twice the number of
	// processors, at least 8.
	MaxOpenConns int
	// ConnMaxLifetime defaults to 1 h, so that connections spread over a changed cluster.
	ConnMaxLifetime time.Duration
	// DialTimeout limits connecting, and also waiting for a free connection of the pool; the default is 10 s.
	DialTimeout time.Duration
	// ReadTimeout limits one read from the server; the default is 5 min.
	ReadTimeout time.Duration
	// ReadyTimeout is how long Open retries until the server answers; the default is 30 s, negative means one attempt.
	ReadyTimeout time.Duration
	// Compression defaults to CompressionAuto, unless the DSN sets compress.
	Compression Compression
	// ClientName identifies the client to the server (client name in system.query_log).
	ClientName string
	Logger     *slog.Logger
}

// ConfigFromEnv reads a Config from environment variables. DSN is empty if its variable is not set, and is checked
// without connecting otherwise.
//
//	CLICKHOUSE_DSN           the DSN
//	CLICKHOUSE_TLS_CA_FILE   PEM file of the authorities to trust instead of the system's
//	CLICKHOUSE_TLS_CERT_FILE, CLICKHOUSE_TLS_KEY_FILE
//	                         PEM files of the client certificate and its key: see package tlsclient
func ConfigFromEnv(getenv func(string) string) (Config, error) {
	files, err := tlsclient.FromEnv(getenv, "CLICKHOUSE")
	cfg := Config{DSN: strings.TrimSpace(getenv(DSNEnv)), TLS: files}
	if err == nil && cfg.DSN != "" {
		_, err = options(cfg)
	}
	return cfg, err
}

// Compression is the compression method between client and server.
type Compression string

// The compression methods. CompressionAuto is none on loopback, where compression only costs processor time, and LZ4
// elsewhere.
const (
	CompressionAuto Compression = ""
	CompressionNone Compression = "none"
	CompressionLZ4  Compression = "lz4"
	CompressionZSTD Compression = "zstd"
)

// pinned returns the settings of every connection, regardless of the server's profile. async_insert became the server's
// default in 26.3, and the defaults of the deduplication settings changed in 26.2. Settings that the server does not
// know are not sent.
func pinned() ch.Settings {
	return ch.Settings{
		"async_insert":          0,
		"wait_for_async_insert": 1,
		"insert_deduplicate":    1,
		"deduplicate_insert":    "enable",
		"deduplicate_blocks_in_dependent_materialized_views": 1,
		// On a cluster, an insert is acknowledged by the shard that the row belongs to and not by the node that
		// received it, an unavailable shard is an error, and subqueries see all shards.
		"distributed_foreground_insert": 1,
		"skip_unavailable_shards":       0,
		"distributed_product_mode":      "global",
	}
}

// Open connects and retries until the server answers, up to ReadyTimeout. It fails immediately if the DSN is invalid or
// the server rejects the user, password or database. Errors do not contain the password.
func Open(ctx context.Context, cfg Config) (driver.Conn, error) {
	opts, err := options(cfg)
	if err != nil {
		return nil, err
	}
	supported, err := awaitServer(ctx, cfg, opts)
	if err != nil {
		return nil, fmt.Errorf("open clickhouse %s: %w", strings.Join(opts.Addr, ","), err)
	}
	for name, value := range pinned() {
		if supported[name] {
			opts.Settings[name] = value
		}
	}
	conn, err := ch.Open(opts)
	if err != nil {
		return nil, fmt.Errorf("open clickhouse %s: %w", strings.Join(opts.Addr, ","), err)
	}
	return conn, nil
}

func options(cfg Config) (*ch.Options, error) {
	if cfg.DSN == "" {
		return nil, fmt.Errorf("open clickhouse: no DSN (%s)", DSNEnv)
	}
	dsn := cfg.DSN
	secure := strings.HasPrefix(dsn, "https://") || strings.HasPrefix(dsn, "clickhouses://")
	// clickhouse-go requires secure=true in addition to the scheme.
	if secure && !strings.Contains(dsn, "secure=") {
		separator := "?"
		if strings.Contains(dsn, "?") {
			separator = "&"
		}
		dsn = strings.Replace(dsn, "clickhouses://", "clickhouse://", 1) + separator + "secure=true"
	}
	opts, err := ch.ParseDSN(dsn)
	if err != nil {
		// clickhouse-go redacts the password.
		return nil, fmt.Errorf(
			"open clickhouse: %s must be http://USER:PASSWORD@HOST:8123/DATABASE or the same with https://: %w", DSNEnv,
			err)
	}
	// clickhouse-go speaks the native protocol with the server of any other scheme.
	if u, err := url.Parse(dsn); err == nil && !slices.Contains([]string{"http", "https", "clickhouse"}, u.Scheme) {
		return nil, fmt.Errorf("open clickhouse: %s has the unknown scheme %q: use http://, https://, "+
			"clickhouse:// (native) or clickhouses:// (native with TLS)", DSNEnv, u.Scheme)
	}
	if opts.Protocol == ch.Native {
		for _, addr := range opts.Addr {
			if _, _, err := net.SplitHostPort(addr); err != nil { // HTTP has a default port
				return nil, fmt.Errorf("open clickhouse: %s: %q is not HOST:PORT: use "+
					"clickhouse://USER:PASSWORD@HOST:9000/DATABASE", DSNEnv, addr)
			}
		}
	}
	if cfg.TLS != nil {
		if opts.TLS == nil {
			return nil, errors.New("open clickhouse: CLICKHOUSE_TLS_CA_FILE or CLICKHOUSE_TLS_CERT_FILE is set, " +
				"but the DSN has no TLS: use https:// or clickhouses://")
		}
		cfg.TLS.Apply(opts.TLS)
	}
	for name, fixed := range pinned() {
		if value, ok := opts.Settings[name]; ok && fmt.Sprint(value) != fmt.Sprint(fixed) {
			return nil, fmt.Errorf(
				"open clickhouse: the DSN sets %s=%v, which is fixed at %v: remove the parameter", name, value, fixed)
		}
	}
	if opts.MaxOpenConns == 0 {
		opts.MaxOpenConns = cfg.MaxOpenConns
	}
	if opts.MaxOpenConns <= 0 {
		opts.MaxOpenConns = max(8, 2*runtime.GOMAXPROCS(0))
	}
	// An idle connection costs the client little; a new one costs a query over HTTP.
	opts.MaxIdleConns = opts.MaxOpenConns
	opts.ConnMaxLifetime = first(opts.ConnMaxLifetime, cfg.ConnMaxLifetime, time.Hour)
	opts.DialTimeout = first(opts.DialTimeout, cfg.DialTimeout, 10*time.Second)
	opts.ReadTimeout = first(opts.ReadTimeout, cfg.ReadTimeout, 5*time.Minute)
	if cfg.Logger != nil {
		opts.Logger = slog.New(debugHandler{cfg.Logger.Handler()})
	}
	if cfg.ClientName != "" {
		opts.ClientInfo.Products = append(opts.ClientInfo.Products,
			struct{ Name, Version string }{Name: cfg.ClientName})
	}
	if opts.Compression == nil {
		if opts.Compression, err = compression(cfg.Compression, opts.Addr); err != nil {
			return nil, err
		}
	}
	return opts, nil
}

// first returns the first positive duration.
func first(values ...time.Duration) time.Duration {
	i := slices.IndexFunc(values, func(d time.Duration) bool { return d > 0 })
	return values[i]
}

func compression(c Compression, addrs []string) (*ch.Compression, error) {
	switch c {
	case CompressionAuto:
		if !slices.ContainsFunc(addrs, func(a string) bool { return !isLoopback(a) }) {
			return nil, nil
		}
		return &ch.Compression{Method: ch.CompressionLZ4}, nil
	case CompressionNone:
		return nil, nil
	case CompressionLZ4:
		return &ch.Compression{Method: ch.CompressionLZ4}, nil
	case CompressionZSTD:
		return &ch.Compression{Method: ch.CompressionZSTD, Level: 1}, nil
	default:
		return nil, fmt.Errorf("open clickhouse: compression %q: want none, lz4 or zstd", c)
	}
}

func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// awaitServer queries the server until it answers, and returns which of the pinned settings the server knows.
func awaitServer(ctx context.Context, cfg Config, opts *ch.Options) (map[string]bool, error) {
	probe := *opts
	probe.MaxOpenConns, probe.MaxIdleConns = 1, 1
	conn, err := ch.Open(&probe)
	if err != nil {
		return nil, err
	}
	query := func() (map[string]bool, error) {
		supported, err := supportedSettings(ctx, conn)
		if err != nil && isRejected(err) {
			return nil, backoff.Permanent(err)
		}
		return supported, err
	}
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 50*time.Millisecond, 2*time.Second
	limit := backoff.WithMaxElapsedTime(first(cfg.ReadyTimeout, 30*time.Second))
	if cfg.ReadyTimeout < 0 {
		limit = backoff.WithMaxTries(1)
	}
	supported, err := backoff.Retry(ctx, query, backoff.WithBackOff(wait), limit)
	if err = errors.Join(err, conn.Close()); err != nil {
		return nil, err
	}
	return supported, nil
}

func supportedSettings(ctx context.Context, conn driver.Conn) (map[string]bool, error) {
	var names []string
	for name := range pinned() {
		names = append(names, "'"+name+"'")
	}
	supported := make(map[string]bool)
	err := ReadRows(ctx, conn, "SELECT name FROM system.settings WHERE name IN ("+strings.Join(names, ", ")+")",
		func(rows driver.Rows) error {
			var name string
			err := rows.Scan(&name)
			supported[name] = true
			return err
		})
	return supported, err
}

// Limits limit a query on the server. Zero values leave the server's defaults.
type Limits struct {
	// MaxExecutionTime is rounded up to whole seconds. A deadline of the context takes precedence (clickhouse-go sends
	// the remaining time plus 5 s).
	MaxExecutionTime time.Duration
	MaxRowsToRead    uint64
	MaxBytesToRead   uint64
	MaxMemoryBytes   uint64
	MaxResultRows    uint64
	MaxThreads       int
}

// QueryContext returns a context whose queries run within limits and with the additional settings. A query that exceeds
// a limit fails; results are never truncated. The settings replace those of an outer QueryContext.
func QueryContext(ctx context.Context, l Limits, additional ch.Settings) context.Context {
	settings := ch.Settings{}
	set := func(name string, value uint64) {
		if value > 0 {
			settings[name] = value
		}
	}
	set("max_execution_time", uint64(max(0, (l.MaxExecutionTime+time.Second-1)/time.Second)))
	set("max_rows_to_read", l.MaxRowsToRead)
	set("max_bytes_to_read", l.MaxBytesToRead)
	set("max_memory_usage", l.MaxMemoryBytes)
	set("max_result_rows", l.MaxResultRows)
	set("max_threads", uint64(max(0, l.MaxThreads)))
	for name, value := range additional {
		settings[name] = value
	}
	return ch.Context(ctx, ch.WithSettings(settings))
}
