package docs_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/docs"
	"muster/query-api/internal/search/clause"
)

func open(t *testing.T) *docs.Handler {
	t.Helper()
	h, err := docs.New(docs.Config{Clauses: clause.Page(), Reference: true})
	require.NoError(t, err)
	return h
}

func get(t *testing.T, h http.Handler, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(b)
}

func TestScript_MatchesPinnedVersion(t *testing.T) {
	h := open(t)
	plain := get(t, h, "/docs/assets/scalar.js")
	require.Empty(t, plain.Header.Get("Content-Encoding"))
	script := body(t, plain)
	require.Contains(t, script, "@scalar/api-reference")
	require.Greater(t, len(script), 1<<20)

	packed := get(t, h, "/docs/assets/scalar.js", "Accept-Encoding", "br;q=1.0, gzip;q=0.8")
	require.Equal(t, "gzip", packed.Header.Get("Content-Encoding"))
	unpacked, err := gzip.NewReader(packed.Body)
	require.NoError(t, err)
	got, err := io.ReadAll(unpacked)
	require.NoError(t, err)
	require.Equal(t, len(script), len(got))

	require.Empty(t, get(t, h, "/docs/assets/scalar.js", "Accept-Encoding",
		"gzip;q=0, identity").Header.Get("Content-Encoding"))
	again := get(t, h, "/docs/assets/scalar.js", "If-None-Match", packed.Header.Get("ETag"))
	require.Equal(t, http.StatusNotModified, again.StatusCode)
	require.Empty(t, body(t, again))
}
