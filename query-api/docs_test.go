package queryapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDocs_AreServed(t *testing.T) {
	f := start(t, nil)
	anonymous := map[string]string{"Authorization": ""}
	for _, path := range []string{"/docs", "/docs/guides/webhooks", "/docs/assets/docs.css"} {
		got := f.do(http.MethodGet, path, "", anonymous)
		require.Equal(t, http.StatusOK, got.status, path)
		require.NotEmpty(t, got.header.Get("X-Request-Id"))
	}
	root := f.do(http.MethodGet, "/", "", anonymous)
	require.Equal(t, http.StatusOK, root.status, "redirected to /docs")
	require.Contains(t, root.body, "API reference")
	missing := f.do(http.MethodGet, "/docs/guides/webhoks", "", anonymous)
	require.Equal(t, http.StatusNotFound, missing.status)
	require.Contains(t, missing.detail(), "/docs/guides/webhooks")
	refused := f.do(http.MethodPost, "/docs", "{}", anonymous)
	require.Equal(t, http.StatusMethodNotAllowed, refused.status)
	require.Equal(t, "GET, HEAD", refused.header.Get("Allow"))
}
