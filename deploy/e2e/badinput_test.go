package e2e_test

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/event"
)

// badInput checks the status and detail of invalid requests to every endpoint. Inactive organizations are tested in
// accounts.
func badInput(t *testing.T, p *platform) {
	const enrich, company, network, codehost = "/v1/person/enrich", "/v1/company/enrich", "/v1/webset/network/person",
		"/v1/webset/codehost/person"
	endpoints := []string{enrich, company, network, codehost}
	valid := map[string]string{
		enrich: `{"codehost":"missing"}`, company: `{"company_id":"nothing"}`, network: `{"network":"missing"}`,
		codehost: `{"codehost":"missing"}`,
	}
	// Invalid input: 422 on the two enrich endpoints, 400 elsewhere.
	invalid := map[string]int{
		enrich: http.StatusUnprocessableEntity, company: http.StatusUnprocessableEntity, network: http.StatusBadRequest,
		codehost: http.StatusBadRequest,
	}
	a := p.api()
	refused := func(t *testing.T, got answer, status int, says ...string) {
		t.Helper()
		require.Equal(t, status, got.status, "%s", got.body)
		detail := got.detail(t)
		for _, s := range says {
			require.Contains(t, strings.ToLower(detail), strings.ToLower(s))
		}
		require.NotEmpty(t, got.header.Get("X-Request-Id"))
		for _, inner := range []string{"goroutine", ".go:", "127.0.0.1", "clickhouse", "DB::Exception", "FINAL"} {
			require.NotContains(t, detail, inner, "internals in an error")
		}
	}
	post := func(t *testing.T, a *api, path, body string) answer {
		t.Helper()
		got, err := a.do(t.Context(), http.MethodPost, path, nil, []byte(body))
		require.NoError(t, err)
		return got
	}

	t.Run("keys", func(t *testing.T) {
		foreign, err := event.GenerateAPIKey(rand.Reader)
		require.NoError(t, err)
		last := p.APIKey[len(p.APIKey)-1:]
		other := "0"
		if last == other {
			other = "1"
		}
		for name, c := range map[string]struct{ key, says string }{
			"none":                      {"", "Authorization"},
			"wrong checksum":            {p.APIKey[:len(p.APIKey)-1] + other, "key"},
			"wrong secret":              {strings.Replace(p.APIKey, p.APIKey[20:24], "AAAA", 1), "key"},
			"foreign, well-formed":      {foreign.Reveal(), "key"},
			"of another kind":           {p.OperatorToken, "key"},
			"with SQL":                  {"mk_live_' OR 1=1 --", "key"},
			"a very long one":           {strings.Repeat("k", 8<<10), "key"},
			"the right one, upper case": {strings.ToUpper(p.APIKey), "key"},
		} {
			t.Run(name, func(t *testing.T) {
				caller := &api{base: p.BaseURL, key: c.key, client: a.client}
				for _, path := range endpoints {
					got := post(t, caller, path, valid[path])
					refused(t, got, http.StatusUnauthorized, c.says)
					if c.key != "" {
						require.NotContains(t, string(got.body), c.key, "keys are kept secret")
					}
				}
			})
		}
		t.Run("another scheme", func(t *testing.T) {
			got, err := a.do(t.Context(), http.MethodPost, enrich, http.Header{"Authorization": {"Basic " + p.APIKey}},
				[]byte(valid[enrich]))
			require.NoError(t, err)
			refused(t, got, http.StatusUnauthorized, "Bearer")
		})
	})

	t.Run("bodies", func(t *testing.T) {
		for name, c := range map[string]struct {
			body string
			says []string
		}{
			"empty":                    {"", nil},
			"white space":              {" \n", nil},
			"wrong JSON":               {`{`, []string{"JSON"}},
			"two values":               {`{} {}`, []string{"JSON"}},
			"a list":                   {`[]`, []string{"object"}},
			"null":                     {`null`, nil},
			"a field twice":            {`{"codehost":"a","codehost":"b","network":"a"}`, []string{"codehost"}},
			"invalid UTF-8":            {"{\"codehost\":\"\xff\xfe\"}", []string{"UTF-8"}},
			"none of the identifiers":  {`{}`, nil},
			"misspelled field":         {`{"codehosst":"x","networkk":"y","company_idd":"z"}`, nil},
			"a very deep one":          {strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000), nil},
			"a name in another letter": {`{"Codehost":"x","Network":"x","Company_id":"x"}`, nil},
		} {
			t.Run(name, func(t *testing.T) {
				for _, path := range endpoints {
					refused(t, post(t, a, path, c.body), invalid[path], c.says...)
				}
			})
		}
		t.Run("over 1 MiB", func(t *testing.T) {
			body := `{"codehost":"` + strings.Repeat("a", 2<<20) + `"}`
			for _, path := range endpoints {
				refused(t, post(t, a, path, body), http.StatusRequestEntityTooLarge, "1048576")
			}
		})
		t.Run("a wrong content type", func(t *testing.T) {
			for _, path := range endpoints {
				got, err := a.do(t.Context(), http.MethodPost, path, http.Header{"Content-Type": {"text/plain"}},
					[]byte(valid[path]))
				require.NoError(t, err)
				refused(t, got, http.StatusUnsupportedMediaType, "application/json")
			}
		})
	})

	hundredAndOne := `["` + strings.Repeat(`a","`, 100) + `a"]`
	for _, c := range []struct {
		name, path, body string
		says             []string
	}{
		{"nearest name", enrich, `{"codehosst":"x"}`, []string{"codehosst", `codehost`}},
		{"nearest name", company, `{"network_slugg":"x"}`, []string{"network_slugg", "network_slug"}},
		{"nearest name", network, `{"network":"x","adons":["codehost"]}`, []string{"adons", "addons"}},
		{"nearest name", codehost, `{"codehost":"x","must_hav":["bio"]}`, []string{"must_hav", "must_have"}},
		{"wrong type", enrich, `{"codehost":7}`, []string{"codehost", "string"}},
		{"wrong type", enrich, `{"codehost":"a","websets":"network"}`, []string{"websets"}},
		{"wrong type", company, `{"network_id":12}`, []string{"network_id", "string"}},
		{"wrong type", network, `{"network":{"a":1}}`, []string{"network"}},
		{"wrong type", codehost, `{"codehost":"a","addons":"network"}`, []string{"addons"}},
		{"unknown webset", enrich, `{"codehost":"a","websets":["codehost","microblog"]}`,
			[]string{"websets", "microblog", "network"}},
		{"no webset", enrich, `{"codehost":"a","websets":[]}`, []string{"websets"}},
		{"empty identifier", enrich, `{"codehost":""}`, []string{"codehost"}},
		{"empty identifier", network, `{"network":""}`, []string{"network"}},
		{"empty list", network, `{"network":[]}`, []string{"network"}},
		{"101 identifiers", network, `{"network":` + hundredAndOne + `}`, []string{"network", "100"}},
		{"101 identifiers", codehost, `{"codehost":` + hundredAndOne + `}`, []string{"codehost", "100"}},
		{"a bad element", network, `{"network":["fine","also-fine","https://elsewhere.example/in/x"]}`,
			[]string{"network", "2"}},
		{"a bad element", codehost, `{"codehost":["fine",""]}`, []string{"codehost", "1"}},
		{"a bad element", codehost, `{"codehost":["fine",null]}`, []string{"codehost", "1"}},
		{"unknown add-on", network, `{"network":"a","addons":["codehosts"]}`,
			[]string{"addons", "codehosts", "personal_email"}},
		{"unknown add-on", codehost, `{"codehost":"a","addons":["personal_email"]}`, []string{"addons", "network"}},
		{"unknown must_have", network, `{"network":"a","must_have":["repos"]}`,
			[]string{"must_have", "repos", "experience"}},
		{"must_have without its add-on", network, `{"network":"a","must_have":["personal_email"]}`,
			[]string{"must_have", "personal_email", "add-on"}},
		{"foreign host", enrich, `{"codehost":"https://elsewhere.example/x"}`, []string{"codehost"}},
		{"foreign host and a valid identifier", enrich,
			`{"codehost":"fine","network_username":"https://elsewhere.example/in/x"}`, []string{"network_username"}},
		{"foreign host", company, `{"network_url":"https://elsewhere.example/company/x"}`, []string{"network_url"}},
		{"foreign host", network, `{"network":"https://network.example.elsewhere.example/in/x"}`, []string{"network"}},
		{"foreign host", codehost, `{"codehost":"https://codehost.example@elsewhere.example/x"}`, []string{"codehost"}},
		{"another platform's host", network, `{"network":"https://codehost.example/x"}`, []string{"network"}},
		{"a company for a person", network, `{"network":"https://network.example/company/x"}`, []string{"network"}},
		{"a person for a company", company, `{"network_url":"https://network.example/in/x"}`, []string{"network_url"}},
		{"a person for a company, and a valid identifier", company,
			`{"company_id":"a","network_url":"https://network.example/in/x"}`, []string{"network_url"}},
		{"invalid email address", enrich, `{"email":"missing"}`, []string{"email"}},
		{"invalid email address and a valid name", enrich, `{"codehost":"a","email":"a@b@c"}`, []string{"email"}},
		{"a NUL byte", enrich, `{"codehost":"a\u0000b"}`, []string{"codehost"}},
		{"a NUL byte", company, `{"network_id":"a\u0000b"}`, []string{"network_id"}},
		{"a NUL byte", network, `{"network":["a","\u0000"]}`, []string{"network", "1"}},
		{"a NUL byte", codehost, `{"codehost":"%00"}`, []string{"codehost"}},
		{"a lone surrogate", network, `{"network":"\ud800"}`, nil},
		{"a long name", enrich, `{"codehost":"` + strings.Repeat("a", 10_000) + `"}`, []string{"codehost"}},
	} {
		t.Run(c.name+" on "+c.path, func(t *testing.T) {
			refused(t, post(t, a, c.path, c.body), invalid[c.path], c.says...)
		})
	}

	t.Run("queries", func(t *testing.T) {
		for name, c := range map[string]struct {
			path  string
			query string
			says  []string
		}{
			"missing":           {network, "", []string{"network"}},
			"empty":             {network, "network=", []string{"network"}},
			"twice":             {codehost, "codehost=a&codehost=b", []string{"codehost"}},
			"misspelled":        {codehost, "codehost=a&adons=network", []string{"adons", "addons"}},
			"unknown add-on":    {network, "network=a&addons=codehost,network", []string{"addons", "network"}},
			"unknown must_have": {codehost, "codehost=a&must_have=bio,%27%3B--", []string{"must_have"}},
			"invalid UTF-8":     {codehost, "codehost=%ff%fe", []string{"codehost"}},
			"NUL":               {network, "network=a%00b", []string{"network"}},
			"foreign host": {network, "network=" + url.QueryEscape("https://elsewhere.example/in/a"),
				[]string{"network"}},
		} {
			t.Run(name, func(t *testing.T) {
				refused(t, a.mustGet(t, c.path+"?"+c.query, nil), http.StatusBadRequest, c.says...)
			})
		}
	})

	t.Run("SQL in every parameter", func(t *testing.T) {
		tables := func() []string {
			return p.sql(t, "SELECT name FROM system.tables WHERE database = currentDatabase() ORDER BY name")
		}
		before := tables()
		for _, s := range []string{`' OR 1=1 --`, `'); DROP TABLE network_people; --`, `{k:String}`, "`a`", `\'`,
			`%' UNION ALL SELECT 1`, `x' AND sleep(3)='`} {
			// Such usernames are invalid; IDs may have any characters and match nothing.
			for path, names := range map[string][]string{enrich: {"codehost", "network_username", "email"},
				network: {"network"}, codehost: {"codehost"}} {
				for _, name := range names {
					got := a.mustPost(t, path, map[string]any{name: s})
					require.Contains(t, []int{http.StatusOK, invalid[path]}, got.status, "%s=%s: %s", name, s, got.body)
					if got.status == http.StatusOK {
						require.Contains(t, []string{"{}", `{"websets_matched":[],"person":{}}`}, string(got.body))
					}
				}
			}
			for _, name := range []string{"network_slug", "network_id", "company_id"} {
				got := a.mustPost(t, company, map[string]any{name: s})
				if got.status == http.StatusOK {
					require.JSONEq(t, `{"matched":false,"company":null}`, string(got.body))
				} else {
					refused(t, got, invalid[company], name)
				}
			}
			for _, name := range []string{"addons", "must_have"} {
				refused(t, a.mustPost(t, network, map[string]any{"network": "a", name: []string{s}}),
					http.StatusBadRequest, name)
				refused(t, a.mustGet(t, codehost, url.Values{"codehost": {"a"}, name: {s}}),
					http.StatusBadRequest, name)
			}
			refused(t, a.mustPost(t, enrich, map[string]any{"codehost": "a", "websets": []string{s}}),
				invalid[enrich], "websets")
		}
		require.Equal(t, before, tables())
	})

	t.Run("paths and methods", func(t *testing.T) {
		for path, method := range map[string]string{"/v1/nothing": http.MethodGet, "/v2/person/enrich": http.MethodPost,
			"/v1": http.MethodGet, "/v1/person/enrich/": http.MethodPost} {
			got, err := a.do(t.Context(), method, path, nil, nil)
			require.NoError(t, err)
			refused(t, got, http.StatusNotFound)
		}
		for path, method := range map[string]string{enrich: http.MethodGet, company: http.MethodDelete,
			network: http.MethodPut, codehost: http.MethodPatch} {
			got, err := a.do(t.Context(), method, path, nil, nil)
			require.NoError(t, err)
			refused(t, got, http.StatusMethodNotAllowed, "POST")
			require.NotEmpty(t, got.header.Get("Allow"))
		}
	})
}
