package docs_test

import (
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/docs"
	"muster/query-api/internal/search/clause"
)

// openAll returns the documentation with the pages of the repository.
func openAll(t *testing.T, reference bool) *docs.Handler {
	t.Helper()
	h, err := docs.New(docs.Config{
		Clauses: clause.Page(), Pages: os.DirFS("../../../deploy/docs"), Reference: reference,
	})
	require.NoError(t, err)
	return h
}

var (
	linked   = regexp.MustCompile(`<a [^>]*href="([^"]*)"`)
	included = regexp.MustCompile(`<(?:img|script|link|form)[^>]* (?:src|href|action)="([^"]*)"`)
)

func TestPages_LoadOnlyFromThisServer(t *testing.T) {
	for name, h := range map[string]*docs.Handler{
		"guides only": open(t), "API": openAll(t, true), "admin": openAll(t, false),
	} {
		pages := make(map[string]string)
		for _, path := range h.Paths() {
			resp := get(t, h, path)
			require.Equal(t, http.StatusOK, resp.StatusCode, path)
			require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
			if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
				continue
			}
			policy := resp.Header.Get("Content-Security-Policy")
			require.Contains(t, policy, "default-src 'none'; script-src 'self'; style-src 'self'", path)
			require.NotContains(t, policy, "http", path)
			require.NotContains(t, policy, "eval", path)
			pages[path] = body(t, resp)
		}
		for path, text := range pages {
			require.NotContains(t, text, "{{", path)
			require.NotContains(t, text, "raw HTML omitted", path)
			require.NotRegexp(t, `<script(?: defer)?>| style="| on[a-z]+="`, text, "nothing that the policy forbids")
			if path != docs.Path || name == "admin" {
				require.Equal(t, 1, strings.Count(text, "<h1"), path)
			}
			for _, m := range included.FindAllStringSubmatch(text, -1) {
				require.True(t, h.Has(m[1]), "%s: %s loads %s", name, path, m[1])
			}
			for _, m := range linked.FindAllStringSubmatch(text, -1) {
				target, anchor, _ := strings.Cut(m[1], "#")
				if target == "" {
					target = path
				}
				switch {
				case strings.Contains(target, "://"), slices.Contains([]string{"/v1/openapi.json", "/explore"},
					target) && name != "admin":
				default:
					require.True(t, h.Has(target), "%s: %s links %s", name, path, m[1])
					if anchor != "" {
						require.Contains(t, pages[target], `id="`+anchor+`"`, "%s: %s links %s", name, path, m[1])
					}
				}
			}
		}
		if name == "guides only" {
			require.Len(t, pages, 8, "reference, list, search, guides")
		} else {
			require.Greater(t, len(pages), 60)
			require.Contains(t, pages["/docs/operators"], `<img src="/docs/images/status.png"`)
			require.Contains(t, pages["/docs/sources"], "(schemas/MAPPING.md)", "unserved files are text")
		}
		require.Contains(t, pages["/docs/guides/search"], "minimum_should_match", "the table of clauses")
		require.Equal(t, http.StatusNotFound, get(t, h, "/docs/guides/none").StatusCode)
	}
}

func TestPages_AreListedUnderMoreUnlessTheIndexLinksThem(t *testing.T) {
	h, err := docs.New(docs.Config{Pages: fstest.MapFS{
		"README.md":  {Data: []byte("# All\n\n## Operate\n\n- [Erasure](erasure.md)\n")},
		"erasure.md": {Data: []byte("# Erase people\n")},
		"new-page.md": {
			Data: []byte("# A new page\n\n## Twice\n\n## Twice\n\nOf [itself](#twice-1), [code](../x.go).\n"),
		},
	}})
	require.NoError(t, err)
	page := body(t, get(t, h, "/docs/new-page"))
	require.Regexp(t, `(?s)API guides.*Operate.*/docs/erasure.*More.*/docs/new-page" aria-current`, page)
	require.Contains(t, page, `<h2 id="twice-1">`)
	require.Contains(t, page, `Of <a href="#twice-1">itself</a>, code (deploy/x.go).`)
	require.Contains(t, body(t, get(t, h, "/docs")), `<h1 id="all">All</h1>`)

	_, err = docs.New(docs.Config{Pages: fstest.MapFS{"a.md": {Data: []byte("no title")}}})
	require.ErrorContains(t, err, "deploy/docs/a.md: no title")
	_, err = docs.New(docs.Config{Pages: fstest.MapFS{"search.md": {Data: []byte("# Search")}}})
	require.ErrorContains(t, err, "duplicate path /docs/search")
}

func find(t *testing.T, h http.Handler, query string) (paths []string, page string) {
	t.Helper()
	resp := get(t, h, "/docs/search?q="+url.QueryEscape(query))
	require.Equal(t, http.StatusOK, resp.StatusCode)
	page = body(t, resp)
	for _, m := range regexp.MustCompile(`<li><a href="([^"]*)">[^<]*</a><p>`).FindAllStringSubmatch(page, -1) {
		path, err := url.PathUnescape(m[1])
		require.NoError(t, err)
		paths = append(paths, path)
	}
	return paths, page
}

func TestSearch_FindsTheExpectedPageFirst(t *testing.T) {
	h := openAll(t, true)
	for query, want := range map[string]string{
		"erasure": "/docs/erasure", "Erasures": "/docs/erasure", "kubernetes": "/docs/kubernetes",
		"back up": "/docs/backup", "rate limits": "/docs/guides/errors#rate-limits",
		"status page": "/docs/operators#status-page",
		"own csv":     "/docs/csv", "muster_bus_lag_seconds": "/docs/metrics", "ÈRÀSURE": "/docs/erasure",
		"cursor": "/docs/guides/cursors", "sentinel redis": "/docs/accounts",
	} {
		paths, _ := find(t, h, query)
		require.NotEmpty(t, paths, query)
		require.True(t, strings.HasPrefix(paths[0], want), "%s: %v", query, paths)
	}
}

func TestSearch_IgnoresAccentsAndEscapesText(t *testing.T) {
	h, err := docs.New(docs.Config{Pages: fstest.MapFS{
		"one.md": {Data: []byte("# One\n\nIntroduction.\n\n## Cafés & bars\n\nNear the Zürich <quay>.\n\n" +
			"```sh\nmuster --x=\"<b>\" zurich\n```\n")},
		"two.md": {Data: []byte("# Two\n\nA bar.\n")},
	}})
	require.NoError(t, err)
	paths, page := find(t, h, "zurich")
	require.Equal(t, []string{"/docs/one#cafés--bars"}, paths)
	require.Contains(t, page, `the <mark>Zürich</mark> `)
	require.Contains(t, page, `--x=&#34;&lt;b&gt;&#34; <mark>zurich</mark>`)
	require.Contains(t, page, "One › Cafés &amp; bars")
	paths, _ = find(t, h, "cafe bars")
	require.Equal(t, []string{"/docs/one#cafés--bars"}, paths, "sections with all terms")
	paths, _ = find(t, h, "bar nonexistent")
	require.ElementsMatch(t, []string{"/docs/one#cafés--bars", "/docs/two"}, paths, "or with any, if no section has all")
	paths, page = find(t, h, `"><xyzzy>`)
	require.Empty(t, paths)
	require.NotContains(t, page, "<xyzzy")
	for _, query := range []string{"", " ", "-", "\xff", strings.Repeat("é", 5000), strings.Repeat("a b ", 5000)} {
		_, page = find(t, h, query)
		require.Contains(t, page, "<h1>Search</h1>")
	}
}
