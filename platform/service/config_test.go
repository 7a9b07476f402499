package service_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/platform/service"
)

type testConfig struct {
	LogLevel slog.Level  `koanf:"log_level"`
	API      apiConfig   `koanf:"query_api"`
	Kafka    kafkaConfig `koanf:"kafka"`
	internal int
}

type apiConfig struct {
	Addr    string        `koanf:"addr"`
	Timeout time.Duration `koanf:"timeout"`
	Max     int           `koanf:"max_body_bytes"`
	Gather  bool          `koanf:"gather"`
}

type kafkaConfig struct {
	Brokers []string          `koanf:"brokers"`
	Topic   map[string]string `koanf:"topic_config"`
}

func (c *testConfig) Validate() error {
	if c.API.Max < 0 {
		return errors.New("query_api.max_body_bytes is negative")
	}
	return nil
}

func defaults() *testConfig {
	return &testConfig{
		internal: 7,
		API:      apiConfig{Addr: "127.0.0.1:8080", Timeout: time.Second, Max: 10, Gather: true},
		Kafka:    kafkaConfig{Brokers: []string{"a:1", "b:2"}},
	}
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "muster.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestLoadConfigLayers(t *testing.T) {
	got := defaults()
	warnings, err := service.LoadConfig(got, service.ConfigSource{
		File: writeFile(t, `
log_level: warn
query_api: {addr: "file:1", timeout: 5s, max_body_bytes: 20}
kafka:
  brokers: ["c:3"]
  topic_config: {retention.ms: "5"}
`),
		Environ: []string{"MUSTER_QUERY_API_ADDR=env:2", "MUSTER_QUERY_API_TIMEOUT=7s", "MUSTER_QUERY_API_GATHER=false",
			"MUSTER_SECRET_KEY=x", "MUSTER_QUERY_API_ADR=typo", "PATH=/bin"},
		EnvOther: []string{service.SecretEnv},
		Flags:    map[string]any{"query_api.addr": "flag:3"},
	})
	require.NoError(t, err)
	want := defaults()
	want.LogLevel = slog.LevelWarn
	want.API = apiConfig{Addr: "flag:3", Timeout: 7 * time.Second, Max: 20}
	want.Kafka.Brokers = []string{"c:3"}
	want.Kafka.Topic = map[string]string{"retention.ms": "5"}
	require.Equal(t, want, got)
	require.Equal(t, []string{"unknown variable MUSTER_QUERY_API_ADR; did you mean \"MUSTER_QUERY_API_ADDR\"?"}, warnings)

	got = defaults()
	_, err = service.LoadConfig(got, service.ConfigSource{Environ: []string{"MUSTER_KAFKA_BROKERS=x:1,y:2,z:3"}})
	require.NoError(t, err)
	require.Equal(t, []string{"x:1", "y:2", "z:3"}, got.Kafka.Brokers)
	require.Equal(t, defaults().API, got.API, "what nobody names keeps its default")
}

func TestLoadConfigErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		src  service.ConfigSource
		want string
	}{
		"unknown key":     {file: "query_api: {adr: x}", want: `unknown key "query_api.adr"; did you mean "query_api.addr"?`},
		"unknown section": {file: "kafak: {brokers: [x]}", want: `unknown key "kafak.brokers"; did you mean "kafka.brokers"?`},
		"wrong case":      {file: "Log_Level: info", want: `did you mean "log_level"?`},
		"twice":           {file: "log_level: info\nlog_level: warn", want: "already defined"},
		"not YAML":        {file: "{", want: "muster.yaml"},
		"wrong type":      {file: "query_api: {timeout: soon}", want: "query_api.timeout"},
		"section scalar":  {file: "query_api: 5", want: "query_api"},
		"bad variable":    {src: service.ConfigSource{Environ: []string{"MUSTER_QUERY_API_MAX_BODY_BYTES=many"}}, want: "max_body_bytes"},
		"unknown flag":    {src: service.ConfigSource{Flags: map[string]any{"query_api.port": 1}}, want: `unknown key "query_api.port"`},
		"no file":         {src: service.ConfigSource{File: "/nonexistent/muster.yaml"}, want: "no such file"},
		"invalid":         {file: "query_api: {max_body_bytes: -1}", want: "configuration: query_api.max_body_bytes is negative"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.file != "" {
				tc.src.File = writeFile(t, tc.file)
			}
			if tc.src.Environ == nil {
				tc.src.Environ = []string{}
			}
			_, err := service.LoadConfig(defaults(), tc.src)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestLoadConfigEmptySectionKeepsDefaults(t *testing.T) {
	got := defaults()
	_, err := service.LoadConfig(got, service.ConfigSource{File: writeFile(t, "query_api:\n"), Environ: []string{}})
	require.NoError(t, err)
	require.Equal(t, defaults(), got)
}

type clash struct {
	A string `koanf:"a_b"`
	B struct {
		C string `koanf:"b"`
	} `koanf:"a"`
}

func (*clash) Validate() error { return nil }

type untagged struct{ Field string }

func (*untagged) Validate() error { return nil }

func TestLoadConfigRefusesBadStructs(t *testing.T) {
	_, err := service.LoadConfig(&clash{}, service.ConfigSource{})
	require.ErrorContains(t, err, `keys "a.b" and "a_b" share the variable MUSTER_A_B`)
	_, err = service.LoadConfig(&untagged{}, service.ConfigSource{})
	require.ErrorContains(t, err, "no koanf tag")
}
