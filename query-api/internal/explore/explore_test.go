package explore_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/explore"
)

// maxWeight is the maximum size of all files of the page, each compressed, in bytes.
const maxWeight = 300 << 10

func get(t *testing.T, h http.Handler, path string) (*http.Response, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	resp := w.Result()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(body)
}

var loaded = regexp.MustCompile(`(?:src|href|from) ?=? ?"(\./|/explore/)?([^"#:]+\.(?:js|css|svg))"`)

func TestFiles_LoadOnlyEachOtherAndAreLight(t *testing.T) {
	h, err := explore.New()
	require.NoError(t, err)
	require.True(t, h.Has(explore.Path))
	weight, links := 0, 0
	for _, name := range h.Paths() {
		resp, body := get(t, h, name)
		require.Equal(t, http.StatusOK, resp.StatusCode, name)
		require.Regexp(t, "^text/(html|css|javascript); charset=utf-8$", resp.Header.Get("Content-Type"), name)
		require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"), name)
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		_, err := io.WriteString(zip, body)
		require.NoError(t, err)
		require.NoError(t, zip.Close())
		weight += packed.Len()
		for _, m := range loaded.FindAllStringSubmatch(body, -1) {
			require.True(t, h.Has(path.Join(explore.Path, m[2])) || m[1] == "" && m[2] == "/docs/assets/icon.svg",
				"%s loads %s", name, m[0])
			links++
		}
		// The sinks that turn text into markup or code.
		require.NotRegexp(t,
			`innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|srcdoc|localStorage`,
			body, name)
	}
	require.Greater(t, links, 10)
	t.Logf("%d bytes compressed", weight)
	require.Less(t, weight, maxWeight)
	resp, _ := get(t, h, "/explore/none.js")
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
}

func TestPage_IsKeptToThisServer(t *testing.T) {
	h, err := explore.New()
	require.NoError(t, err)
	resp, body := get(t, h, explore.Path)
	policy := strings.Split(resp.Header.Get("Content-Security-Policy"), "; ")
	require.Subset(t, policy,
		[]string{"default-src 'self'", "require-trusted-types-for 'script'", "trusted-types 'none'"})
	require.NotContains(t, resp.Header.Get("Content-Security-Policy"), "unsafe")
	require.NotRegexp(t, `<script(?: type="module")?>| style="| on[a-z]+="`, body, "nothing that the policy forbids")
}
