package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/cenkalti/backoff/v5"

	"muster/platform/tlsclient"
)

// DSNEnv is the environment variable that holds the DSN of a server that is not the embedded engine.
const DSNEnv = "CLICKHOUSE_DSN"

// Config says how to reach ClickHouse. Only DSN is required.
type Config struct {
	// DSN is http://, https://, clickhouse:// (native; clickhouses:// with TLS): user:password@host[,host...]:port/database,
	// with clickhouse-go's options and any ClickHouse setting as query parameters. TLS trusts the system's authorities
	// and those of SSL_CERT_DIR, where TLS names no others. Other values of settings that [Open] pins are refused.
	DSN string
	// TLS are the authorities and the client's certificate of a DSN with TLS. A user without a password is, over HTTP, whom
	// the certificate names.
	TLS *tlsclient.Settings
	// MaxOpenConns bounds the connections and so the statements at a time; default: twice the processors, at least 8.
	MaxOpenConns int
	// ConnMaxLifetime defaults to 1 h, so that a cluster's connections spread out again.
	ConnMaxLifetime time.Duration
	// DialTimeout bounds connecting, and also waiting for a free connection of the pool; default 10 s.
	DialTimeout time.Duration
	// ReadTimeout bounds one read from the server; default 5 min.
	ReadTimeout time.Duration
	// ReadyTimeout is how long Open retries until the server answers; default 30 s, negative for one attempt.
	ReadyTimeout time.Duration
	// Compression defaults to CompressionAuto, unless the DSN has compress=.
	Compression Compression
	// ClientName tells the server who asks (system.query_log, client name).
	ClientName string
	Logger     *slog.Logger
}

// ConfigFromEnv reads a Config from variables, as [os.Getenv] gives them. Of a DSN that is not set it has the rest.
//
//	CLICKHOUSE_DSN           a Config's DSN
//	CLICKHOUSE_TLS_CA_FILE   PEM file of the authorities to trust instead of the system's
//	CLICKHOUSE_TLS_CERT_FILE, CLICKHOUSE_TLS_KEY_FILE
//	                         PEM files of the client's certificate and its key: package tlsclient
func ConfigFromEnv(getenv func(string) string) (Config, error) {
	files, err := tlsclient.FromEnv(getenv, "CLICKHOUSE")
	return Config{DSN: strings.TrimSpace(getenv(DSNEnv)), TLS: files}, err
}

// Compression of what travels between client and server.
type Compression string

// The compressions. CompressionAuto is none on loopback, where it costs processor time and saves nothing, and LZ4
// elsewhere.
const (
	CompressionAuto Compression = ""
	CompressionNone Compression = "none"
	CompressionLZ4  Compression = "lz4"
	CompressionZSTD Compression = "zstd"
)

// pinned returns the settings that every connection has, whatever the server's profile says (async_insert
// became the server's default in 26.3, the deduplication settings changed theirs in 26.2). A server that does not know
// one yet, or no longer, is not sent it.
func pinned() ch.Settings {
	return ch.Settings{
		"async_insert":          0,
		"wait_for_async_insert": 1,
		"insert_deduplicate":    1,
		"deduplicate_insert":    "enable",
		"deduplicate_blocks_in_dependent_materialized_views": 1,
		// Of a cluster: an insert is acknowledged by the shard that the row belongs to and not by the node that was asked,
		// a shard that is away is an error, and subqueries see all shards.
		"distributed_foreground_insert": 1,
		"skip_unavailable_shards":       0,
		"distributed_product_mode":      "global",
	}
}

// Open connects and retries until the server answers, at most ReadyTimeout. It fails at once when the DSN is wrong or
// the server refuses user, password or database. Errors do not contain the password.
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
	if secure && !strings.Contains(dsn, "secure=") { // clickhouse-go wants it said twice.
		separator := "?"
		if strings.Contains(dsn, "?") {
			separator = "&"
		}
		dsn = strings.Replace(dsn, "clickhouses://", "clickhouse://", 1) + separator + "secure=true"
	}
	opts, err := ch.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("open clickhouse: %s is to be http://USER:PASSWORD@HOST:8123/DATABASE, or https://: %w", DSNEnv, err) // clickhouse-go redacts it.
	}
	if cfg.TLS != nil {
		if opts.TLS == nil {
			return nil, errors.New("open clickhouse: CLICKHOUSE_TLS_CA_FILE or CLICKHOUSE_TLS_CERT_FILE is set, and the DSN has no TLS: write https:// or clickhouses://")
		}
		cfg.TLS.Apply(opts.TLS)
	}
	for name, fixed := range pinned() {
		if value, ok := opts.Settings[name]; ok && fmt.Sprint(value) != fmt.Sprint(fixed) {
			return nil, fmt.Errorf("open clickhouse: the DSN sets %s=%v, which is fixed to %v: remove it", name, value, fixed)
		}
	}
	if opts.MaxOpenConns == 0 {
		opts.MaxOpenConns = cfg.MaxOpenConns
	}
	if opts.MaxOpenConns <= 0 {
		opts.MaxOpenConns = max(8, 2*runtime.GOMAXPROCS(0))
	}
	// An idle connection costs the client little; making one anew costs a query over HTTP.
	opts.MaxIdleConns = opts.MaxOpenConns
	opts.ConnMaxLifetime = first(opts.ConnMaxLifetime, cfg.ConnMaxLifetime, time.Hour)
	opts.DialTimeout = first(opts.DialTimeout, cfg.DialTimeout, 10*time.Second)
	opts.ReadTimeout = first(opts.ReadTimeout, cfg.ReadTimeout, 5*time.Minute)
	if cfg.Logger != nil {
		opts.Logger = slog.New(quiet{cfg.Logger.Handler()})
	}
	if cfg.ClientName != "" {
		opts.ClientInfo.Products = append(opts.ClientInfo.Products, struct{ Name, Version string }{Name: cfg.ClientName})
	}
	if opts.Compression == nil {
		if opts.Compression, err = compression(cfg.Compression, opts.Addr); err != nil {
			return nil, err
		}
	}
	return opts, nil
}

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

// awaitServer asks until there is an answer, and returns which of the pinned settings the server knows.
func awaitServer(ctx context.Context, cfg Config, opts *ch.Options) (map[string]bool, error) {
	probe := *opts
	probe.MaxOpenConns, probe.MaxIdleConns = 1, 1
	conn, err := ch.Open(&probe)
	if err != nil {
		return nil, err
	}
	ask := func() (map[string]bool, error) {
		supported, err := supportedSettings(ctx, conn)
		if err != nil && refused(err) {
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
	supported, err := backoff.Retry(ctx, ask, backoff.WithBackOff(wait), limit)
	if err = errors.Join(err, conn.Close()); err != nil {
		return nil, err
	}
	return supported, nil
}

func supportedSettings(ctx context.Context, conn driver.Conn) (supported map[string]bool, err error) {
	var names []string
	for name := range pinned() {
		names = append(names, "'"+name+"'")
	}
	rows, err := conn.Query(ctx, "SELECT name FROM system.settings WHERE name IN ("+strings.Join(names, ", ")+")")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	supported = make(map[string]bool)
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		supported[name] = true
	}
	return supported, rows.Err()
}

// Limits bound a query on the server. Zero means: as the server has it.
type Limits struct {
	// MaxExecutionTime is rounded up to whole seconds. A deadline of the context, when it has one, takes its place
	// (clickhouse-go sends its rest plus 5 s).
	MaxExecutionTime time.Duration
	MaxRowsToRead    uint64
	MaxBytesToRead   uint64
	MaxMemoryBytes   uint64
	MaxResultRows    uint64
	MaxThreads       int
}

// QueryContext makes queries under ctx run within limits, and with further settings such as the ones of one table's
// reads. A query that exceeds a limit fails; results are never cut. It replaces the settings of an outer one.
func QueryContext(ctx context.Context, l Limits, further ch.Settings) context.Context {
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
	for name, value := range further {
		settings[name] = value
	}
	return ch.Context(ctx, ch.WithSettings(settings))
}
