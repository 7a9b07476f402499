package queryapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api"
	"muster/query-api/openapitest"
)

// Requests as browsers send them (Fetch Standard, CORS protocol).
func TestCORS_AllowsConfiguredOriginsOnly(t *testing.T) {
	f := start(t, func(cfg *queryapi.Config, _ *queryapi.Deps) {
		cfg.Origins = []string{"https://App.example:443/", "http://localhost:3000"}
	})
	send := func(method, path, origin string, header map[string]string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), method, f.service.URL()+path, strings.NewReader("{}"))
		require.NoError(t, err)
		req.Header.Set("Origin", origin)
		for name, value := range header {
			req.Header.Set(name, value)
		}
		resp, err := (&http.Client{Timeout: waitTimeout}).Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp
	}
	preflight := map[string]string{
		"Access-Control-Request-Method":  "POST",
		"Access-Control-Request-Headers": "authorization,content-type,idempotency-key",
	}
	for _, origin := range []string{"https://app.example", "http://localhost:3000"} {
		resp := send(http.MethodOptions, "/v1/person/enrich", origin, preflight)
		require.Equal(t, http.StatusNoContent, resp.StatusCode)
		require.Equal(t, origin, resp.Header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, "POST", resp.Header.Get("Access-Control-Allow-Methods"))
		require.Equal(t, "authorization,content-type,idempotency-key", resp.Header.Get("Access-Control-Allow-Headers"))
		require.Empty(t, resp.Header.Get("Access-Control-Allow-Credentials"))
		require.NotEmpty(t, resp.Header.Get("X-Request-Id"))
		require.Contains(t, resp.Header.Get("Vary"), "Origin")

		resp = send(http.MethodPost, "/v1/person/enrich", origin, map[string]string{"Content-Type": "application/json"})
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode, "pages can read errors, too")
		require.Equal(t, origin, resp.Header.Get("Access-Control-Allow-Origin"))
		checker, err := openapitest.New()
		require.NoError(t, err)
		exposed := strings.Split(strings.ToLower(resp.Header.Get("Access-Control-Expose-Headers")), ", ")
		for name := range checker.Document().Components.Headers {
			require.Contains(t, exposed, strings.ToLower(name))
		}
	}
	for _, origin := range []string{"https://evil.example", "http://app.example", "https://app.example:8443", "null"} {
		resp := send(http.MethodOptions, "/v1/person/enrich", origin, preflight)
		require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode, origin)
		require.Empty(t, resp.Header.Get("Access-Control-Allow-Origin"), origin)
		resp = send(http.MethodGet, "/v1/openapi.json", origin, nil)
		require.Equal(t, http.StatusOK, resp.StatusCode, "the server answers; the browser hides the response")
		require.Empty(t, resp.Header.Get("Access-Control-Allow-Origin"), origin)
		require.True(t, slices.Contains(resp.Header.Values("Vary"), "Origin"), "caches keep origins apart")
	}
}

func TestNew_RejectsInvalidOrigins(t *testing.T) {
	for _, origin := range []string{
		"", "app.example", "ftp://app.example", "https://", "https://app.example/path", "https://u@app.example",
		"https://*.example", "https://app.example?x", "null",
	} {
		err := queryapi.Config{Origins: []string{origin}}.Validate()
		require.ErrorContains(t, err, "--cors-origin: invalid origin", origin)
		require.ErrorContains(t, err, "want a scheme and a host, such as https://app.example.com", origin)
	}
	require.NoError(t, queryapi.Config{Origins: []string{"*", "https://app.example", "http://[::1]:3000"}}.Validate())
}
