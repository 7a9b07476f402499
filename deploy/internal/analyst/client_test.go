package analyst

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/clickhouse"
	"muster/platform/tlsclient/tlstest"
)

// A user without a password is identified by the certificate.
func TestClient_SendsClientCertificates(t *testing.T) {
	authority, err := tlstest.NewAuthority()
	require.NoError(t, err)
	files, err := authority.Write(t.TempDir(), "ada")
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		_, _ = io.WriteString(w, strings.Join([]string{
			r.TLS.PeerCertificates[0].Subject.CommonName, user, password, r.Header.Get("X-ClickHouse-User"),
			r.Header.Get("X-ClickHouse-SSL-Certificate-Auth"),
		}, " "))
	}))
	server.TLS, err = authority.Server()
	require.NoError(t, err)
	server.StartTLS()
	t.Cleanup(server.Close)
	open := func(dsn string) (*Client, error) {
		vars := files.Env("CLICKHOUSE")
		cfg, err := clickhouse.ConfigFromEnv(func(name string) string { return vars[name] })
		require.NoError(t, err)
		cfg.DSN = dsn
		return Open(cfg, true)
	}
	for user, want := range map[string]string{"ada:secret": "ada ada secret  ", "ada": "ada   ada on"} {
		client, err := open(strings.Replace(server.URL, "//", "//"+user+"@", 1) + "/muster")
		require.NoError(t, err)
		var out strings.Builder
		require.NoError(t, client.Query(t.Context(), "SELECT 1", "TSV", nil, &out))
		require.Equal(t, want, out.String())
	}
	_, err = open("http://ada:secret@localhost:1/muster")
	require.ErrorContains(t, err, "has no TLS: use https://")
}
