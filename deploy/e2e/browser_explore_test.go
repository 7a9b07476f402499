//go:build browser

package e2e_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"muster/deploy/e2e/internal/browsertest"
)

// hostileName is text that would run as markup, and that reorders its neighbors.
const hostileName = `<img src=x onerror="window.pwned=1">\u202Etxe<script>window.pwned=1</script>`

// ingestHostile imports a person, an account and a company whose texts attack the page.
func ingestHostile(t *testing.T, p *platform) {
	t.Helper()
	dir := t.TempDir()
	for kind, text := range map[string]string{
		"network-person": `{"profile_id": "hostile", "username": "hostile-profile", "url": "javascript:window.pwned=1",
			"full_name": "` + strings.ReplaceAll(hostileName, `"`, `\"`) + `", "codehost_username": "hostile-account",
			"headline": "zyzzyva <b onclick=alert(1)>` + strings.Repeat("W", 3000) + `", "summary": "` +
			strings.Repeat("hostile \\u202e \\u0007 </em><em> ", 3000) + `",
			"experience": [{"summary": "\"><svg/onload=window.pwned=1>", "title": "\"><svg/onload=window.pwned=1>",
				"start": "0001", "end": null, "current": true, "company": {"name": "<i>&amp;", "network_url": "data:text/html,x"}},
				{"summary": "x", "start": "9999-12", "end": "1000"}],
			"certifications": [{"name": "c", "credential_url": "javascript:window.pwned=1"}],
			"languages": [{"language": "\u202E\u2066<u>", "proficiency": "'\"` + "`" + `"}], "connections": 9007199254740991,
			"last_updated": "2026-11-01T00:00:00Z"}`,
		"codehost-person": `{"user_id": 990001, "codehost_username": "hostile-account", "full_name": "__proto__", "url": "vbscript:x",
			"network_username": "hostile-profile", "blog": "JaVaScRiPt:window.pwned=1", "bio": "</bdi></main><h1>owned</h1>",
			"repos": [{"id": 1, "name": "__proto__", "full_name": "a/<script>", "language": "<style>*{display:none}</style>",
				"description": "` + strings.Repeat("x", 20000) + `", "updated_at": "2026-01-01"}], "last_updated": "2026-11-01T00:00:00Z"}`,
		"network-company": `{"company_id": "hostile", "network_slug": "hostile-company", "profile": {"name": "<iframe src=//evil.example>",
			"website": "javascript:window.pwned=1", "description": "<form action=//evil.example>"}, "last_updated": "2026-11-01"}`,
	} {
		file := filepath.Join(dir, kind+".ndjson")
		require.NoError(t, os.WriteFile(file, []byte(strings.Join(strings.Fields(text), " ")+"\n"), 0o600))
		p.muster(t, "ingest", kind, file)
	}
	p.muster(t, "status", "--wait")
}

// unharmed requires that no text of a record became markup, a script or a dangerous link.
func unharmed(t *testing.T, tab *browsertest.Tab, base string) {
	t.Helper()
	require.Equal(t, "undefined", tab.Eval("typeof window.pwned"))
	require.Equal(t, "0", tab.Eval(`document.querySelectorAll("main :is(script, img, iframe, style, b, u, svg svg, [onclick], [style])").length`))
	require.Equal(t, "true", tab.Eval(`[...document.links].every((a) => ["http:", "https:"].includes(new URL(a.href).protocol))`))
	require.Equal(t, "1", tab.Eval("document.querySelectorAll('h1').length"))
	require.Empty(t, tab.Strangers(base))
}

// narrow requires that the page fits narrow and wide windows.
func narrow(t *testing.T, tab *browsertest.Tab, width int64) {
	t.Helper()
	for _, w := range []int64{360, 820, width} {
		tab.Do("resize the window", chromedp.EmulateViewport(w, 900))
		require.Equal(t, "true", tab.Eval("document.documentElement.scrollWidth <= innerWidth"), "%s at %d pixels",
			tab.Eval("location.hash"), w)
	}
}

// exploreTab opens the page with the key of the platform.
func exploreTab(t *testing.T, p *platform, width, height int, dark bool) *browsertest.Tab {
	t.Helper()
	tab := browsertest.Open(t, width, height, dark)
	tab.Do("open /explore", chromedp.Navigate(p.BaseURL+"/explore"), chromedp.WaitVisible("#key-value"),
		chromedp.SendKeys("#key-value", p.APIKey+kb.Enter))
	tab.Eventually(`document.getElementById("said").textContent.includes("is kept until")`)
	return tab
}

// press clicks the button with a text.
func press(t *testing.T, tab *browsertest.Tab, text string) {
	t.Helper()
	find := `[...document.querySelectorAll("main button")].find((b) => b.textContent === ` + strconv.Quote(text) + ` && !b.disabled)`
	tab.Eventually(find + " !== undefined")
	tab.Eval(find + `.click()`)
}

func awaitText(tab *browsertest.Tab, text string) {
	tab.Eventually(`document.querySelector("main").innerText.includes(` + strconv.Quote(text) + `)`)
}

func TestBrowserExplore_SearchAsksBeforeItCosts(t *testing.T) {
	p := start(t, t.TempDir(), "--sample", "400")
	tab := browsertest.Open(t, 1280, 1000, false)
	tab.Do("open /explore without a key", chromedp.Navigate(p.BaseURL+"/explore"), chromedp.WaitVisible("#q"),
		chromedp.SendKeys("#q", "engineer"+kb.Enter))
	awaitText(tab, "missing API key")
	awaitText(tab, "Enter a key above")
	tab.Do("enter the key", chromedp.SendKeys("#key-value", p.APIKey+kb.Enter))
	awaitText(tab, "Costs at most 10 credits")
	require.Contains(t, tab.Eval(`document.querySelector(".call code").textContent`), p.BaseURL+"/v1/person/search")
	require.NotContains(t, tab.Eval("document.body.innerText"), p.APIKey, "a copied command has no key")
	require.Equal(t, "0", tab.Eval(`document.querySelectorAll(".results li").length`), "nothing is sent yet")
	tab.Accessible(&axe)
	press(t, tab, "Show the results")
	awaitText(tab, "Cost 10 credits.")
	tab.Eventually(`document.querySelectorAll(".results > li").length === 10`)
	tab.Accessible(&axe)
	narrow(t, tab, 1280)
	unharmed(t, tab, p.BaseURL)
	shoot(t, tab, "explore-search.png")
	press(t, tab, "Show the next results")
	tab.Eventually(`document.querySelectorAll(".results > li").length === 20`)
	require.Equal(t, "20", tab.Eval(`new Set([...document.querySelectorAll(".results h3 a")].map((a) => a.href)).size`))

	tab.Eval("sessionStorage.clear()")
	require.Equal(t, "0", tab.Eval("localStorage.length + document.cookie.length"))
}
