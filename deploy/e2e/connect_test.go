//go:build connect

package e2e_test

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"

	"muster/platform/javatest"
	"muster/schemas/readmodel"
)

// The code of connect.md runs, and each client reads every view and its description, without a password.
func TestConnect_ToolsReadTheViews(t *testing.T) {
	p := start(t, t.TempDir(), "--sample", "100")
	at, err := url.Parse(p.ClickHouseURL)
	require.NoError(t, err)
	files, err := filepath.Abs(filepath.Join("testdata", "connect"))
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join("..", "docs", "connect.md"))
	require.NoError(t, err)
	code := make(map[string][]string)
	for _, m := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		code[m[1]] = append(code[m[1]],
			strings.NewReplacer("port=8123", "port="+at.Port(), "127.0.0.1:8123", at.Host).Replace(m[2]))
	}
	dir := t.TempDir()
	run := func(t *testing.T, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		cmd.Env = append(environment(), "ADDRESS="+at.Host)
		var out, log strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &log
		require.NoError(t, cmd.Run(), "%s\n%s", &out, &log)
		return out.String()
	}
	views := strconv.Itoa(len(readmodel.ViewNames())) + "\n"

	t.Run("Python and DuckDB", func(t *testing.T) {
		run(t, "python3", "-m", "venv", "venv")
		python := filepath.Join(dir, "venv", "bin", "python")
		run(t, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r",
			filepath.Join(files, "requirements.txt"))
		p.muster(t, "export", "--all", "--output", filepath.Join(dir, "lake")+"/")
		require.Len(t, code["python"], 3)
		for _, block := range code["python"] {
			require.Contains(t, run(t, python, "-c", block), "India")
		}
		require.Equal(t, views, run(t, python, filepath.Join(files, "views.py")))
	})

	t.Run("JDBC", func(t *testing.T) {
		pom, err := os.ReadFile(filepath.Join(files, "pom.xml"))
		require.NoError(t, err)
		driver, err := javatest.Dir("jdbc", [][]byte{pom}, func(dir string) error {
			return javatest.FetchJars(context.Background(), dir, pom) // for later tests, too
		})
		require.NoError(t, err)
		jars := filepath.Join(driver, "jars", "*")
		require.Len(t, code["java"], 1)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "Query.java"), []byte(code["java"][0]), 0o600))
		require.Regexp(t, `(?m)^India\t\d+$`, run(t, "java", "-cp", jars, "Query.java"))
		require.Equal(t, views, run(t, "java", "-cp", jars, filepath.Join(files, "Metadata.java")))
	})

	t.Run("clickhouse-go as in Grafana's plugin", func(t *testing.T) {
		conn := clickhouse.OpenDB(&clickhouse.Options{
			Addr: []string{at.Host}, Protocol: clickhouse.HTTP,
			Auth:        clickhouse.Auth{Username: "default", Database: "muster_views"},
			Compression: &clickhouse.Compression{Method: clickhouse.CompressionLZ4},
			Settings:    clickhouse.Settings{"max_execution_time": 60},
			DialTimeout: 10 * time.Second,
		})
		t.Cleanup(func() { require.NoError(t, conn.Close()) })
		require.NoError(t, conn.PingContext(t.Context()))
		for statement, want := range map[string]int{
			"SHOW DATABASES": 1, "SHOW TABLES FROM `muster_views`": len(readmodel.ViewNames()),
			"DESC TABLE `muster_views`.`languages_by_month`":                                   5,
			"SELECT month AS time, sum(commits) FROM languages_by_month GROUP BY time LIMIT 2": 2,
		} {
			rows, err := conn.QueryContext(t.Context(), statement)
			require.NoError(t, err, statement)
			got := 0
			for ; rows.Next(); got++ {
			}
			require.NoError(t, rows.Err(), statement)
			require.Equal(t, want, got, statement)
		}
	})
}
