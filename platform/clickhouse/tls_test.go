package clickhouse_test

import (
	"context"
	"crypto/tls"
	"maps"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/clickhouse"
	"muster/platform/engine/enginetest"
	"muster/platform/tlsclient/tlstest"
)

func env(m map[string]string) func(string) string { return func(k string) string { return m[k] } }

// certified returns an authority and a client certificate that it issued.
func certified(t *testing.T) (*tlstest.Authority, tlstest.Files) {
	t.Helper()
	authority, err := tlstest.NewAuthority()
	require.NoError(t, err)
	files, err := authority.Write(t.TempDir(), "muster")
	require.NoError(t, err)
	return authority, files
}

func TestOpen_SendsAClientCertificateOverHTTPS(t *testing.T) {
	authority, files := certified(t)
	dsn, err := url.Parse(enginetest.DSN(t))
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: dsn.Host}))
	server.TLS, err = authority.Server()
	require.NoError(t, err)
	server.StartTLS()
	t.Cleanup(server.Close)
	dsn.Scheme, dsn.Host = "https", server.Listener.Addr().String()
	open := func(dsn url.URL, change map[string]string) error {
		vars := files.Env("CLICKHOUSE")
		vars[clickhouse.DSNEnv] = dsn.String()
		maps.Copy(vars, change)
		cfg, err := clickhouse.ConfigFromEnv(env(vars))
		require.NoError(t, err)
		cfg.ReadyTimeout = -1
		conn, err := clickhouse.Open(t.Context(), cfg)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	none := map[string]string{"CLICKHOUSE_TLS_CERT_FILE": "", "CLICKHOUSE_TLS_KEY_FILE": ""}
	require.NoError(t, open(*dsn, nil))
	require.ErrorContains(t, open(*dsn, none), "certificate required")

	named := *dsn
	query := named.Query()
	query.Set("tls_server_name", "elsewhere.example")
	named.RawQuery = query.Encode()
	require.ErrorContains(t, open(named, nil), "not elsewhere.example")
	query.Set("skip_verify", "true")
	named.RawQuery = query.Encode()
	require.NoError(t, open(named, nil))
	require.ErrorContains(t, open(named, none), "certificate required")
}

func TestOpen_SendsAClientCertificateOverTheNativeProtocol(t *testing.T) {
	authority, files := certified(t)
	server, err := authority.Server()
	require.NoError(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	require.NoError(t, err)
	seen := make(chan string, 1)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			secure := conn.(*tls.Conn)
			if secure.HandshakeContext(context.WithoutCancel(t.Context())) == nil {
				select {
				case seen <- secure.ConnectionState().PeerCertificates[0].Subject.CommonName:
				default:
				}
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	vars := files.Env("CLICKHOUSE")
	vars[clickhouse.DSNEnv] = " clickhouses://u:p@" + l.Addr().String() + "/db "
	cfg, err := clickhouse.ConfigFromEnv(env(vars))
	require.NoError(t, err)
	cfg.ReadyTimeout = -1
	_, err = clickhouse.Open(t.Context(), cfg)
	require.Error(t, err, "the server closes the connection without a response")
	require.Equal(t, "muster", <-seen)
}

func TestConfigFromEnv_RejectsInconsistentTLS(t *testing.T) {
	_, files := certified(t)
	vars := files.Env("CLICKHOUSE")
	vars["CLICKHOUSE_TLS_KEY_FILE"] = ""
	_, err := clickhouse.ConfigFromEnv(env(vars))
	require.ErrorContains(t, err, "CLICKHOUSE_TLS_CERT_FILE and CLICKHOUSE_TLS_KEY_FILE must be set together")

	vars = files.Env("CLICKHOUSE")
	for _, scheme := range []string{"http", "clickhouse"} {
		vars[clickhouse.DSNEnv] = scheme + "://u:p@localhost:1/db"
		_, err = clickhouse.ConfigFromEnv(env(vars))
		require.ErrorContains(t, err, "the DSN has no TLS: use https:// or clickhouses://")
	}
}
