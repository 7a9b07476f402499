package docs_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/docs"
	"muster/query-api/internal/search/clause"
)

func open(t *testing.T) *docs.Handler {
	t.Helper()
	h, err := docs.New(clause.Page())
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

func TestPages_LoadOnlyFromThisServer(t *testing.T) {
	h := open(t)
	loaded := regexp.MustCompile(`(?:src=|<link [^>]*href=)"([^"]*)"`)
	linked := regexp.MustCompile(`<a [^>]*href="([^"]*)"`)
	pages := 0
	for _, path := range h.Paths() {
		resp := get(t, h, path)
		require.Equal(t, http.StatusOK, resp.StatusCode, path)
		require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			continue
		}
		pages++
		policy := resp.Header.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'; script-src 'self'; style-src 'self'", path)
		require.NotContains(t, policy, "http", path)
		require.NotContains(t, policy, "eval", path)
		text := body(t, resp)
		require.NotContains(t, text, "{{", path)
		require.NotContains(t, text, "raw HTML omitted", path)
		require.NotRegexp(t, `<script(?: defer)?>| style="| on[a-z]+="`, text, "nothing that the policy forbids")
		for _, m := range loaded.FindAllStringSubmatch(text, -1) {
			require.True(t, h.Has(m[1]), "%s loads %s", path, m[1])
		}
		for _, m := range linked.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			switch {
			case target == "":
				require.Contains(t, text, `id="`+anchor+`"`, "%s links %s", path, m[1])
			case strings.HasPrefix(target, docs.Path):
				require.True(t, h.Has(target), "%s links %s", path, m[1])
			}
		}
	}
	require.Equal(t, 6, pages)
	require.Contains(t, body(t, get(t, h, "/docs/guides/search")), "minimum_should_match", "the table of clauses")
	require.Equal(t, http.StatusNotFound, get(t, h, "/docs/guides/none").StatusCode)
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
