//go:build clients

package e2e_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// Postman's own converter and runner, from npm.
const (
	postmanConverter = "openapi-to-postmanv2@6.3.3"
	postmanRunner    = "newman@6.2.2"
)

// The description is converted as Postman imports it, with examples as values, and every request is sent as it is. Only
// identifiers of earlier calls are unknown.
func TestClients_PostmanImportSendsWorkingRequests(t *testing.T) {
	p := start(t, t.TempDir(), "--sample", "40")
	dir := t.TempDir()
	document := p.api().mustGet(t, "/v1/openapi.json", nil).body
	require.NoError(t, os.WriteFile(filepath.Join(dir, "openapi.json"), document, 0o600))
	var described struct {
		Paths map[string]map[string]jsontext.Value `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(document, &described))
	operations := 0
	for _, methods := range described.Paths {
		operations += len(methods)
	}
	run := func(packaged string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "npm",
			append([]string{"exec", "--yes", "--loglevel=error", "--package=" + packaged, "--"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	for _, optional := range []string{"true", "false"} {
		t.Run("optional parameters "+optional, func(t *testing.T) {
			run(postmanConverter, "openapi2postmanv2", "-s", "openapi.json", "-o", "collection.json", "-O",
				"parametersResolution=Example,folderStrategy=Tags,enableOptionalParameters="+optional)
			raw, err := os.ReadFile(filepath.Join(dir, "collection.json"))
			require.NoError(t, err)
			require.Contains(t, string(raw), "http://127.0.0.1:8080", "the default of the base URL")
			run(postmanRunner, "newman", "run", "collection.json", "--env-var", "baseUrl="+p.BaseURL, "--env-var",
				"bearerToken="+p.APIKey, "--reporters", "json", "--reporter-json-export", "run.json")
			raw, err = os.ReadFile(filepath.Join(dir, "run.json"))
			require.NoError(t, err)
			var report struct {
				Run struct {
					Executions []struct {
						Item struct {
							Name    string `json:"name"`
							Request struct {
								URL struct {
									Path []string `json:"path"`
								} `json:"url"`
							} `json:"request"`
						} `json:"item"`
						Response struct {
							Code   int `json:"code"`
							Stream struct {
								Data []rune `json:"data"` // bytes
							} `json:"stream"`
						} `json:"response"`
					} `json:"executions"`
				} `json:"run"`
			}
			require.NoError(t, json.Unmarshal(raw, &report))
			require.Len(t, report.Run.Executions, operations)
			for _, e := range report.Run.Executions {
				path, got := strings.Join(e.Item.Request.URL.Path, "/"), string(e.Response.Stream.Data)
				if strings.HasPrefix(path, "v1/webhook") || strings.HasPrefix(path, "v1/keys/") {
					require.Equal(t, http.StatusForbidden, e.Response.Code, "the key lacks manage: %s: %s", path, got)
					continue
				}
				if strings.Contains(path, ":") {
					require.Equal(t, http.StatusNotFound, e.Response.Code, "%s: %s", path, got)
					continue
				}
				require.Contains(t, []int{http.StatusOK, http.StatusAccepted}, e.Response.Code, "%s %s: %s",
					e.Item.Name, path, got)
			}
		})
	}
}
