package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muster/deploy/topics"
	"muster/platform/broker/brokertest"
	"muster/platform/clickhouse"
	"muster/platform/engine/enginetest"
	"muster/projector"
	"muster/schemas/readmodel"
)

var update = flag.Bool("update", false, "write the list of metrics anew")

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

// described are the metrics of a registry, those without a value included: name to labels and help.
func described(t *testing.T, registry *prometheus.Registry) map[string][2]string {
	t.Helper()
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		registry.Describe(descs)
	}()
	pattern := regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "(.*?)"(?:, unit: "[^"]*")?, constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)
	constant := regexp.MustCompile(`(\w+)="`)
	out := map[string][2]string{}
	for d := range descs {
		m := pattern.FindStringSubmatch(d.String())
		require.NotNil(t, m, d.String())
		if strings.HasPrefix(m[1], "muster_") {
			var labels []string
			for _, label := range constant.FindAllStringSubmatch(m[3], -1) {
				labels = append(labels, label[1])
			}
			if m[4] != "" {
				labels = append(labels, strings.Split(m[4], ",")...)
			}
			out[m[1]] = [2]string{strings.Join(labels, ", "), strings.ReplaceAll(m[2], `\"`, `"`)}
		}
	}
	return out
}

// registered runs a service until it is ready and returns what it has registered then.
func registered(t *testing.T, name string, around surroundings) map[string][2]string {
	t.Helper()
	for _, s := range services() {
		if s.name != name {
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		unit, err := s.build(ctx, around)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- runAlone(ctx, name, unit, around, "127.0.0.1:0") }()
		require.Eventually(t, func() bool { return unit.ready(t.Context()) == nil }, time.Minute, 50*time.Millisecond, name)
		out := described(t, around.tel.Registry)
		cancel()
		require.NoError(t, <-ended)
		return out
	}
	t.Fatalf("no service %s", name)
	return nil
}

// The documented list of metrics is what the services register; alerts and dashboard ask for nothing else.
func TestMetricsAreDocumented(t *testing.T) {
	brokers := strings.Join(brokertest.Start(t).Addrs(), ",")
	dsn := enginetest.DSN(t)
	conn, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: dsn})
	require.NoError(t, err)
	_, err = projector.Migrate(t.Context(), conn, readmodel.Layout{}, clickhouse.MigrateConfig{})
	require.NoError(t, err)
	require.NoError(t, conn.Close())

	of, metrics := map[string][]string{}, map[string][2]string{}
	for i, s := range services() {
		env := map[string]string{"KAFKA_BROKERS": brokers, "CLICKHOUSE_DSN": dsn, "MUSTER_SECRET_KEY": strings.Repeat("s", 64), "MUSTER_OPERATOR_TOKEN": "token"}
		c := &command{std: streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard}, getenv: func(name string) string { return env[name] }, dataDir: t.TempDir(), logLevel: "error", logFormat: "text"}
		around, err := c.surroundings(t.Context(), s.name, "127.0.0.1:0")
		require.NoError(t, err)
		if i == 0 {
			require.NoError(t, topics.Ensure(t.Context(), around.kafka, around.tel.Logger))
		}
		for name, what := range registered(t, s.name, around) {
			of[name] = append(of[name], s.name)
			metrics[name] = what
		}
	}
	var table strings.Builder
	table.WriteString("| metric | labels | services | what |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		where := strings.Join(slices.Sorted(slices.Values(of[name])), ", ")
		if len(of[name]) == len(services()) {
			where = "all"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", name, metrics[name][0], where, strings.ReplaceAll(metrics[name][1], "|", "\\|"))
	}
	const path = "../../docs/metrics.md"
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)(<!-- metrics -->\n).*?(<!-- end -->)")
	require.Regexp(t, block, string(raw))
	page := block.ReplaceAllString(string(raw), "${1}"+strings.ReplaceAll(table.String(), "$", "$$")+"${2}")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(page), 0o600))
		raw = []byte(page)
	}
	require.Equal(t, page, string(raw), "go test ./deploy/cmd/muster -run Documented -update")

	for _, file := range []string{"../../compose/alerts.yaml", "../../compose/grafana/muster.json"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, name := range regexp.MustCompile(`muster_[a-z0-9_]+`).FindAllString(string(text), -1) {
			base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
			_, whole := metrics[name]
			_, part := metrics[base]
			require.True(t, whole || part, "%s asks for %s, which no service registers", file, name)
		}
	}
}
