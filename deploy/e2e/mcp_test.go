//go:build clients

package e2e_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

var updateTranscript = flag.Bool("update-mcp", false, "write the transcript of the MCP clients")

// mcpStep is a step of a transcript: list the tools, read a resource, or call a tool.
type mcpStep struct {
	List      bool   `json:"list,omitzero"`
	Read      string `json:"read,omitzero"`
	Call      string `json:"call,omitzero"`
	Arguments any    `json:"arguments,omitzero"`
}

// mcpTranscript is what a client got.
type mcpTranscript struct {
	Server       map[string]any `json:"server"`
	Instructions string         `json:"instructions"`
	Transcript   []any          `json:"transcript"`
}

// mcpSteps are the calls of the transcript, with hostile ones.
func mcpSteps() []mcpStep {
	type object = map[string]any
	return []mcpStep{
		{List: true},
		{Read: "muster://guides/search"},
		{Call: "enrich_person", Arguments: object{"codehost": "octavia"}},
		{Call: "enrich_person", Arguments: object{"codehost": "mallory"}},
		{Call: "enrich_person", Arguments: object{"email": "missing@example.org"}},
		{Call: "enrich_person", Arguments: object{"codehost": 7}},
		{Call: "enrich_company", Arguments: object{"network_slug": "acme"}},
		{Call: "search_people", Arguments: object{
			"query": object{"match": object{"profile.headline": "engineer"}}, "size": 1,
			"_source": []string{"profile.full_name", "profile.headline"},
		}},
		{Call: "search_people", Arguments: object{"query": object{"match": object{"profile.headlin": "engineer"}}}},
		{Call: "explain_search", Arguments: object{"query": object{"knn": object{}}}},
		{Call: "discover_person", Arguments: object{"codehost": "octavia", "dry_run": true}},
		{Call: "create_context", Arguments: object{"person": "Octavia Lin", "dry_run": true}},
		{Call: "get_context", Arguments: object{"request_id": "../../v1/usage"}},
		{Call: "get_context", Arguments: object{}},
		{Call: "drop_tables", Arguments: object{}},
		{Read: "file:///etc/passwd"},
	}
}

// The official TypeScript and Python clients, the one with the handshake and the other with the stateless protocol, get
// the same over HTTP and from `muster mcp`, with the configurations of the page. -update-mcp writes the golden file.
func TestClients_MCPTranscripts(t *testing.T) {
	p := start(t, newDataDir(t), "--no-sample")
	world := filepath.Join("testdata", "mcp")
	for _, kind := range []string{"network-company", "network-person", "codehost-person"} {
		p.muster(t, "ingest", kind, filepath.Join("..", "..", "schemas", "sampledata", "examples", kind+".ndjson"))
	}
	p.muster(t, "ingest", "codehost-person", filepath.Join(world, "codehost-person.ndjson"))
	p.muster(t, "status", "--wait")
	tools := t.TempDir()
	runIn := func(name string, args ...string) {
		t.Helper()
		install := exec.CommandContext(t.Context(), name, args...)
		install.Dir = tools
		out, err := install.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	for _, name := range []string{"package.json", "package-lock.json", "client.mjs", "client.py", "requirements.txt"} {
		raw, err := os.ReadFile(filepath.Join(world, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(tools, name), raw, 0o600))
	}
	runIn("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error")
	python := filepath.Join(tools, "venv", "bin", "python")
	runIn("python3", "-m", "venv", "venv")
	runIn(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt")

	steps, err := json.Marshal(mcpSteps())
	require.NoError(t, err)
	golden := filepath.Join(world, "transcript.golden.json")
	transports := mcpConfigurations(t, p)
	require.Len(t, transports, 2)
	for client, command := range map[string][]string{
		"TypeScript": {"node", filepath.Join(tools, "client.mjs")},
		"Python":     {python, filepath.Join(tools, "client.py")},
	} {
		for transport, configuration := range transports {
			t.Run(client+" "+transport, func(t *testing.T) {
				run := exec.CommandContext(t.Context(), command[0], command[1:]...)
				run.Env = append(environment(), "STEPS="+string(steps), "SERVER="+configuration)
				var problems bytes.Buffer
				run.Stderr = &problems
				out, err := run.Output()
				require.NoError(t, err, "%s", problems.String())
				var got mcpTranscript
				require.NoError(t, json.Unmarshal(out, &got), "%s", out)
				text := normalizeTranscript(t, &got)
				if *updateTranscript { // by the first client: the others must agree
					require.NoError(t, os.WriteFile(golden, text, 0o644))
					*updateTranscript = false
				}
				want, err := os.ReadFile(golden)
				require.NoError(t, err)
				require.Equal(t, string(want), string(text))
			})
		}
	}
}

// mcpConfigurations returns the configurations of the server on the page, for the instance, by transport.
func mcpConfigurations(t *testing.T, p *platform) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "docs", "agents.md"))
	require.NoError(t, err)
	here := strings.NewReplacer("http://127.0.0.1:8080", p.BaseURL, "mk_live_...", p.APIKey,
		`"command": "muster"`, `"command": "`+binary+`"`)
	out := make(map[string]string)
	for _, block := range regexp.MustCompile("(?ms)^```json\n(.*?)^```").FindAllStringSubmatch(string(page), -1) {
		var configuration struct {
			Servers map[string]jsontext.Value `json:"mcpServers"`
		}
		require.NoError(t, json.Unmarshal([]byte(block[1]), &configuration))
		for _, server := range configuration.Servers {
			transport := "stdio"
			if strings.Contains(string(server), `"url":`) {
				transport = "HTTP"
			}
			out[transport] = here.Replace(string(server))
		}
	}
	return out
}

// normalizeTranscript returns the transcript with what differs between runs replaced. The text of a result must be its
// structured content.
func normalizeTranscript(t *testing.T, got *mcpTranscript) []byte {
	t.Helper()
	for _, entry := range got.Transcript {
		switch e := entry.(type) {
		case map[string]any:
			if e["text"] == nil {
				continue
			}
			texts, ok := e["text"].([]any)
			require.True(t, ok)
			require.Len(t, texts, 1)
			text, ok := texts[0].(string)
			require.True(t, ok)
			var decoded map[string]any
			require.NoError(t, json.Unmarshal([]byte(text), &decoded))
			if e["structured"] != nil {
				require.Equal(t, e["structured"], decoded)
				delete(e, "structured")
			}
			hide(decoded, "request_id", "data_as_of", "credits_remaining")
			if data, ok := decoded["data"].(map[string]any); ok {
				hide(data, "next_cursor", "credits_remaining")
			}
			e["text"] = decoded
		case []any: // a resource, or tools
			first, ok := e[0].(map[string]any)
			require.True(t, ok)
			if text, ok := first["text"].(string); ok {
				require.Greater(t, len(text), 10_000)
				first["text"] = text[:8]
				continue
			}
			for j := range e {
				tool, ok := e[j].(map[string]any)
				require.True(t, ok)
				schema, ok := tool["inputSchema"].(map[string]any)
				require.True(t, ok)
				require.Equal(t, "object", schema["type"])
				require.Equal(t, false, schema["additionalProperties"])
				require.NotEmpty(t, tool["description"])
				// They are those of the OpenAPI description.
				delete(tool, "inputSchema")
				delete(tool, "description")
			}
		}
	}
	text, err := json.Marshal(got, json.Deterministic(true), jsontext.WithIndent("  "))
	require.NoError(t, err)
	return append(text, '\n')
}

// hide replaces the values of members.
func hide(object map[string]any, names ...string) {
	for _, name := range names {
		if object[name] != nil {
			object[name] = "..."
		}
	}
}
