package clickhouse_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"

	"muster/platform/clickhouse"
	"muster/platform/engine/enginetest"
)

// proxied returns the DSN of a reverse proxy in front of the engine. The proxy calls first on each request; a status
// other than 0 is its response.
func proxied(t *testing.T, first func(*http.Request) (status int)) string {
	t.Helper()
	target, err := url.Parse(enginetest.DSN(t))
	require.NoError(t, err)
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: target.Host})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := first(r); status != 0 {
			http.Error(w, "unavailable", status)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	target.Host = strings.TrimPrefix(proxy.URL, "http://")
	return target.String()
}

func TestOpen_PinsSettings(t *testing.T) {
	var last atomic.Pointer[url.Values]
	conn := openDSN(t, proxied(t, func(r *http.Request) int {
		query := r.URL.Query()
		last.Store(&query)
		return 0
	}))
	exec(t, conn, "CREATE TABLE t (n UInt8) ENGINE = Memory", "INSERT INTO t VALUES (1)")
	for name, want := range map[string]string{
		"async_insert": "0", "wait_for_async_insert": "1", "insert_deduplicate": "1", "deduplicate_insert": "enable",
		"deduplicate_blocks_in_dependent_materialized_views": "1",
		"distributed_foreground_insert":                      "1", "skip_unavailable_shards": "0",
		"distributed_product_mode": "global",
	} {
		require.Equal(t, want, last.Load().Get(name), name)
	}
}

func TestOpen_RejectsInvalidDSNs(t *testing.T) {
	const format = "CLICKHOUSE_DSN must be http://USER:PASSWORD@HOST:8123/DATABASE or the same with https://"
	for name, tc := range map[string]struct{ dsn, want string }{
		"no DSN":                {"", "no DSN (CLICKHOUSE_DSN)"},
		"no host":               {"http:///db", "parse dsn address failed"},
		"no scheme":             {"clickhouse:8123", format},
		"no scheme, IP address": {"127.0.0.1:8123", format},
		"native, no port":       {"clickhouse://a:9000,b/db", `"b" is not HOST:PORT: use clickhouse://USER:PASSWORD@`},
		"other database":        {"mysql://h:3306/db", `unknown scheme "mysql": use http://, https://, clickhouse://`},
		"legacy scheme":         {"tcp://u:p@h:9000/db", `unknown scheme "tcp": use http://`},
		"pinned setting": {
			"http://localhost:1/db?async_insert=1", "the DSN sets async_insert=1, which is fixed at 0: remove",
		},
		"partial results": {
			"http://localhost:1/db?skip_unavailable_shards=1",
			"the DSN sets skip_unavailable_shards=1, which is fixed at 0: remove",
		},
		"password redacted": {"http://u:pass#word@h:port/db", "open clickhouse"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: tc.dsn})
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "pass#word")
			if tc.dsn != "" { // the same before anything connects
				_, early := clickhouse.ConfigFromEnv(func(name string) string {
					return map[string]string{clickhouse.DSNEnv: tc.dsn}[name]
				})
				require.EqualError(t, early, err.Error())
			}
		})
	}
	_, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: "http://localhost:1", Compression: "rar"})
	require.ErrorContains(t, err, `compression "rar"`)
}

func TestOpen_AcceptsPinnedValuesInTheDSN(t *testing.T) {
	dsn, err := url.Parse(enginetest.DSN(t))
	require.NoError(t, err)
	query := dsn.Query()
	query.Set("distributed_foreground_insert", "true")
	query.Set("distributed_product_mode", "global")
	dsn.RawQuery = query.Encode()
	openDSN(t, dsn.String())
}

// A process reads SSL_CERT_DIR only once, so each case runs in a child process.
func TestOpen_TrustsAuthoritiesInSSLCertDir(t *testing.T) {
	const dsnOfChild = "MUSTER_TEST_TLS_DSN"
	if dsn := os.Getenv(dsnOfChild); dsn != "" {
		conn, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: dsn, ReadyTimeout: -1})
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		return
	}
	dsn, err := url.Parse(enginetest.DSN(t))
	require.NoError(t, err)
	server := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: dsn.Host}))
	t.Cleanup(server.Close)
	dsn.Scheme, dsn.Host = "https", strings.TrimPrefix(server.URL, "https://")
	trusted := t.TempDir()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(filepath.Join(trusted, "company.crt"), certificate, 0o600))
	for dir, want := range map[string]string{trusted: "PASS", t.TempDir(): "certificate signed by unknown authority"} {
		child := osexec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		child.Env = append(os.Environ(), dsnOfChild+"="+dsn.String(), "SSL_CERT_DIR="+dir)
		out, err := child.CombinedOutput()
		require.Equal(t, want == "PASS", err == nil, "%s", out)
		require.Contains(t, string(out), want)
	}
}

func TestOpen_WaitsUntilReady(t *testing.T) {
	var requests atomic.Int64
	dsn := proxied(t, func(*http.Request) int {
		if requests.Add(1) <= 3 {
			return http.StatusServiceUnavailable
		}
		return 0
	})
	_, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: dsn, ReadyTimeout: -1})
	require.ErrorContains(t, err, "HTTP 503")
	require.True(t, clickhouse.IsTransient(err))
	conn := openDSN(t, dsn)
	require.NoError(t, conn.Ping(t.Context()))
	require.Greater(t, requests.Load(), int64(4))
}

func TestOpen_GivesUpAfterReadyTimeout(t *testing.T) {
	for _, scheme := range []string{"http", "clickhouse"} {
		for attempt := 1; ; attempt++ {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			require.NoError(t, l.Close())
			start := time.Now()
			_, err = clickhouse.Open(t.Context(), clickhouse.Config{
				DSN: scheme + "://u:hush@" + l.Addr().String() + "/db", ReadyTimeout: 200 * time.Millisecond,
			})
			require.Error(t, err)
			require.NotContains(t, err.Error(), "hush")
			require.Less(t, time.Since(start), 30*time.Second)
			// Another process may have taken the port.
			if attempt == 3 || strings.Contains(err.Error(), "connection refused") {
				require.ErrorContains(t, err, "connection refused")
				break
			}
		}
	}
}

func TestOpen_FailsImmediatelyWhenRejected(t *testing.T) {
	good := enginetest.DSN(t)
	u, err := url.Parse(good)
	require.NoError(t, err)
	u.User = url.UserPassword(u.User.Username(), "wrong")
	for name, dsn := range map[string]string{
		"password": u.String(),
		"database": good[:strings.LastIndex(good, "/")] + "/missing",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			_, err := clickhouse.Open(ctx, clickhouse.Config{DSN: dsn, ReadyTimeout: time.Minute})
			require.Error(t, err)
			require.NoError(t, ctx.Err(), "Open waited: %v", err)
		})
	}
}

func TestInsert_DropsRepeatedToken(t *testing.T) {
	conn := open(t)
	exec(t, conn,
		"CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 100")
	insert := func(token string, numbers ...uint64) {
		ctx := ch.Context(t.Context(), ch.WithSettings(ch.Settings{"insert_deduplication_token": token}))
		batch, err := conn.PrepareBatch(ctx, "INSERT INTO t")
		require.NoError(t, err)
		for _, n := range numbers {
			require.NoError(t, batch.Append(n))
		}
		require.NoError(t, batch.Send())
	}
	insert("topic:0:1-3", 1, 2, 3)
	insert("topic:0:1-3", 1, 2, 3)
	require.EqualValues(t, 3, scan[uint64](t, conn, "SELECT count() FROM t"))
	insert("topic:0:4-6", 1, 2, 3)
	require.EqualValues(t, 6, scan[uint64](t, conn, "SELECT count() FROM t"), "the token matters, not the content")
}

func TestQueryContext_LimitsQueries(t *testing.T) {
	const many = "SELECT number FROM numbers(10000000) GROUP BY number"
	conn := open(t)
	for name, tc := range map[string]struct {
		sql    string
		limits clickhouse.Limits
		code   clickhouse.Code
	}{
		"rows read":  {many, clickhouse.Limits{MaxRowsToRead: 1000}, proto.ErrTooManyRows},
		"bytes read": {many, clickhouse.Limits{MaxBytesToRead: 1000}, proto.ErrTooManyBytes},
		"result rows": {
			"SELECT number FROM numbers(1000)", clickhouse.Limits{MaxResultRows: 10}, proto.ErrTooManyRowsOrBytes,
		},
		"memory": {many, clickhouse.Limits{MaxMemoryBytes: 1 << 20, MaxThreads: 1}, proto.ErrMemoryLimitExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := clickhouse.QueryContext(t.Context(), tc.limits, ch.Settings{"max_block_size": 65536})
			var n uint64
			rows, err := conn.Query(ctx, tc.sql)
			if err == nil {
				for rows.Next() {
					require.NoError(t, rows.Scan(&n))
				}
				err = rows.Err()
				require.NoError(t, rows.Close())
			}
			code, ok := clickhouse.CodeOf(err)
			require.True(t, ok, "%v", err)
			require.Equal(t, tc.code, code, "%v", err)
		})
	}
}

func TestConnection_RecoversFromKilledEngine(t *testing.T) {
	conn := open(t)
	exec(t, conn, "CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n", "INSERT INTO t VALUES (1)")
	enginetest.Kill(t)
	for started := time.Now(); ; <-time.After(20 * time.Millisecond) {
		var n uint64
		err := conn.QueryRow(t.Context(), "SELECT count() FROM t").Scan(&n)
		if err == nil {
			require.EqualValues(t, 1, n)
			break
		}
		require.True(t, clickhouse.IsTransient(err), "%v", err)
		require.Less(t, time.Since(started), time.Minute, "%v", err)
	}
}

func TestOpen_LetsTheDriverLogOnlyAtDebugLevel(t *testing.T) {
	for level, logged := range map[slog.Level]bool{slog.LevelInfo: false, slog.LevelDebug: true} {
		var log lockedBuffer
		conn, err := clickhouse.Open(t.Context(), clickhouse.Config{
			DSN:    enginetest.DSN(t),
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level})),
		})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		require.Error(t, conn.Exec(ctx, "SELECT sleepEachRow(0.1) FROM numbers(100)"))
		cancel()
		rows, err := conn.Query(t.Context(), "SELECT throwIf(number = 70000, 'ada@example.com') "+
			"FROM numbers(100000) SETTINGS max_block_size = 1000")
		for err == nil && rows.Next() {
		}
		if err == nil {
			err = errors.Join(rows.Err(), rows.Close())
		}
		require.ErrorContains(t, err, "ada@example.com")
		require.NoError(t, conn.Close())
		text := log.String()
		require.Equal(t, logged, text != "", text)
		require.NotContains(t, text, "level=ERROR")
	}
}

// lockedBuffer can be read while the driver is writing: it releases a connection after its rows are closed.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
