package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"muster/deploy/internal/standalone"
	"muster/platform/broker/brokertest"
	"muster/platform/clickhouse"
	"muster/platform/engine/enginetest"
	"muster/projector/migrations"
	"muster/schemas/readmodel"
)

var update = flag.Bool("update", false, "rewrite the list of metrics")

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

// described returns the labels and help of the metrics of a registry by name, including those without a value.
func described(t *testing.T, registry *prometheus.Registry) map[string][2]string {
	t.Helper()
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		registry.Describe(descs)
	}()
	pattern := regexp.MustCompile(
		`^Desc\{fqName: "([^"]+)", help: "(.*?)"(?:, unit: "[^"]*")?, ` +
			`constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)
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

// registered runs a service until it is ready, and returns its registered metrics.
func registered(t *testing.T, name string, env environment) map[string][2]string {
	t.Helper()
	for _, s := range services() {
		if s.name != name {
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		unit, err := s.build(ctx, env)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- runAlone(ctx, name, unit, env, "127.0.0.1:0", nil) }()
		require.Eventually(t, func() bool { return unit.ready(t.Context()) == nil }, time.Minute,
			50*time.Millisecond, name)
		out := described(t, env.tel.Registry)
		cancel()
		require.NoError(t, <-ended)
		return out
	}
	t.Fatalf("no service %s", name)
	return nil
}

func TestMetrics_PageAlertsAndDashboardMatchTheServices(t *testing.T) {
	brokers := strings.Join(brokertest.Start(t).Addrs(), ",")
	dsn := enginetest.DSN(t)
	conn, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: dsn})
	require.NoError(t, err)
	_, err = migrations.Apply(t.Context(), conn, readmodel.Layout{}, clickhouse.MigrateConfig{})
	require.NoError(t, err)
	require.NoError(t, conn.Close())

	of, metrics := map[string][]string{}, map[string][2]string{}
	for i, s := range services() {
		env := map[string]string{"KAFKA_BROKERS": brokers, "CLICKHOUSE_DSN": dsn,
			"MUSTER_SECRET_KEY": strings.Repeat("s", 64), "MUSTER_OPERATOR_TOKEN": "token",
			"SEARXNG_URL": "http://127.0.0.1:1", "MUSTER_LLM_URL": "http://127.0.0.1:1/v1", "MUSTER_LLM_NAME": "m"}
		if s.name == "projector" { // It has further metrics with a search cluster.
			env["OPENSEARCH_URL"] = "http://127.0.0.1:1"
		}
		c := &command{std: streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard},
			getenv: func(name string) string { return env[name] }, dataDir: t.TempDir(), logLevel: "error",
			logFormat: "text"}
		deps, err := c.environment(t.Context(), s.name, "127.0.0.1:0")
		require.NoError(t, err)
		if i == 0 {
			require.NoError(t, standalone.EnsureTopics(t.Context(), deps.kafka, 0, deps.tel.Logger))
		}
		for name, what := range registered(t, s.name, deps) {
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
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", name, metrics[name][0], where,
			strings.ReplaceAll(metrics[name][1], "|", "\\|"))
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
	require.Equal(t, page, string(raw), "go test ./deploy/cmd/muster -run TestMetrics -update")

	// The status page reads metrics by name.
	sources, err := filepath.Glob("../../internal/status/*.go")
	require.NoError(t, err)
	more, err := filepath.Glob("../../internal/status/page/*.go")
	require.NoError(t, err)
	for _, source := range append(sources, more...) {
		text, err := os.ReadFile(source)
		require.NoError(t, err)
		for _, name := range regexp.MustCompile(`"(muster_[a-z_]+)"`).FindAllStringSubmatch(string(text), -1) {
			require.Contains(t, metrics, name[1], source)
		}
	}
	for _, expr := range append(ruleExpressions(t), panelExpressions(t)...) {
		requireLabels(t, metrics, expr)
	}
}

// ruleExpressions returns the expressions of the alerts.
func ruleExpressions(t *testing.T) (out []string) {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []struct{ Expr string } }
	}
	raw, err := os.ReadFile("../../compose/alerts.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(raw, &file))
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			out = append(out, rule.Expr)
		}
	}
	return out
}

// panelExpressions returns the expressions of the dashboard.
func panelExpressions(t *testing.T) (out []string) {
	t.Helper()
	var file struct {
		Panels []struct {
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	raw, err := os.ReadFile("../../compose/grafana/muster.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &file, json.MatchCaseInsensitiveNames(true)))
	for _, panel := range file.Panels {
		for _, target := range panel.Targets {
			out = append(out, target.Expr)
			kept := regexp.MustCompile(`by \(([^)]*)\)`).FindStringSubmatch(target.Expr)
			for _, m := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				require.NotNil(t, kept, target.Expr)
				require.Contains(t, strings.Split(kept[1], ", "), m[1], "the legend of %s", target.Expr)
			}
		}
	}
	require.NotEmpty(t, out)
	return out
}

// requireLabels looks up the metrics of an expression, and the labels that it selects or groups by.
func requireLabels(t *testing.T, metrics map[string][2]string, expr string) {
	t.Helper()
	labels := []string{"job", "instance"} // added by the scrape
	for _, m := range regexp.MustCompile(`(muster_[a-z0-9_]+)(?:{([^}]*)})?`).FindAllStringSubmatch(expr, -1) {
		has := []string{"job", "instance"}
		what, ok := metrics[m[1]]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, is := strings.CutSuffix(m[1], suffix); is && !ok {
				what, ok = metrics[base]
				has = append(has, "le")
			}
		}
		require.True(t, ok, "no service registers %s: %s", m[1], expr)
		has = append(has, strings.Split(what[0], ", ")...)
		for _, asked := range regexp.MustCompile(`(\w+)[!=]`).FindAllStringSubmatch(m[2], -1) {
			require.Contains(t, has, asked[1], "%s has no such label: %s", m[1], expr)
		}
		labels = append(labels, has...)
	}
	for _, m := range regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`).FindAllStringSubmatch(expr, -1) {
		for _, label := range strings.Split(m[1], ", ") {
			require.Contains(t, labels, label, expr)
		}
	}
}
