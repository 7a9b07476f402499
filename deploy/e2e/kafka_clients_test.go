//go:build clients

package e2e_test

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// These clients read their mechanism from the broker's SaslHandshake response.
func TestClients_PythonAndJavaScriptProduceToTheEmbeddedBroker(t *testing.T) {
	p := start(t, newDataDir(t), "--no-sample")
	scripts := filepath.Join("testdata", "kafka-clients")
	tools := t.TempDir()
	runIn := func(dir, name string, args ...string) {
		t.Helper()
		install := exec.CommandContext(t.Context(), name, args...)
		install.Dir = dir
		out, err := install.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	python := filepath.Join(tools, "venv", "bin", "python")
	runIn(".", "python3", "-m", "venv", filepath.Join(tools, "venv"))
	runIn(scripts, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt")
	for _, name := range []string{"package.json", "package-lock.json"} {
		raw, err := os.ReadFile(filepath.Join(scripts, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(tools, name), raw, 0o600))
	}
	runIn(tools, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error")

	for i, client := range []struct{ name, program, script string }{
		{"kafka-python", python, "kafka_python.py"},
		{"aiokafka", python, "aio_kafka.py"},
		{"kafkajs", "node", "kafka_js.js"},
	} {
		t.Run(client.name, func(t *testing.T) {
			run := exec.CommandContext(t.Context(), client.program, filepath.Join(scripts, client.script))
			run.Env = append(environment(),
				"KAFKA="+p.Kafka, "KAFKA_USER="+p.KafkaUser, "KAFKA_PASSWORD="+p.KafkaPassword, "NODE_MODULES="+tools,
				"TOPIC=muster.record.codehost-person.v1",
				fmt.Sprintf(`RECORD={"user_id": %d, "codehost_username": %q, "last_updated": "2026-01-02"}`, 7000+i,
					client.name),
			)
			out, err := run.CombinedOutput()
			require.NoError(t, err, "%s", out)
			p.muster(t, "status", "--wait")
			served := p.api().mustGet(t, "/v1/webset/codehost/person", url.Values{"codehost": {client.name}})
			require.Contains(t, string(served.body), client.name)
		})
	}
}
