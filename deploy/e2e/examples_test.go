package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// describedOperation is an operation in the API description.
type describedOperation struct {
	RequestBody struct {
		Content map[string]struct {
			Examples map[string]struct {
				Value jsontext.Value `json:"value"`
			} `json:"examples"`
		} `json:"content"`
	} `json:"requestBody"`
}

// examplesFind sends every example request for people or companies in the description. Each must find something:
// readers copy them for their first call.
func examplesFind(t *testing.T, p *platform) {
	t.Helper()
	api := p.api()
	var description struct {
		Paths map[string]map[string]jsontext.Value `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(api.mustGet(t, "/v1/openapi.json", nil).body, &description))
	found := map[string]func(t *testing.T, answer string, body map[string]any){
		"/v1/person/enrich": func(t *testing.T, answer string, body map[string]any) {
			require.NotEmpty(t, body["websets_matched"], answer)
		},
		"/v1/company/enrich": func(t *testing.T, answer string, body map[string]any) {
			require.Equal(t, true, body["matched"], answer)
		},
		"/v1/person/search": func(t *testing.T, answer string, body map[string]any) {
			require.Positive(t, body["total"], answer)
		},
		"/v1/person/discover": func(t *testing.T, answer string, body map[string]any) {
			require.Greater(t, len(body["socials"].([]any)), 1, answer)
		},
		"/v1/webset/network/person": func(t *testing.T, answer string,
			body map[string]any) {
			require.NotEmpty(t, body, answer)
		},
		"/v1/webset/codehost/person": func(t *testing.T, answer string,
			body map[string]any) {
			require.NotEmpty(t, body, answer)
		},
	}
	sent := 0
	for path, check := range found {
		var op describedOperation
		require.NoError(t, json.Unmarshal(description.Paths[path]["post"], &op), path)
		examples := op.RequestBody.Content["application/json"].Examples
		require.NotEmpty(t, examples, path)
		for name, example := range examples {
			got, err := api.do(t.Context(), http.MethodPost, path, nil, example.Value)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, got.status, "%s %s: %s", path, name, got.body)
			var body map[string]any
			if strings.HasPrefix(string(got.body), "[") { // the first element is found; others may be misses
				var list []map[string]any
				require.NoError(t, json.Unmarshal(got.body, &list))
				require.NotEmpty(t, list)
				body = list[0]
			} else {
				require.NoError(t, json.Unmarshal(got.body, &body))
			}
			if results, ok := body["results"].([]any); ok && strings.HasSuffix(path, "enrich") { // as for lists
				require.NotEmpty(t, results)
				body = results[0].(map[string]any)
			}
			check(t, path+" "+name+": "+string(got.body), body)
			sent++
		}
	}
	require.Greater(t, sent, 10)
	for path, id := range map[string]string{
		"/v1/webset/network/person?network=": "octavia-lin", "/v1/webset/codehost/person?codehost=": "octavia",
	} {
		got, err := api.do(t.Context(), http.MethodGet, path+id, nil, nil)
		require.NoError(t, err)
		require.Contains(t, string(got.body), `"full_name":"Octavia Lin"`, path)
	}
}
