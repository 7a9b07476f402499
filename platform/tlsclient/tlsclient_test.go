package tlsclient_test

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/tlsclient"
	"muster/platform/tlsclient/tlstest"
)

func authority(t *testing.T) *tlstest.Authority {
	t.Helper()
	a, err := tlstest.NewAuthority()
	require.NoError(t, err)
	return a
}

func env(m map[string]string) func(string) string { return func(k string) string { return m[k] } }

func TestFromEnv_RejectsInvalidFiles(t *testing.T) {
	dir := t.TempDir()
	files, err := authority(t).Write(dir, "client")
	require.NoError(t, err)
	other, err := authority(t).Write(t.TempDir(), "client")
	require.NoError(t, err)
	none := filepath.Join(dir, "none.pem")
	require.NoError(t, os.WriteFile(none, []byte("nothing"), 0o600))
	const (
		together = "X_TLS_CERT_FILE and X_TLS_KEY_FILE must be set together"
		both     = "X_TLS_CERT_FILE and X_TLS_KEY_FILE: "
	)
	for name, c := range map[string]struct {
		change map[string]string
		want   string
	}{
		"no key":         {map[string]string{"X_TLS_KEY_FILE": ""}, together},
		"no certificate": {map[string]string{"X_TLS_CERT_FILE": ""}, together},
		"missing authority file": {
			map[string]string{"X_TLS_CA_FILE": none + "x"}, "X_TLS_CA_FILE: open " + none + "x",
		},
		"authority file without PEM": {
			map[string]string{"X_TLS_CA_FILE": none}, "X_TLS_CA_FILE: no certificate in " + none,
		},
		"missing certificate file": {map[string]string{"X_TLS_CERT_FILE": none + "x"}, both + "open " + none + "x"},
		"missing key file":         {map[string]string{"X_TLS_KEY_FILE": none + "x"}, both + "open " + none + "x"},
		"certificate file without PEM": {
			map[string]string{"X_TLS_CERT_FILE": none}, both + "tls: failed to find any PEM data",
		},
		"key of another certificate": {
			map[string]string{"X_TLS_KEY_FILE": other.Key}, "private key does not match public key",
		},
		"certificate instead of key":  {map[string]string{"X_TLS_KEY_FILE": files.Cert}, "X_TLS_KEY_FILE"},
		"key instead of certificate":  {map[string]string{"X_TLS_CERT_FILE": files.Key}, "X_TLS_CERT_FILE"},
		"directory instead of a file": {map[string]string{"X_TLS_CERT_FILE": dir}, "X_TLS_CERT_FILE"},
	} {
		t.Run(name, func(t *testing.T) {
			vars := files.Env("X")
			maps.Copy(vars, c.change)
			_, err := tlsclient.FromEnv(env(vars), "X")
			require.ErrorContains(t, err, c.want)
		})
	}
	s, err := tlsclient.FromEnv(env(files.Env("Y")), "X")
	require.NoError(t, err)
	require.Nil(t, s)
}

func TestSettings_ApplyKeepsOtherFields(t *testing.T) {
	cfg := &tls.Config{ServerName: "kafka", InsecureSkipVerify: true}
	(*tlsclient.Settings)(nil).Apply(cfg)
	require.Equal(t, &tls.Config{ServerName: "kafka", InsecureSkipVerify: true}, cfg)
	files, err := authority(t).Write(t.TempDir(), "client")
	require.NoError(t, err)
	files.Cert, files.Key = "", ""
	s, err := tlsclient.FromEnv(env(files.Env("X")), "X")
	require.NoError(t, err)
	s.Apply(cfg)
	require.NotNil(t, cfg.RootCAs)
	require.Nil(t, cfg.GetClientCertificate)
	require.Equal(t, "kafka", cfg.ServerName)
	require.True(t, cfg.InsecureSkipVerify)
}

func TestSettings_ReloadCertificateOnEachConnection(t *testing.T) {
	a, dir := authority(t), t.TempDir()
	files, err := a.Write(dir, "client")
	require.NoError(t, err)
	server, err := a.Server()
	require.NoError(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	settings, err := tlsclient.FromEnv(env(files.Env("X")), "X")
	require.NoError(t, err)
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	settings.Apply(cfg)
	// connect returns the serial number of the certificate that the server saw.
	connect := func() (string, error) {
		type seen struct {
			serial string
			err    error
		}
		done := make(chan seen, 1)
		go func() {
			conn, err := l.Accept()
			if err != nil {
				done <- seen{err: err}
				return
			}
			defer func() { _ = conn.Close() }()
			secure := conn.(*tls.Conn)
			if err := secure.HandshakeContext(context.WithoutCancel(t.Context())); err != nil {
				done <- seen{err: err}
				return
			}
			done <- seen{serial: secure.ConnectionState().PeerCertificates[0].SerialNumber.String()}
		}()
		dialer := &tls.Dialer{NetDialer: &net.Dialer{}, Config: cfg}
		conn, err := dialer.DialContext(t.Context(), "tcp", l.Addr().String())
		if err == nil {
			defer func() { _ = conn.Close() }()
		}
		s := <-done
		return s.serial, errors.Join(err, s.err)
	}
	first, err := connect()
	require.NoError(t, err)
	again, err := connect()
	require.NoError(t, err)
	require.Equal(t, first, again)

	_, err = a.Write(dir, "client")
	require.NoError(t, err)
	renewed, err := connect()
	require.NoError(t, err)
	require.NotEqual(t, first, renewed)

	_, key, err := a.Issue("client")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(files.Key, key, 0o600))
	_, err = connect()
	require.ErrorContains(t, err, "X_TLS_CERT_FILE and X_TLS_KEY_FILE: tls: private key does not match public key")
}
