package opensearch_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/platform/opensearch"
)

func open(t *testing.T, cfg opensearch.Config) *opensearch.Client {
	t.Helper()
	c, err := opensearch.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func server(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return s.URL
}

func TestConfigFromEnv_ReadsNodesCredentialsAndIndexSettings(t *testing.T) {
	env := map[string]string{
		"OPENSEARCH_URL":          "https://ada:s3cret@node-1:9200, http://node-2:9200/",
		"OPENSEARCH_INDEX_PREFIX": "prod-", "OPENSEARCH_SHARDS": "3", "OPENSEARCH_REPLICAS": "0",
	}
	cfg, ok, err := opensearch.ConfigFromEnv(func(name string) string { return env[name] })
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, opensearch.Config{
		Nodes: []string{"https://node-1:9200", "http://node-2:9200"}, Username: "ada", Password: "s3cret",
		Prefix: "prod-", Shards: 3, Replicas: "0",
	}, cfg)
	env["OPENSEARCH_USERNAME"], env["OPENSEARCH_PASSWORD"] = "grace", "other"
	cfg, _, err = opensearch.ConfigFromEnv(func(name string) string { return env[name] })
	require.NoError(t, err)
	require.Equal(t, "grace", cfg.Username)
	require.Equal(t, "other", cfg.Password)
	_, ok, err = opensearch.ConfigFromEnv(func(string) string { return "" })
	require.NoError(t, err)
	require.False(t, ok, "without a URL there is no cluster")
}

func TestConfigFromEnv_ErrorsNameTheVariableAndNoPassword(t *testing.T) {
	for name, value := range map[string]string{
		"OPENSEARCH_URL":          "https://ada:s3cret@no de:9200",
		"OPENSEARCH_INDEX_PREFIX": "Upper", "OPENSEARCH_SHARDS": "0", "OPENSEARCH_REPLICAS": "-1",
		"OPENSEARCH_PASSWORD": "s3cret", "OPENSEARCH_TLS_CA_FILE": filepath.Join(t.TempDir(), "none"),
	} {
		_, _, err := opensearch.ConfigFromEnv(func(n string) string {
			switch n {
			case name:
				return value
			case "OPENSEARCH_URL":
				return "http://node:9200"
			}
			return ""
		})
		require.ErrorContains(t, err, name)
		require.NotContains(t, err.Error(), "s3cret")
	}
	for _, list := range []string{"node:9200", "127.0.0.1:9200", "https://a:9200,b:9200"} {
		_, _, err := opensearch.ConfigFromEnv(func(n string) string {
			return map[string]string{"OPENSEARCH_URL": list}[n]
		})
		require.ErrorContains(t, err, "nodes are http:// or https:// URLs such as https://node:9200")
	}
}

func TestClient_UsesAnotherNodeWhenOneIsDown(t *testing.T) {
	var calls atomic.Int32
	up := server(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		calls.Add(1)
		_, _ = w.Write([]byte(`{"echo":"` + string(body) + `"}`))
	})
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	c := open(t, opensearch.Config{Nodes: []string{down.URL, up}})
	for range 4 {
		var out struct{ Echo string }
		require.NoError(t, c.Do(t.Context(), http.MethodPost, "/x", []byte("hello"), &out))
	}
	require.Positive(t, calls.Load())
}

func TestClient_ErrorsHaveTypesAndNeitherHostsNorReasons(t *testing.T) {
	url := server(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":{"root_cause":[{"type":"too_many_clauses","reason":"ada@example.com"}],` +
			`"type":"search_phase_execution_exception","reason":"all shards failed","failed_shards":[{"reason":` +
			`{"type":"query_shard_exception","reason":"about ada@example.com","caused_by":{"type":"too_many_clauses"}}}]},` +
			`"status":400}`))
	})
	err := open(t, opensearch.Config{Nodes: []string{url}}).Do(t.Context(), http.MethodGet, "/x", nil, nil)
	var e *opensearch.Error
	require.ErrorAs(t, err, &e)
	require.True(t, e.Has("too_many_clauses"))
	require.True(t, e.Says("about ada"))
	require.False(t, opensearch.IsTransient(err))
	require.NotContains(t, err.Error(), "ada")

	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	err = open(t, opensearch.Config{Nodes: []string{down.URL}}).Do(t.Context(), http.MethodGet, "/", nil, nil)
	require.ErrorIs(t, err, opensearch.ErrUnavailable)
	require.True(t, opensearch.IsTransient(err))
	require.NotContains(t, err.Error(), "127.0.0.1")
}

func TestClient_EndsWithItsContext(t *testing.T) {
	canceled := make(chan struct{})
	url := server(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body) // so that the server sees the end of the connection
		<-r.Context().Done()
		close(canceled)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := open(t, opensearch.Config{Nodes: []string{url}}).Do(ctx, http.MethodPost, "/x", []byte("{}"), nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	<-canceled
}

func TestClient_VerifiesCertificatesAndSendsCredentials(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ada" || password != "s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte("{}"))
	}))
	s.StartTLS()
	t.Cleanup(s.Close)
	env := map[string]string{"OPENSEARCH_URL": strings.Replace(s.URL, "https://", "https://ada:s3cret@", 1)}
	cfg, _, err := opensearch.ConfigFromEnv(func(name string) string { return env[name] })
	require.NoError(t, err)
	err = open(t, cfg).Do(t.Context(), http.MethodGet, "/", nil, nil)
	require.ErrorIs(t, err, opensearch.ErrUnavailable)
	require.ErrorContains(t, err, "unknown authority")
	transport, ok := s.Client().Transport.(*http.Transport)
	require.True(t, ok)
	cfg.TLS = transport.TLSClientConfig
	require.NoError(t, open(t, cfg).Do(t.Context(), http.MethodGet, "/", nil, nil))
	cfg.Password = "wrong"
	err = open(t, cfg).Do(t.Context(), http.MethodGet, "/", nil, nil)
	require.Equal(t, http.StatusUnauthorized, opensearch.StatusOf(err))
	require.NotContains(t, err.Error(), "wrong")
}

func TestBulk_ReturnsTheResultOfEachItem(t *testing.T) {
	url := server(t, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "true", r.URL.Query().Get("require_alias"))
		_, _ = w.Write([]byte(`{"items":[{"index":{"status":201}},{"delete":{"status":404}},` +
			`{"index":{"status":429,"error":{"type":"rejected_execution_exception"}}},` +
			`{"index":{"status":409,"error":{"type":"version_conflict_engine_exception"}}}]}`))
	})
	c := open(t, opensearch.Config{Nodes: []string{url}})
	got, err := c.Bulk(t.Context(), []byte("{}\n"), 4)
	require.NoError(t, err)
	require.Equal(t, []opensearch.ItemResult{
		{Status: 201}, {Status: 404}, {Status: 429, Type: "rejected_execution_exception"},
		{Status: 409, Type: "version_conflict_engine_exception"},
	}, got)
	require.True(t, got[2].IsTransient())
	require.False(t, got[3].IsTransient())
	_, err = c.Bulk(t.Context(), []byte("{}\n"), 3)
	require.ErrorContains(t, err, "4 items, not 3")
}
