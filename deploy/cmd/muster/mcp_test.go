package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/deploy/internal/instance"
)

// recordedAPI is an API that records the requests to it.
func recordedAPI(t *testing.T) (base string, requests *[]*http.Request) {
	t.Helper()
	requests = new([]*http.Request)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*requests = append(*requests, r)
		w.Header().Set("X-Credits-Charged", "1")
		_, _ = io.WriteString(w, `{"websets_matched":[],"person":{}}`)
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

// mcpClient is a client that calls a tool and closes the connection when it has the result.
type mcpClient struct {
	io.Reader
	input *io.PipeWriter
	out   strings.Builder
}

func newMCPClient() *mcpClient {
	in, input := io.Pipe()
	c := &mcpClient{Reader: in, input: input}
	go func() {
		_, _ = io.WriteString(input, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{`+
			`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"enrich_person","arguments":{"codehost":"octavia"}}}
`)
	}()
	return c
}

func (c *mcpClient) Write(b []byte) (int, error) {
	n, err := c.out.Write(b)
	if strings.Contains(c.out.String(), `"id":1,`) {
		err = c.input.Close()
	}
	return n, err
}

func TestMCP_FindsAddressAndKey(t *testing.T) {
	base, requests := recordedAPI(t)
	dir := t.TempDir()
	writeRunning(t, dir, instance.Instance{BaseURL: base, APIKey: "of-the-instance"})
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		key  string // of the request; empty: the command fails with the problem
		path string
		says string
	}{
		"instance":              {args: []string{"--data-dir", dir}, key: "of-the-instance"},
		"instance with own key": {args: []string{"--data-dir", dir, "--api-key", "flag"}, key: "flag"},
		"flags beat environment": {
			args: []string{"--url", base, "--api-key", "flag"}, key: "flag",
			env: map[string]string{"MUSTER_API_KEY": "env", "MUSTER_BASE_URL": "http://other.example"},
		},
		"environment":     {env: map[string]string{"MUSTER_API_KEY": "env", "MUSTER_BASE_URL": base}, key: "env"},
		"path of a proxy": {args: []string{"--url", base + "/muster/", "--api-key", "k"}, key: "k", path: "/muster"},
		"foreign address, no key": {
			args: []string{"--data-dir", dir, "--url", base}, says: "API key is missing: set MUSTER_API_KEY",
		},
		"no instance": {args: []string{"--data-dir", t.TempDir()}, says: "no running muster at data directory"},
		"no address": {
			args: []string{"--url", "muster.example", "--api-key", "k"}, says: "it must start with http:// or https://",
		},
	} {
		t.Run(name, func(t *testing.T) {
			*requests = nil
			var errors strings.Builder
			client := newMCPClient()
			status := run(append([]string{"mcp"}, c.args...), streams{in: client, out: client, err: &errors},
				func(name string) string { return c.env[name] })
			if c.key == "" {
				require.Equal(t, 2, status)
				require.Contains(t, errors.String(), c.says)
				require.Empty(t, *requests)
				return
			}
			require.Equal(t, 0, status, errors.String())
			require.Empty(t, errors.String())
			require.Len(t, *requests, 1, client.out.String())
			got := (*requests)[0]
			require.Equal(t, "Bearer "+c.key, got.Header.Get("Authorization"))
			require.Equal(t, c.path+"/v1/person/enrich", got.URL.Path)
			require.Len(t, got.Header.Get("Idempotency-Key"), 26)
			for line := range strings.Lines(client.out.String()) {
				require.True(t, jsontext.Value(line).IsValid(), "nothing else is written to standard output: %s", line)
			}
			require.Contains(t, client.out.String(), `"credits_charged":1`)
		})
	}
}

func TestMCP_UnreachableAPIIsAResult(t *testing.T) {
	var errors strings.Builder
	client := newMCPClient()
	status := run([]string{"mcp", "--url", "http://127.0.0.1:1", "--api-key", "secret"},
		streams{in: client, out: client, err: &errors}, func(string) string { return "" })
	require.Equal(t, 0, status, errors.String())
	require.Contains(t, client.out.String(), `"isError":true`)
	require.Contains(t, client.out.String(), "the API at http://127.0.0.1:1 cannot be reached")
	require.NotContains(t, client.out.String()+errors.String(), "secret")
}
