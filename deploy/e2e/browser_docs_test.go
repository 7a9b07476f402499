//go:build browser

package e2e_test

import (
	"flag"
	"strconv"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"muster/deploy/e2e/internal/browsertest"
)

// update writes the screenshots in deploy/docs/images.
var update = flag.Bool("update", false, "write the screenshots of the documentation")

// axe checks the accessibility of pages.
var axe browsertest.Axe

// shoot takes a screenshot for the documentation, and writes it with -update.
func shoot(t *testing.T, tab *browsertest.Tab, name string) {
	t.Helper()
	tab.Screenshot(picture(name), *update)
	if *update {
		noteTaken(t, name)
	}
}

// A new caller opens /docs, enters a key, sends an enrichment and sees the person, in dark and light mode, and with the
// keyboard only.
func TestBrowserDocs_CallFromThePage(t *testing.T) {
	p := start(t, t.TempDir(), "--sample", "100")
	const person = "octavia" // an example that is in the sample data

	tab := browsertest.Open(t, 1400, 1000, false)
	tab.Do("open /docs", chromedp.Navigate(p.BaseURL+"/docs"))
	tab.Eventually(`document.body.innerText.includes("Find a person by username or email")`)
	shoot(t, tab, "docs-reference.png")
	tab.Accessible(&axe)

	const token = `input[placeholder="Token"]`
	tab.Do("authorize", chromedp.WaitVisible(token), chromedp.SendKeys(token, p.APIKey))

	tab.Do("open the call", chromedp.Evaluate(`location.hash = "tag/enrichment/POST/v1/person/enrich"`, nil))
	const find = `[...document.querySelectorAll("button")].find((b) => b.innerText.includes("Test Request") && b.innerText.includes("/v1/person/enrich"))`
	tab.Eventually(find + " !== undefined")
	pageSnippets(t, tab, p.BaseURL+"/v1/person/enrich")
	tab.Eval(find + `.setAttribute("data-found", "")`)
	const body = `[role=dialog] .cm-content[contenteditable=true]`
	tab.Do("open the call", chromedp.Click(`button[data-found]`), chromedp.WaitVisible(body))
	asked := `{"codehost": "` + person + `", "websets": ["codehost", "network"]}`
	tab.Do("write a body and send it with Control and Enter", chromedp.Focus(body),
		chromedp.KeyEvent("a", chromedp.KeyModifiers(input.ModifierCtrl)),
		chromedp.Evaluate(`document.execCommand("insertText", false, `+strconv.Quote(asked)+`)`, nil),
		chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(input.ModifierCtrl)))
	tab.Eventually(`document.body.innerText.includes("200 OK") && document.body.innerText.includes("websets_matched")`)
	require.Contains(t, tab.Eval(`document.querySelector("[role=dialog]").innerText`), person)
	shoot(t, tab, "docs-answer.png")
	require.Empty(t, tab.Problems())
	require.Empty(t, tab.Strangers(p.BaseURL))
}

// pageSnippets selects each language of the call on the page.
func pageSnippets(t *testing.T, tab *browsertest.Tab, url string) {
	t.Helper()
	const picker = `[...document.querySelectorAll("button")].find((b) => b.innerText.replace(/\s+/g, " ") === "Shell Curl")`
	tab.Eventually(picker + " !== undefined")
	tab.Eval(picker + `.setAttribute("data-picker", "")`)
	for language, call := range map[string]string{
		"Go": `http.NewRequest("POST", requestUrl, payload)`, "JavaScript": "fetch('" + url + "'",
		"Python": "conn.request(",
		"Shell":  "curl " + url,
	} {
		tab.Do("open the languages", chromedp.ScrollIntoView("button[data-picker]"),
			chromedp.Click("button[data-picker]"))
		group := `[...document.querySelectorAll("[role=group]")].find((g) => g.innerText.startsWith("` + language +
			`") && g.querySelector("[role=option]"))`
		tab.Eventually(group + " !== undefined")
		tab.Eval(group + `.querySelector("[role=option]").click()`)
		tab.Eventually(`document.querySelector("button[data-picker]").closest(".scalar-card").innerText.includes(` +
			strconv.Quote(call) + `)`)
	}
}

// They have a dark mode, use this server's address in their code, and have a skip link.
func TestBrowserGuides_AreAccessible(t *testing.T) {
	p := start(t, t.TempDir(), "--no-sample")
	tab := browsertest.Open(t, 1200, 900, true)
	tab.Do("open the guide", chromedp.Navigate(p.BaseURL+"/docs/guides/search"), chromedp.WaitVisible("main h1"))
	require.Equal(t, "dark", tab.Eval("document.documentElement.dataset.theme"))
	require.Contains(t, tab.Eval("document.querySelector('main pre').innerText"), p.BaseURL+"/v1/person/search")
	shoot(t, tab, "docs-guide-dark.png")

	tab.Do("tab once, and press enter", chromedp.KeyEvent(kb.Tab))
	require.Equal(t, "Skip to the content", tab.Eval("document.activeElement.innerText"))
	tab.Do("follow it", chromedp.KeyEvent(kb.Enter))
	tab.Eventually(`document.activeElement.id === "content"`)
	for _, name := range []string{"search", "first-call", "cursors", "webhooks", "errors"} {
		tab.Do("open "+name, chromedp.Navigate(p.BaseURL+"/docs/guides/"+name), chromedp.WaitVisible("main h1"))
		require.Equal(t, "true", tab.Eval("document.documentElement.scrollWidth <= innerWidth"),
			"%s is not wider than the window", name)
		require.Equal(t, "1", tab.Eval("document.querySelectorAll('h1').length"))
		tab.Accessible(&axe)
	}
	require.Empty(t, tab.Problems())
	require.Empty(t, tab.Strangers(p.BaseURL))
}

// On the API in a wide window in dark mode, and on the admin address in a narrow one in light mode.
func TestBrowserPages_AreFoundWithTheKeyboard(t *testing.T) {
	p := start(t, t.TempDir(), "--no-sample")
	for base, size := range map[string]int{p.BaseURL: 1400, p.AdminURL: 480} {
		tab := browsertest.Open(t, size, 900, size > 1000)
		tab.Do("open the list", chromedp.Navigate(base+"/docs/pages"), chromedp.WaitVisible("main h1"))
		require.Equal(t, strconv.FormatBool(size > 1000), tab.Eval(`document.querySelector("details.pages").open`))
		tab.Accessible(&axe)
		tab.Do("search", chromedp.KeyEvent("/"), chromedp.KeyEvent("érasure RECEIPTS"), chromedp.KeyEvent(kb.Enter),
			chromedp.WaitVisible("main mark"))
		require.Contains(t, tab.Eval(`document.querySelector("main .results a").innerText`), "Erasure receipts")
		tab.Accessible(&axe)
		tab.Do("open the first result", chromedp.Focus(`main .results a`), chromedp.KeyEvent(kb.Enter),
			chromedp.WaitVisible("h2#erasure-receipts", chromedp.ByQuery))
		tab.Eventually(`location.pathname + location.hash === "/docs/erasure#erasure-receipts"`)
		for _, name := range []string{"erasure", "operators", "metrics", "benchmarks", "decisions"} {
			tab.Do("open "+name, chromedp.Navigate(base+"/docs/"+name), chromedp.WaitVisible("main h1"))
			require.Equal(t, "true", tab.Eval("document.documentElement.scrollWidth <= innerWidth"),
				"%s is not wider than the window", name)
			tab.Accessible(&axe)
		}
		require.Empty(t, tab.Problems())
		require.Empty(t, tab.Strangers(base))
	}
}
