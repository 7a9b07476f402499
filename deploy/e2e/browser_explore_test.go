//go:build browser

package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
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
				"start": "0001", "end": null, "current": true,
				"company": {"name": "<i>&amp;", "network_url": "data:text/html,x"}},
				{"summary": "x", "start": "9999-12", "end": "1000"}],
			"certifications": [{"name": "c", "credential_url": "javascript:window.pwned=1"}],
			"languages": [{"language": "\u202E\u2066<u>", "proficiency": "'\"` + "`" + `"}],
			"connections": 9007199254740991,
			"last_updated": "2026-11-01T00:00:00Z"}`,
		"codehost-person": `{"user_id": 990001, "codehost_username": "hostile-account", "full_name": "__proto__",
			"url": "vbscript:x", "network_username": "hostile-profile", "blog": "JaVaScRiPt:window.pwned=1",
			"bio": "</bdi></main><h1>owned</h1>",
			"repos": [{"id": 1, "name": "__proto__", "full_name": "a/<script>",
				"language": "<style>*{display:none}</style>", "updated_at": "2026-01-01",
				"description": "` + strings.Repeat("x", 20000) + `"}], "last_updated": "2026-11-01T00:00:00Z"}`,
		"network-company": `{"company_id": "hostile", "network_slug": "hostile-company", "profile": {
			"name": "<iframe src=//evil.example>", "website": "javascript:window.pwned=1",
			"description": "<form action=//evil.example>"}, "last_updated": "2026-11-01"}`,
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
	const markup = `main :is(script, img, iframe, style, b, u, svg svg, [onclick], [style])`
	require.Equal(t, "0", tab.Eval(`document.querySelectorAll("`+markup+`").length`))
	require.Equal(t, "true",
		tab.Eval(`[...document.links].every((a) => ["http:", "https:"].includes(new URL(a.href).protocol))`))
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
	tab.Eventually(`document.getElementById("said").textContent.includes("is stored until")`)
	return tab
}

// press clicks the button with a text.
func press(t *testing.T, tab *browsertest.Tab, text string) {
	t.Helper()
	find := `[...document.querySelectorAll("main button")].find((b) => !b.disabled && b.textContent === ` +
		strconv.Quote(text) + `)`
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
	require.Equal(t, "5", tab.Eval(`document.querySelectorAll(".facet").length`))
	press(t, tab, "Show the next results")
	tab.Eventually(`document.querySelectorAll(".results > li").length === 20`)
	require.Equal(t, "20",
		tab.Eval(`new Set([...document.querySelectorAll(".results h3 a")].map((a) => a.href)).size`))

	const country = `document.querySelector(".facet[aria-label=Country] button")`
	count := tab.Eval(country + `.querySelector(".n").textContent`)
	tab.Eval(country + `.click()`)
	awaitText(tab, count+" people")
	tab.Eventually(country + `?.getAttribute("aria-pressed") === "true"`)
	require.Equal(t, "1", tab.Eval(`document.querySelectorAll(".chosen li").length`))
	tab.Eval(`document.querySelector(".chosen button").click()`)
	tab.Eventually(`document.querySelectorAll(".chosen li").length === 0`)

	// The server counts suggestions every few minutes; this page gets some at once.
	tab.Eval(`(() => { const send = window.fetch; window.fetch = async (path, options) =>
		path.startsWith("/v1/suggest?") ? new Response(JSON.stringify({values: [{value: path, count: 3}]}))
			: send(path, options); })()`)
	tab.Do("begin to write a filter", chromedp.SendKeys("#filter-value", "unit"))
	tab.Eventually(`document.querySelector("#filter-values option")?.value ===
		"/v1/suggest?field=profile.location.country.keyword&prefix=unit"`)
	const query = `{"nested": {"path": "experience", "query": {"term": {"experience.is_current": true}}}}`
	tab.Do("write a query", chromedp.Click("details > summary"), chromedp.WaitVisible("#dsl"),
		chromedp.SetValue("#dsl", "{"))
	press(t, tab, "Search with this query")
	awaitText(tab, "Not valid JSON")
	tab.Do("complete it", chromedp.SetValue("#dsl", query))
	press(t, tab, "Search with this query")
	tab.Eventually(`document.querySelector(".call code")?.textContent.includes('"experience.is_current":true')`)

	// An invalid query does not affect the next one.
	tab.Do("write an unsupported query", chromedp.SetValue("#dsl", `{"knn":{}}`))
	press(t, tab, "Search with this query")
	awaitText(tab, "the clause knn is not supported")
	require.Equal(t, "0", tab.Eval(`document.querySelectorAll(".facet").length`))
	tab.Do("replace it", chromedp.SetValue("#dsl", query))
	press(t, tab, "Search with this query")
	tab.Eventually(`document.querySelectorAll(".facet").length === 5`)
	require.Contains(t, tab.Eval(`document.querySelector(".call code").textContent`), `"highlight"`)

	// Facets that exceed a limit do not prevent a search.
	tab.Eval(`(() => { const send = window.fetch; window.fetch = async (path, options) =>
		options?.body?.includes('"aggs"') ? new Response('{"detail": "too many values"}', {status: 400})
			: send(path, options); })()`)
	press(t, tab, "Search with this query")
	awaitText(tab, "too many values")
	awaitText(tab, "Costs at most 10 credits")
	require.Equal(t, "0", tab.Eval(`document.querySelectorAll(".facet").length`))
	const write = `(() => { try { document.body.innerHTML = "x"; } catch (e) { return e.message; } })()`
	require.Contains(t, tab.Eval(write), "TrustedHTML", "the browser enforces the policy")
	tab.Eval("sessionStorage.clear()")
	require.Equal(t, "0", tab.Eval("localStorage.length + document.cookie.length"))
}

func TestBrowserExplore_ShowsPeopleAndCompanies(t *testing.T) {
	p := start(t, t.TempDir(), "--sample", "400")
	tab := exploreTab(t, p, 1280, 1000, false)
	tab.Do("find a person with the keyboard", chromedp.Navigate(p.BaseURL+"/explore#person"),
		chromedp.WaitVisible("#person-value"), chromedp.SendKeys("#person-value", "octavia"+kb.Enter))
	awaitText(tab, "Costs at most 1 credit")
	press(t, tab, "Show the person")
	awaitText(tab, "Compiler and data engineer")
	awaitText(tab, "Compilers.") // of the code host
	require.Equal(t, "2", tab.Eval(`document.querySelectorAll("article").length`), "both websets")
	press(t, tab, "Find linked accounts")
	tab.Eventually(`document.querySelector("meter") !== null`)
	require.Regexp(t, `^Confidence (9\d|100) %$`,
		tab.Eval(`document.querySelector("meter").getAttribute("aria-label")`))
	require.Contains(t, tab.Eval(`document.querySelector(".account:last-of-type details").textContent`), "link: mutual")
	require.Equal(t, "3", tab.Eval(`document.querySelectorAll("figure svg").length`), "timeline, languages, evidence")
	tab.Accessible(&axe)
	narrow(t, tab, 1280)
	unharmed(t, tab, p.BaseURL)
	tab.Do("show the top again", chromedp.Evaluate("scrollTo(0, 0)", nil))

	// A person with a longer career, for the picture.
	longest := strings.TrimSpace(p.muster(t, "sql", "--format", "tsv", `SELECT username FROM people
		WHERE profile_id IN (SELECT profile_id FROM positions GROUP BY profile_id HAVING count() BETWEEN 4 AND 6)
			AND match(full_name || headline, '^[ -~]+$') AND headline ILIKE '%engineer%'
			AND username IN (SELECT b_username FROM links
				WHERE a_platform = 'codehost' AND b_platform = 'network' AND confidence >= 0.9)
		ORDER BY username LIMIT 1`))
	_, longest, _ = strings.Cut(longest, "\n")
	tab.Do("open it", chromedp.Navigate(p.BaseURL+"/explore#person?network="+longest))
	press(t, tab, "Show the person")
	awaitText(tab, "Career")
	tab.Do("make room for the code host", chromedp.EmulateViewport(1280, 1500))
	tab.Eval(`document.querySelector(".subject").scrollIntoView()`)
	shoot(t, tab, "explore-person.png")
	tab.Do("end it", chromedp.EmulateViewport(1280, 1000))

	tab.Do("open a company", chromedp.Navigate(p.BaseURL+"/explore#company?network_slug=acme"))
	press(t, tab, "Show the company")
	awaitText(tab, "Manufacturing")
	tab.Accessible(&axe)
	unharmed(t, tab, p.BaseURL)
	// An answer with the headcount of a larger company.
	tab.Eval(`(() => { const send = window.fetch; window.fetch = async (path, options) => {
		const response = await send(path, options);
		if (!path.includes("company/enrich") || options.body.includes("dry_run")) return response;
		const answer = await response.json();
		if (answer.company) answer.company.headcount_by_year = {as_of: "2026-11-29T00:00:00Z", sample: 12,
			years: [{year: 2024, people: 7}, {year: 2025, people: 12}]};
		return new Response(JSON.stringify(answer), {status: 200, headers: response.headers});
	}; })()`)
	tab.Do("open it again", chromedp.Navigate(p.BaseURL+"/explore#company?company_id=c_71"))
	press(t, tab, "Show the company")
	awaitText(tab, "Headcount by year")
	require.Equal(t, "2", tab.Eval(`document.querySelectorAll("figure svg rect").length`))
	awaitText(tab, "of 12 with dated positions")
	tab.Accessible(&axe)
	tab.Do("open namesakes", chromedp.Navigate(p.BaseURL+"/explore#company?name=Quillon+Works"))
	press(t, tab, "Show the company")
	awaitText(tab, "2 candidates")
	tab.Do("send without asking", chromedp.Click("#auto"))
	tab.Eval(`document.querySelector("main li a").click()`)
	awaitText(tab, "Cost 1 credit.")
	awaitText(tab, "Quillon Works")
	tab.Do("search its people", chromedp.Click(`main p a[href*="f=Company"]`))
	awaitText(tab, "2 people")
	tab.Eventually(`document.querySelectorAll(".results > li").length === 2`)
	require.Empty(t, exploreProblems(tab))
}

// exploreProblems returns the problems of the page, but for statuses of the API that it handles.
func exploreProblems(tab *browsertest.Tab) []string {
	return slices.DeleteFunc(tab.Problems(), func(problem string) bool {
		return strings.HasPrefix(problem, "Failed to load resource: the server responded with a status of 4")
	})
}

func TestBrowserExplore_HostileRecordsStayText(t *testing.T) {
	p := start(t, t.TempDir(), "--sample", "40")
	ingestHostile(t, p)
	tab := exploreTab(t, p, 1280, 1000, false)
	tab.Do("send without asking", chromedp.Click("#auto"))
	tab.Do("find it", chromedp.Navigate(p.BaseURL+"/explore#search?q=zyzzyva"))
	tab.Eventually(`document.querySelectorAll(".results > li").length === 1`)
	name := "`" + hostileName + "`"
	require.Equal(t, "true", tab.Eval(`document.querySelector(".results h3").textContent === `+name),
		"the text, as it is")
	require.Equal(t, "bdi", tab.Eval(`document.querySelector(".results h3 a").firstElementChild.localName`), "isolated")
	unharmed(t, tab, p.BaseURL)
	narrow(t, tab, 1280)
	tab.Accessible(&axe)

	for _, view := range []string{"person?network=hostile-profile", "person?codehost=hostile-account"} {
		tab.Do("open "+view, chromedp.Navigate(p.BaseURL+"/explore#"+view))
		awaitText(tab, "Code host")
		awaitText(tab, "</bdi></main><h1>owned</h1>")
		tab.Eventually(`document.querySelectorAll(".account").length > 0`)
		require.Equal(t, "true", tab.Eval(`document.querySelector(".subject").textContent === `+name))
		require.Equal(t, "true", tab.Eval(`document.querySelector("main").textContent.length < 60000`),
			"long values are cut")
		tab.Eval(`document.querySelector("button.more").click()`)
		unharmed(t, tab, p.BaseURL)
		narrow(t, tab, 1280)
		tab.Accessible(&axe)
	}
	tab.Do("open the company", chromedp.Navigate(p.BaseURL+"/explore#company?network_slug=hostile-company"))
	awaitText(tab, "<iframe src=//evil.example>")
	unharmed(t, tab, p.BaseURL)
	for _, hash := range []string{
		"search?dsl=%7B%22match", "search?dsl=%7B%22knn%22%3A%7B%7D%7D", "__proto__?x", "constructor",
		"search?f=__proto__:x",
		"questions?n=0", "person?network=%00%E2%80%AE",
	} {
		tab.Do("open a hostile address", chromedp.Navigate(p.BaseURL+"/explore#"+hash), chromedp.WaitVisible("main h1"))
		unharmed(t, tab, p.BaseURL)
	}
	require.Empty(t, exploreProblems(tab))
}

func TestBrowserExplore_AnswersSavedQuestions(t *testing.T) {
	p := start(t, t.TempDir(), "--sample", "400")
	// One question is about calls, which reach its table after a second or so.
	got, err := p.api().do(t.Context(), http.MethodPost, "/v1/person/enrich", nil, []byte(`{"codehost":"octavia"}`))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.status)
	p.muster(t, "status", "--wait")
	tab := exploreTab(t, p, 1280, 1000, true)
	tab.Do("open the questions", chromedp.Navigate(p.BaseURL+"/explore#questions"))
	awaitText(tab, "Where do people go from one company to another?")
	for n := 1; n <= 20; n++ {
		tab.Do("open a question", chromedp.Navigate(p.BaseURL+"/explore#questions?n="+strconv.Itoa(n)))
		tab.Eventually(fmt.Sprintf(`document.querySelector("main article table") !== null &&
			document.querySelector("main article").textContent.includes("/explore/questions/%d.csv")`, n))
		require.Equal(t, "1", tab.Eval(`document.querySelectorAll("main figure svg").length`), "question %d", n)
		require.NotRegexp(t, "NaN|Infinity|undefined", tab.Eval(`document.querySelector("main article").outerHTML`),
			"question %d", n)
		require.Equal(t, "true", tab.Eval(`document.querySelectorAll("main figure svg :is(rect, path)").length > 0`),
			"question %d", n)
	}
	tab.Do("open lines", chromedp.Navigate(p.BaseURL+"/explore#questions?n=7"))
	tab.Eventually(`document.querySelector("main article table") !== null`)
	tab.Accessible(&axe)
	narrow(t, tab, 1280)
	unharmed(t, tab, p.BaseURL)
	tab.Scheme(true)
	shoot(t, tab, "explore-questions-dark.png")
	press(t, tab, "Download CSV")
	tab.Eventually(`document.getElementById("said").textContent === "question-7.csv is downloaded."`)

	// A key of API callers has no access.
	var made struct {
		Key string `json:"key"`
	}
	p.musterJSON(t, &made, "account", "key", "create", "Development", "--json")
	tab.Do("use it", chromedp.SetValue("#key-value", made.Key), chromedp.Click("#key button"))
	awaitText(tab, "lacks the scope analyze")
	require.Equal(t, "0", tab.Eval(`document.querySelectorAll("main article table").length`))
	require.Empty(t, exploreProblems(tab))
}

func TestBrowserExplore_WorksWithTheKeyboard(t *testing.T) {
	p := start(t, newDataDir(t), "--no-sample")
	tab := browsertest.Open(t, 1000, 800, false)
	tab.Do("open /explore", chromedp.Navigate(p.BaseURL+"/explore"), chromedp.WaitVisible("#q"),
		chromedp.KeyEvent(kb.Tab))
	require.Equal(t, "Skip to the content", tab.Eval("document.activeElement.textContent"))
	tab.Do("follow it", chromedp.KeyEvent(kb.Enter))
	tab.Eventually(`document.activeElement.id === "content"`)
	tab.Do("go to the search box", chromedp.KeyEvent("/"))
	require.Equal(t, "q", tab.Eval("document.activeElement.id"))
	for _, hash := range []string{"search", "person", "company", "questions"} {
		tab.Do("open "+hash, chromedp.Navigate(p.BaseURL+"/explore#"+hash), chromedp.WaitVisible("main h1"))
		require.Equal(t, "1", tab.Eval(`document.querySelectorAll(".bar nav [aria-current=page]").length`))
		tab.Accessible(&axe)
		narrow(t, tab, 1000)
	}
	require.Empty(t, exploreProblems(tab))
	require.Empty(t, tab.Strangers(p.BaseURL))
}
