package bus_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/platform/broker"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/platform/bus/bustest"
	"muster/platform/tlsclient/tlstest"
)

func env(m map[string]string) func(string) string { return func(k string) string { return m[k] } }

func TestConfigFromEnv_ReadsAllVariables(t *testing.T) {
	cfg, err := bus.ConfigFromEnv(env(nil))
	require.NoError(t, err)
	require.Equal(t, bus.Config{}, cfg)

	cfg, err = bus.ConfigFromEnv(env(map[string]string{
		"KAFKA_BROKERS": " a:1, [::1]:9092,, c:3 ", "KAFKA_TLS": "true",
		"KAFKA_SASL_MECHANISM": "scram-sha-512", "KAFKA_SASL_USERNAME": "u", "KAFKA_SASL_PASSWORD": "p",
	}))
	require.NoError(t, err)
	require.Equal(t, []string{"a:1", "[::1]:9092", "c:3"}, cfg.Brokers)
	require.NotNil(t, cfg.TLS)
	require.Equal(t, "SCRAM-SHA-512", cfg.SASL.Name())

	cfg, err = bus.ConfigFromEnv(env(map[string]string{"KAFKA_TLS": "false"}))
	require.NoError(t, err)
	require.Nil(t, cfg.TLS)

	cfg, err = bus.ConfigFromEnv(env(map[string]string{"KAFKA_SESSION_TIMEOUT": "4s"}))
	require.NoError(t, err)
	require.Equal(t, 4*time.Second, cfg.Session)
}

func TestConfigFromEnv_ErrorNamesVariableAndNoPassword(t *testing.T) {
	noPEM := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(noPEM, []byte("nothing"), 0o600))
	authority, err := tlstest.NewAuthority()
	require.NoError(t, err)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, authority.PEM, 0o600))
	const secret = "correct horse"
	login := func(mechanism, user, password string) map[string]string {
		m := map[string]string{"KAFKA_SASL_PASSWORD": password}
		if mechanism != "" {
			m["KAFKA_SASL_MECHANISM"] = mechanism
		}
		if user != "" {
			m["KAFKA_SASL_USERNAME"] = user
		}
		return m
	}
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"URL": {
			map[string]string{"KAFKA_BROKERS": "a:1,kafka://host:9092"},
			`KAFKA_BROKERS: "kafka://host:9092" is not host:port; give a comma-separated list without a scheme`,
		},
		"credentials": {
			map[string]string{"KAFKA_BROKERS": "kafka://u:" + secret + "@host:9092"},
			`"host:9092" has credentials before it; set them with KAFKA_SASL_MECHANISM`,
		},
		"URL without port": {map[string]string{"KAFKA_BROKERS": "kafka://host"}, "without a scheme"},
		"spaces":           {map[string]string{"KAFKA_BROKERS": "a:1 b:2"}, "comma-separated list"},
		"no port":          {map[string]string{"KAFKA_BROKERS": "host"}, "such as kafka1:9092,kafka2:9092"},
		"port zero":        {map[string]string{"KAFKA_BROKERS": "host:0"}, "KAFKA_BROKERS"},
		"no host":          {map[string]string{"KAFKA_BROKERS": ":9092"}, "KAFKA_BROKERS"},
		"tls maybe":        {map[string]string{"KAFKA_TLS": "maybe"}, "KAFKA_TLS"},
		"ca missing":       {map[string]string{"KAFKA_TLS_CA_FILE": noPEM + "x"}, "KAFKA_TLS_CA_FILE"},
		"tls off with a ca": {
			map[string]string{"KAFKA_TLS": "false", "KAFKA_TLS_CA_FILE": ca}, "KAFKA_TLS is false although",
		},
		"no duration":   {map[string]string{"KAFKA_SESSION_TIMEOUT": "10"}, "KAFKA_SESSION_TIMEOUT"},
		"short session": {map[string]string{"KAFKA_SESSION_TIMEOUT": "2s"}, "KAFKA_SESSION_TIMEOUT"},
		"long session":  {map[string]string{"KAFKA_SESSION_TIMEOUT": "31m"}, "KAFKA_SESSION_TIMEOUT"},
		"ca empty":      {map[string]string{"KAFKA_TLS_CA_FILE": noPEM}, "KAFKA_TLS_CA_FILE"},
		"no key": {
			map[string]string{"KAFKA_TLS_CERT_FILE": noPEM},
			"KAFKA_TLS_CERT_FILE and KAFKA_TLS_KEY_FILE must be set together",
		},
		"no certificate": {
			map[string]string{"KAFKA_TLS_CERT_FILE": noPEM, "KAFKA_TLS_KEY_FILE": noPEM},
			"KAFKA_TLS_CERT_FILE and KAFKA_TLS_KEY_FILE: ",
		},
		"mechanism":       {login("GSSAPI", "u", secret), "KAFKA_SASL_MECHANISM"},
		"no user":         {login("PLAIN", "", secret), "KAFKA_SASL_USERNAME"},
		"no mechanism":    {login("", "u", secret), "KAFKA_SASL_MECHANISM"},
		"invalid unicode": {login("SCRAM-SHA-256", "u", secret+"\u0007"), "KAFKA_SASL_PASSWORD"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := bus.ConfigFromEnv(env(c.env))
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), secret)
		})
	}
}

func TestConfigFromEnv_ConnectsWithTLSAndEachMechanism(t *testing.T) {
	authority, err := tlstest.NewAuthority()
	require.NoError(t, err)
	files, err := authority.Write(t.TempDir(), "muster")
	require.NoError(t, err)
	server, err := authority.Server()
	require.NoError(t, err)
	open := server.Clone()
	open.ClientAuth = tls.NoClientCert
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			users := []broker.User{{Mechanism: mechanism, Name: "muster", Password: "secret"}}
			b := brokertest.StartConfig(t, broker.Config{DataDir: t.TempDir(), Users: users, TLS: open})
			vars := map[string]string{
				"KAFKA_BROKERS": b.Addrs()[0], "KAFKA_TLS_CA_FILE": files.CA,
				"KAFKA_SASL_MECHANISM": mechanism, "KAFKA_SASL_USERNAME": "muster", "KAFKA_SASL_PASSWORD": "secret",
			}
			cfg, err := bus.ConfigFromEnv(env(vars))
			require.NoError(t, err)
			bustest.RoundTrip(t, cfg)

			vars["KAFKA_SASL_PASSWORD"] = "wrong"
			cfg, err = bus.ConfigFromEnv(env(vars))
			require.NoError(t, err)
			_, err = bus.EndOffsets(t.Context(), cfg, []string{"any"})
			require.Error(t, err)
		})
	}
	t.Run("certificate", func(t *testing.T) {
		t.Parallel()
		b := brokertest.StartConfig(t, broker.Config{DataDir: t.TempDir(), TLS: server})
		vars := files.Env("KAFKA")
		vars["KAFKA_BROKERS"] = b.Addrs()[0]
		cfg, err := bus.ConfigFromEnv(env(vars))
		require.NoError(t, err)
		bustest.RoundTrip(t, cfg)

		delete(vars, "KAFKA_TLS_CERT_FILE")
		delete(vars, "KAFKA_TLS_KEY_FILE")
		cfg, err = bus.ConfigFromEnv(env(vars))
		require.NoError(t, err)
		_, err = bus.EndOffsets(t.Context(), cfg, []string{"any"})
		require.ErrorContains(t, err, "certificate required")
	})
}
