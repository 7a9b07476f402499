package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// settingsOf returns the output of `muster config --json` by setting name.
func (c cli) settingsOf(args ...string) map[string]setting {
	c.t.Helper()
	out, _ := c.run(0, append(args, "config", "--json")...)
	byName := map[string]setting{}
	type listing struct {
		Settings []setting `json:"settings"`
	}
	for _, s := range parsed[listing](c.t, out).Settings {
		byName[s.Name] = s
	}
	return byName
}

func writeConfig(t *testing.T, mode fs.FileMode, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "muster.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
	return path
}

func TestConfig_FlagOverridesEnvironmentOverridesFile(t *testing.T) {
	path := writeConfig(t, 0o600, `
log-level: warn
log-format: json
data-dir: /from/file
api-addr: 127.0.0.1:1111
kafka-brokers: [a:9092, "b:9092"]
redis-url: redis://file:6379
webhook-allow: [10.0.0.0/8, 192.168.0.0/16]
no-sample: true
sample:
`)
	c := cli{t: t, env: map[string]string{
		configEnv: path, "MUSTER_LOG_FORMAT": "text", "MUSTER_DATA_DIR": "/from/environment",
		"REDIS_URL": "redis://env:6379",
	}}
	got := c.settingsOf("--data-dir", "/from/flag")
	for name, want := range map[string][2]string{
		"data-dir": {"/from/flag", sourceFlag}, "log-format": {"text", sourceEnvironment},
		"log-level": {"warn", sourceFile},
		"api-addr":  {"127.0.0.1:1111", sourceFile}, "ingest-addr": {"127.0.0.1:8081", sourceDefault},
		"kafka-brokers": {"a:9092,b:9092", sourceFile}, "redis-url": {"redis://env:6379", sourceEnvironment},
		"webhook-allow": {"10.0.0.0/8,192.168.0.0/16", sourceFile}, "no-sample": {"true", sourceFile},
		"sample": {"2000", sourceDefault}, "clickhouse-dsn": {"", sourceDefault},
	} {
		require.Equal(t, want, [2]string{got[name].Value, got[name].Source}, name)
	}
	require.Equal(t, []string{"engine", "up"}, slices.Sorted(slices.Values(got["clickhouse-addr"].Commands)))
	require.Equal(t, "--erasure-deadline", got["erasure-deadline"].Flag)
	require.Equal(t, "MUSTER_ERASURE_DEADLINE", got["erasure-deadline"].Variable)

	// --config is stronger than its variable.
	other := c.settingsOf("--config", writeConfig(t, 0o600, "ingest-addr: 127.0.0.1:2222\n"))
	require.Equal(t, "127.0.0.1:2222", other["ingest-addr"].Value)
	require.Equal(t, sourceDefault, other["log-level"].Source)
}

func TestConfig_ValuesReachFlagsAndVariables(t *testing.T) {
	path := writeConfig(t, 0o600, `
api-addr: 127.0.0.1:1111
search-index-memory: 77
erasure-deadline: 2h
admin-hosts: [a.example, b.example]
no-sample: true
kafka-brokers: a:9092
libchdb: /nowhere/libchdb.so
`)
	t.Setenv("MUSTER_LIBCHDB", "") // set below, and restored
	env := map[string]string{"MUSTER_SEARCH_INDEX_MEMORY": "88", "MUSTER_ADMIN_HOSTS": "c.example d.example"}
	c := &command{getenv: func(name string) string { return env[name] }, config: path}
	up, _, err := newRoot(c).Find([]string{"up"})
	require.NoError(t, err)
	c.config = path
	require.NoError(t, up.ParseFlags([]string{"--erasure-deadline", "3h", "--sample", "10"}))
	require.NoError(t, c.loadSettings(up))
	for name, want := range map[string]string{
		"api-addr": "127.0.0.1:1111", "search-index-memory": "88", "erasure-deadline": "3h0m0s",
		"admin-hosts": "[c.example,d.example]",
		"sample":      "10", "no-sample": "false", "webhook-allow": "[]", "kafka-addr": "127.0.0.1:9092",
	} {
		require.Equal(t, want, up.Flags().Lookup(name).Value.String(), name)
	}
	require.Equal(t, "a:9092", c.getenv("KAFKA_BROKERS"))
	require.Equal(t, "/nowhere/libchdb.so", os.Getenv("MUSTER_LIBCHDB"), "read from the environment")
}

func TestConfig_SecretsAreMasked(t *testing.T) {
	path := writeConfig(t, 0o640, `
secret-key: 0123456789012345678901234567890123456789
clickhouse-dsn: http://muster:hunter2@db:8123/muster
redis-url: redis://sentinel:26379/0?master_name=a&password=hunter2
`)
	c := cli{t: t, env: map[string]string{configEnv: path, "KAFKA_SASL_PASSWORD": "hunter2"}}
	for _, args := range [][]string{
		{"config"}, {"config", "--json"}, {"config", "secret-key", "clickhouse-dsn", "redis-url"},
	} {
		out, _ := c.run(0, args...)
		require.NotContains(t, out, "hunter2")
		require.NotContains(t, out, "0123456789")
		require.Contains(t, out, maskedSecret)
		require.Contains(t, out, "http://muster:xxxxx@db:8123/muster")
	}
	require.NoError(t, os.Chmod(path, 0o644))
	_, failed := c.run(2, "config")
	require.Contains(t, failed, "secret-key: every user can read it")
}

func TestConfig_DefectsAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"api-adr: 127.0.0.1:1\n":         `line 1: unknown setting "api-adr": did you mean "api-addr"?`,
		"api-addr: {a: b}\n":             "line 1: api-addr: must be a value or a list of values",
		"api-addr: [[a]]\n":              "line 1: api-addr: must be a value or a list of values",
		"log-level: a\nlog-level: b\n":   "already defined",
		"log-level: [info, warn]\n":      "log-level: must be one value, not a list",
		"log-level: loud\n":              "log level",
		"accept-data-loss: some.topic\n": "unknown setting",
	} {
		c := cli{t: t, env: map[string]string{configEnv: writeConfig(t, 0o600, text)}}
		_, failed := c.run(2, "config")
		require.Contains(t, failed, want, text)
	}
	_, failed := cli{t: t}.run(2, "--config", "/nowhere/muster.yaml", "config")
	require.Contains(t, failed, "read configuration: open /nowhere/muster.yaml")
	_, failed = cli{t: t}.run(2, "config", "api-adr")
	require.Contains(t, failed, `did you mean "api-addr"?`)
	c := cli{t: t, env: map[string]string{"MUSTER_SEARCH_INDEX_MEMORY": "lots"}}
	_, failed = c.run(2, "up")
	require.Contains(t, failed, "MUSTER_SEARCH_INDEX_MEMORY: ")
}

// The variables that the program reads are settings.
func TestConfig_ListsEveryVariable(t *testing.T) {
	known := map[string]bool{configEnv: true}
	for _, s := range allSettings(newRoot(&command{getenv: func(string) string { return "" }})) {
		require.False(t, known[s.Variable], s.Variable)
		require.NotEmpty(t, s.Description, s.Name)
		known[s.Variable] = true
	}
	variable := regexp.MustCompile(
		`"((?:MUSTER|KAFKA|CLICKHOUSE|REDIS|OTEL|DISCOVERY|SEARXNG|BRAVE|TAVILY|EXA|CODEHOST|MODEL)_[A-Z_]+)"`)
	found := 0
	for _, dir := range []string{
		"platform", "ingest", "projector", "query-api", "discovery-worker", "webhook-sender", "deploy",
	} {
		dir = filepath.Join(repository, dir)
		require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() {
				switch name := entry.Name(); {
				case slices.Contains([]string{"bench", "chaos", "e2e", "example", "packages", "kubernetes"}, name),
					strings.HasSuffix(name, "test"), name == "node_modules":
					return fs.SkipDir
				}
				return nil
			}
			if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			raw, err := os.ReadFile(path)
			for _, match := range variable.FindAllStringSubmatch(string(raw), -1) {
				if match[1] != "MUSTER_ENGINE_CONFINE" { // the engine's process sets it for itself
					require.True(t, known[match[1]], "%s: %s", path, match[1])
					found++
				}
			}
			return err
		}))
	}
	require.Greater(t, found, 20)
}
