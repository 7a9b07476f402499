package queryapi_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/schemas/event"
)

const (
	enrichPath   = "/v1/person/enrich"
	companyPath  = "/v1/company/enrich"
	networkPath  = "/v1/webset/network/person"
	codehostPath = "/v1/webset/codehost/person"
	searchPath   = "/v1/person/search"
)

// list returns a JSON array of n strings.
func list(n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(`"x",`, n), ",") + "]"
}

func TestInput_AllContentEncodingHeadersAreChecked(t *testing.T) {
	f := start(t, nil)
	for _, c := range []struct {
		codings []string
		want    int
	}{
		{nil, 200}, {[]string{"identity"}, 200}, {[]string{"Identity", "identity"}, 200}, {[]string{"gzip"}, 415},
		{[]string{"identity", "gzip"}, 415}, {[]string{"identity, zstd"}, 415},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.service.URL()+networkPath,
			strings.NewReader(`{"network":"x"}`))
		require.NoError(t, err)
		r.Header = http.Header{"Authorization": {"Bearer " + f.key}, "Content-Type": {"application/json"},
			"Content-Encoding": c.codings}
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, c.want, res.StatusCode, c.codings)
	}
}

func TestInput_BadInputGetsStatusAndHelpfulDetail(t *testing.T) {
	f := start(t, nil)
	foreign, err := event.GenerateAPIKey(rand.Reader)
	require.NoError(t, err)
	last := f.key[len(f.key)-1:]
	mistyped := strings.TrimSuffix(f.key, last) + map[bool]string{true: "1", false: "0"}[last == "0"]
	webset := f.newKey(queryapi.KeyOptions{Name: "websets only", Scopes: []string{event.ScopeWebset}})
	short := f.newKey(queryapi.KeyOptions{Name: "short", ExpiresAt: time.Now().Add(50 * time.Millisecond)})
	revoked := f.newKey(queryapi.KeyOptions{})
	for _, k := range f.accounts.Keys(f.organization.ID) {
		if strings.Contains(revoked, k.ID) {
			_, err := f.accounts.RevokeKey(t.Context(), k.ID)
			require.NoError(t, err)
		}
	}
	for _, bad := range []string{short, revoked} {
		waitForStatus(t, 401, func() response {
			return f.do("POST", enrichPath, `{"codehost":"x"}`, map[string]string{"Authorization": "Bearer " + bad})
		})
	}
	auth := func(value string) map[string]string { return map[string]string{"Authorization": value} }
	sql := url.QueryEscape(`x' OR 1=1; DROP TABLE lookups --`)
	mib := strings.Repeat(" ", 1<<20)

	for _, tc := range []struct {
		name   string
		method string
		path   string
		body   string
		header map[string]string
		status int
		detail []string
	}{
		// 404 and 405 come before everything else.
		{"unknown path", "POST", "/v1/person/enrch", "", auth(""), 404, []string{`did you mean "/v1/person/enrich"?`}},
		{"trailing slash", "POST", enrichPath + "/", `{}`, nil, 404, []string{enrichPath}},
		{"root", "POST", "/", "", auth(""), 404, []string{"no such path"}},
		{"double slash", "GET", "//v1/openapi.json", "", auth(""), 404, nil},
		{"an escaped slash", "POST", "/v1/person%2Fenrich", `{"codehost": "x"}`, nil, 404,
			[]string{`did you mean "/v1/person/enrich"?`}},
		{"an escaped letter", "GET", "/v1/%75sage", "", nil, 404, []string{`did you mean "/v1/usage"?`}},
		{"method", "GET", enrichPath, "", auth(""), 405, []string{"use POST"}},
		{"method of two", "DELETE", networkPath, "", auth(""), 405, []string{"use GET or POST"}},
		{"head", "PUT", "/v1/openapi.json", "", auth(""), 405, []string{"use GET"}},

		// 413 and 415 come before the key.
		{"2 MiB", "POST", enrichPath, `{"codehost":"` + mib + mib + `"}`, auth(""), 413, []string{"1048576 bytes"}},
		{"one byte over 1 MiB", "POST", enrichPath, mib + " ", auth(""), 413, []string{"1048576 bytes"}},
		{"no type", "POST", enrichPath, `{"codehost":"x"}`, map[string]string{"Content-Type": "", "Authorization": ""},
			415, []string{"Content-Type: application/json"}},
		{"wrong type", "POST", enrichPath, `codehost=x`,
			map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Authorization": ""}, 415,
			[]string{"application/json"}},
		{"wrong charset", "POST", enrichPath, `{}`,
			map[string]string{"Content-Type": "application/json; charset=latin1"}, 415, []string{"UTF-8"}},
		{"compressed", "POST", enrichPath, `{}`, map[string]string{"Content-Encoding": "gzip"}, 415,
			[]string{`Content-Encoding "gzip"`, "uncompressed"}},
		{"compressed after all", "POST", enrichPath, `{}`, map[string]string{"Content-Encoding": "identity, gzip"}, 415,
			[]string{`"gzip"`}},

		// Then the key, before the input is read.
		{"no key", "POST", enrichPath, `{`, auth(""), 401, []string{"missing API key", "Authorization: Bearer"}},
		{"no key, GET", "GET", networkPath, "", auth(""), 401, []string{"missing API key"}},
		{"other scheme", "POST", enrichPath, `{}`, auth("Basic " + f.key), 401, []string{"Bearer"}},
		{"wrong checksum", "POST", enrichPath, `{}`, auth("Bearer " + mistyped), 401,
			[]string{"wrong checksum", "copy it again"}},
		{"foreign key", "POST", enrichPath, `{}`, auth("Bearer " + foreign.Reveal()), 401, []string{"unknown API key"}},
		{"expired key", "POST", enrichPath, `{}`, auth("Bearer " + short), 401, []string{"expired"}},
		{"revoked key", "POST", enrichPath, `{}`, auth("Bearer " + revoked), 401, []string{"revoked"}},
		{"lacking scope", "POST", enrichPath, `{`, auth("Bearer " + webset), 403,
			[]string{"scope enrich", "has webset"}},

		// Bodies.
		{"empty body", "POST", enrichPath, "", nil, 422, []string{"empty"}},
		{"empty body without type", "POST", enrichPath, "", map[string]string{"Content-Type": ""}, 422,
			[]string{"empty"}},
		{"blank body", "POST", networkPath, " \n", nil, 400, []string{"empty"}},
		{"wrong JSON", "POST", enrichPath, `{"codehost": "x",}`, nil, 422, []string{"not valid JSON", "byte 16"}},
		{"cut JSON", "POST", enrichPath, `{"codehost": "x"`, nil, 422, []string{"ends too early"}},
		{"two values", "POST", enrichPath, `{"codehost": "x"} {}`, nil, 422, []string{"not valid JSON"}},
		{"not an object", "POST", enrichPath, `["x"]`, nil, 422, []string{"must be an object, not a list"}},
		{"null", "POST", networkPath, `null`, nil, 400, nil},
		{"wrong type of a field", "POST", enrichPath, `{"codehost": 5}`, nil, 422,
			[]string{"codehost must be a string, not a number"}},
		{"wrong type of a list", "POST", enrichPath, `{"codehost": "x", "websets": "codehost"}`, nil, 422,
			[]string{"websets must be a list, not a string"}},
		{"a long slug", "POST", companyPath, `{"network_slug": "` + strings.Repeat("a", 401) + `"}`, nil, 422,
			[]string{"at most 400 bytes"}},
		{"wrong type in a list", "POST", enrichPath, `{"codehost": "x", "websets": ["codehost", 1]}`, nil, 422,
			[]string{"websets[1] must be a string, not a number"}},
		{"misspelt field", "POST", enrichPath, `{"codehst": "x"}`, nil, 422,
			[]string{`unknown field "codehst"`, `did you mean "codehost"?`}},
		{"other case", "POST", enrichPath, `{"Codehost": "x"}`, nil, 422, []string{`did you mean "codehost"?`}},
		{"field of the other endpoint", "POST", companyPath, `{"network_username": "x"}`, nil, 422,
			[]string{`unknown field "network_username": known are company_id, domain, dry_run, email, fields, items, location, `}},
		{"misspelt field of a webset", "POST", codehostPath, `{"codehost": "x", "musthave": []}`, nil, 400,
			[]string{`did you mean "must_have"?`}},
		{"field twice", "POST", enrichPath, `{"codehost": "x", "codehost": "y"}`, nil, 422,
			[]string{`"codehost" appears twice`}},
		{"field twice by escape", "POST", enrichPath, `{"codehost": "x", "c\u006fdehost": "y"}`, nil, 422,
			[]string{`"codehost" appears twice`}},
		{"invalid UTF-8", "POST", enrichPath, "{\"codehost\": \"x\xff\"}", nil, 422,
			[]string{"not valid UTF-8", "byte 15"}},
		{"lone surrogate", "POST", enrichPath, `{"codehost": "\ud800"}`, nil, 422, nil},
		{"NUL", "POST", enrichPath, `{"codehost": "x\u0000"}`, nil, 422, []string{"codehost is not a username"}},
		{"raw NUL", "POST", enrichPath, "{\"codehost\": \"x\x00\"}", nil, 422, []string{"not valid JSON"}},
		{"deep", "POST", enrichPath, `{"x":` + strings.Repeat("[", 100_000), nil, 422, nil},

		// Person enrichment.
		{"no identifier", "POST", enrichPath, `{}`, nil, 422, []string{"codehost, network_username, email"}},
		{"only websets", "POST", enrichPath, `{"websets": ["network"]}`, nil, 422,
			[]string{"at least one of codehost"}},
		{"only nulls", "POST", enrichPath, `{"codehost": null, "email": null}`, nil, 422,
			[]string{"at least one of codehost"}},
		{"unknown webset", "POST", enrichPath, `{"codehost": "x", "websets": ["codehost", "microblog"]}`, nil, 422,
			[]string{`websets[1] is "microblog"`, "allowed are codehost, network"}},
		{"no webset", "POST", enrichPath, `{"codehost": "x", "websets": []}`, nil, 422, []string{"websets is empty"}},
		{"empty identifier", "POST", enrichPath, `{"codehost": " "}`, nil, 422, []string{"codehost is empty"}},
		{"empty next to a valid one", "POST", enrichPath, `{"codehost": "x", "network_username": ""}`, nil, 422,
			[]string{"network_username is empty"}},
		{"malformed and a valid one", "POST", enrichPath, `{"codehost": "x", "email": "missing"}`, nil, 422,
			[]string{"email is not an e-mail address"}},
		{"foreign host", "POST", enrichPath, `{"codehost": "https://evil.example/x"}`, nil, 422,
			[]string{"codehost is a URL of a foreign host"}},
		{"other platform", "POST", enrichPath, `{"codehost": "https://network.example/in/x"}`, nil, 422,
			[]string{"codehost is a URL of the platform network"}},
		{"company where a person is meant", "POST", enrichPath,
			`{"network_username": "https://network.example/company/acme"}`, nil, 422,
			[]string{"network_username is a company's URL"}},
		{"SQL", "POST", enrichPath, `{"codehost": "x' OR 1=1; DROP TABLE lookups --"}`, nil, 422,
			[]string{"codehost is not a username"}},
		{"SQL in an e-mail", "POST", enrichPath, `{"email": "x' OR 1=1 --"}`, nil, 422,
			[]string{"email is not an e-mail"}},
		{"unknown query parameter", "POST", enrichPath + "?codehost=x", `{"codehost": "x"}`, nil, 422,
			[]string{`unknown parameter "codehost"`}},

		// Company enrichment.
		{"no company identifier", "POST", companyPath, `{}`, nil, 422,
			[]string{"network_slug, network_id, network_url, company_id"}},
		{"person where a company is meant", "POST", companyPath, `{"network_url": "https://network.example/in/x"}`, nil,
			422, []string{"network_url is a person's URL", "such as https://network.example/company/acme"}},
		{"foreign company URL", "POST", companyPath,
			`{"network_slug": "acme", "network_url": "https://evil.example/company/x"}`, nil, 422,
			[]string{"network_url is not a URL of the professional network"}},
		{"URL as slug", "POST", companyPath, `{"network_slug": "network.example/company/acme"}`, nil, 422,
			[]string{"use network_url"}},
		{"empty id", "POST", companyPath, `{"company_id": ""}`, nil, 422, []string{"company_id is empty"}},
		{"NUL in an id", "POST", companyPath, `{"network_id": "1\u0000"}`, nil, 422,
			[]string{"network_id holds control characters"}},
		{"long id", "POST", companyPath, `{"company_id": "` + strings.Repeat("x", 401) + `"}`, nil, 422,
			[]string{"longer than 400 characters"}},
		{"long name", "POST", companyPath, `{"name": "` + strings.Repeat("é", 401) + `"}`, nil, 422,
			[]string{"name is longer than 400 characters"}},
		{"long slug of a few characters", "POST", companyPath, `{"network_slug": "` + strings.Repeat("é", 201) + `"}`, nil,
			422, []string{"at most 400 bytes"}},
		{"username with a slash", "POST", enrichPath, `{"codehost": "a/b"}`, nil, 422,
			[]string{"codehost is neither a username, which has no slash, nor a profile URL: give a username"}},

		// Search.
		{"clause next to query", "POST", searchPath, `{"match_all": {}}`, nil, 400,
			[]string{`unknown field "match_all": put the clause into query: {"query": {"match_all": ...}}`}},
		{"bool next to query", "POST", searchPath + "/explain", `{"query": {"match_all": {}}, "bool": {}}`, nil, 400,
			[]string{`put the clause into query`}},
		{"aggregations", "POST", searchPath, `{"query": {"match_all": {}}, "aggs": {"a": {"stats": {}}}}`, nil, 400,
			[]string{`aggs.a.stats: unknown or unsupported aggregation type [stats]: use min, max`}},
		{"total hits", "POST", searchPath, `{"query": {"match_all": {}}, "track_total_hits": false}`, nil, 400,
			[]string{"total is exact"}},
		{"another kind of paging", "POST", searchPath, `{"query": {"match_all": {}}, "from": 10000}`, nil, 400,
			[]string{"next_cursor", "cursor"}},
		{"misspelt field of a search", "POST", searchPath, `{"qurey": {"match_all": {}}}`, nil, 400,
			[]string{`did you mean "query"?`}},
		{"field of no search", "POST", searchPath, `{"query": {"match_all": {}}, "colour": 1}`, nil, 400,
			[]string{`unknown field "colour": known are _source, aggregations, aggs, collapse, cursor`}},

		// Websets, GET.
		{"missing parameter", "GET", networkPath, "", nil, 400,
			[]string{`"network" is missing`, "username or a profile URL"}},
		{"empty parameter", "GET", networkPath + "?network=", "", nil, 400, []string{"network is empty"}},
		{"unknown parameter", "GET", networkPath + "?network=x&adons=codehost", "", nil, 400,
			[]string{`unknown parameter "adons"`, `did you mean "addons"?`}},
		{"parameter twice", "GET", networkPath + "?network=x&network=y", "", nil, 400,
			[]string{`"network" is given 2 times: give it once`}},
		{"list twice", "GET", networkPath + "?network=x&addons=codehost&addons=personal_email", "", nil, 400,
			[]string{"comma separated"}},
		{"bad escape", "GET", networkPath + "?network=%zz", "", nil, 400, []string{"query string is malformed"}},
		{"semicolon", "GET", networkPath + "?network=x;y", "", nil, 400, []string{"query string is malformed"}},
		{"parameter in bad UTF-8", "GET", networkPath + "?network=%ff", "", nil, 400, []string{"not valid UTF-8"}},
		{"parameter with NUL", "GET", networkPath + "?network=x%00", "", nil, 400,
			[]string{"network is not a username"}},
		{"SQL in a parameter", "GET", networkPath + "?network=" + sql, "", nil, 400,
			[]string{"network is not a username"}},
		{"SQL in the other parameter", "GET", codehostPath + "?codehost=" + sql, "", nil, 400,
			[]string{"codehost is not a username"}},
		{"SQL in addons", "GET", networkPath + "?network=x&addons=" + sql, "", nil, 400,
			[]string{"addons[0]", "allowed are codehost, personal_email"}},
		{"SQL in must_have", "GET", networkPath + "?network=x&must_have=" + sql, "", nil, 400,
			[]string{"must_have[0]", "experience"}},
		{"unknown add-on", "GET", networkPath + "?network=x&addons=codehost,email", "", nil, 400,
			[]string{`addons[1] is "email"`, "codehost, personal_email"}},
		{"unknown add-on after a blank", "GET", networkPath + "?network=x&addons=codehost,%20email", "", nil, 400,
			[]string{`addons[1] is "email"`}},
		{"add-on of the other webset", "GET", codehostPath + "?codehost=x&addons=codehost", "", nil, 400,
			[]string{"allowed are network"}},
		{"empty add-on", "GET", codehostPath + "?codehost=x&addons=", "", nil, 400, []string{"addons[0] is empty"}},
		{"unknown must_have", "GET", networkPath + "?network=x&must_have=jobs", "", nil, 400,
			[]string{`must_have[0] is "jobs"`, "experience"}},
		{"must_have of the other webset", "GET", networkPath + "?network=x&must_have=repos", "", nil, 400,
			[]string{`must_have[0] is "repos"`}},
		{"must_have without its add-on", "GET", networkPath + "?network=x&must_have=personal_email", "", nil, 400,
			[]string{"must_have names personal_email", "addons"}},
		{"foreign host in a parameter", "GET", networkPath + "?network=https%3A%2F%2Fevil.example%2Fin%2Fx", "", nil,
			400, []string{"network is a URL of a foreign host"}},
		{"slash gets an example", "GET", networkPath + "?network=in/x", "", nil, 400,
			[]string{"network is neither a username, which has no slash, nor a profile URL: give a username, or a profile's URL such as " +
				"https://network.example/in/jane"}},
		{"dry_run that is not a boolean", "GET", networkPath + "?network=x&dry_run=yes", "", nil, 400,
			[]string{`the parameter "dry_run" must be true or false`}},
		{"dry_run without a value", "GET", codehostPath + "?codehost=x&dry_run", "", nil, 400,
			[]string{`the parameter "dry_run" must be true or false`}},
		{"company in a parameter", "GET", networkPath + "?network=network.example/company/x", "", nil, 400,
			[]string{"network is a company's URL"}},

		// Websets, POST.
		{"missing field", "POST", networkPath, `{"addons": ["codehost"]}`, nil, 400, []string{"network is missing"}},
		{"null field", "POST", networkPath, `{"network": null}`, nil, 400, []string{"network is missing"}},
		{"number", "POST", codehostPath, `{"codehost": 583231}`, nil, 400,
			[]string{"codehost must be a string or a list of strings", "in quotes"}},
		{"empty list", "POST", networkPath, `{"network": []}`, nil, 400,
			[]string{"network is an empty list", "1 to 100"}},
		{"101 identifiers", "POST", networkPath, `{"network": ` + list(101) + `}`, nil, 400,
			[]string{"101", "at most 100"}},
		{"wrong type of an element", "POST", codehostPath, `{"codehost": ["x", 7]}`, nil, 400,
			[]string{"codehost[1] must be a string"}},
		{"number in a list", "POST", codehostPath, `{"codehost": [583231]}`, nil, 400,
			[]string{"codehost[0] must be a string, not a number: write a numeric user id in quotes"}},
		{"null element", "POST", codehostPath, `{"codehost": ["x", null]}`, nil, 400,
			[]string{"codehost[1] must be a string"}},
		{"bad element", "POST", networkPath, `{"network": ["x", "y", "https://evil.example/in/x"]}`, nil, 400,
			[]string{"network[2] is a URL of a foreign host"}},
		{"empty element", "POST", networkPath, `{"network": ["x", ""]}`, nil, 400, []string{"network[1] is empty"}},
		{"unknown add-on in a body", "POST", networkPath, `{"network": "x", "addons": ["codehosts"]}`, nil, 400,
			[]string{`addons[0] is "codehosts"`, `did you mean "codehost"?`}},
		{"must_have in a body", "POST", networkPath, `{"network": ["x"], "must_have": ["personal_email"]}`, nil, 400,
			[]string{"must_have names personal_email"}},
		{"addons as text", "POST", networkPath, `{"network": "x", "addons": "codehost"}`, nil, 400,
			[]string{"addons must be a list, not a string"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := *f
			f.t = t
			got := f.do(tc.method, tc.path, tc.body, tc.header)
			require.Equal(t, tc.status, got.status, got.body)
			detail := got.detail()
			for _, want := range tc.detail {
				require.Contains(t, detail, want)
			}
			for _, leak := range []string{"goroutine", "SELECT", "clickhouse", "127.0.0.1", "json:", ".go:", f.key} {
				require.NotContains(t, detail, leak)
			}
			require.Less(t, len(detail), 1500)
			require.Equal(t, tc.status == 401, got.header.Get("WWW-Authenticate") != "")
			require.Equal(t, tc.status == 405, got.header.Get("Allow") != "")
			require.Empty(t, got.header.Get("Retry-After"))
		})
	}
}

func TestInput_UnusualValidInputIsAccepted(t *testing.T) {
	f := start(t, nil)
	for _, body := range []string{
		`{"codehost":"missing"}`, ` {"codehost" : "@missing" , "websets" : ["network","codehost","network"]} `,
		`{"codehost":"missing","email":null,"websets":null}`,
		`{"email":"Missing+X@Example.ORG"}`, `{"codehost":"HTTPS://WWW.codehost.example/Missing/?tab=repos#x"}`,
		`{"network_username":"network.example/in/missing/"}`,
		`{"network_username":"\u5f20\u4f1f-\ud83d\ude00"}`,
	} {
		require.Equal(t, map[string]any{"websets_matched": []any{}, "person": map[string]any{}}, f.enrich(body), body)
	}
	for _, body := range []string{
		`{"company_id":"x' OR 1=1; DROP TABLE lookups --"}`, `{"network_slug":"missing"}`,
		`{"network_url":"network.example/company/missing/about"}`, `{"network_id":"12"}`,
		`{"company_id":"` + strings.Repeat("é", 400) + `"}`, `{"name":"` + strings.Repeat("é", 400) + `"}`,
		`{"network_slug":"` + strings.Repeat("%C3%A9", 200) + `"}`,
	} {
		require.Equal(t, map[string]any{"matched": false, "company": nil}, f.post(companyPath, body).json(), body)
	}
	for _, query := range []string{
		"?network=missing", "?network=missing&addons=codehost,personal_email&must_have=personal_email,experience",
		"?network=https%3A%2F%2Fnetwork.example%2Fin%2Fno%2562ody",
	} {
		require.Empty(t, f.get(networkPath+query).json(), query)
	}
	require.Equal(t, []map[string]any{{}, {}},
		f.post(codehostPath, `{"codehost":["missing","99999999999999999999"],"must_have":[],"addons":null}`).list())
	got := f.do("POST", enrichPath, `{"codehost":"missing"}`,
		map[string]string{"Content-Type": "Application/JSON; charset=UTF-8"})
	require.Equal(t, http.StatusOK, got.status)
	whole := `{"codehost":"missing"}`
	got = f.post(enrichPath, whole+strings.Repeat(" ", 1<<20-len(whole)))
	require.Equal(t, http.StatusOK, got.status, "a body of exactly 1 MiB fits")
}

func TestInput_ChunkedBodyIsLimited(t *testing.T) {
	f := start(t, nil)
	for size, want := range map[int]int{1 << 20: http.StatusUnprocessableEntity, 1<<20 +
		1: http.StatusRequestEntityTooLarge, 2 << 20: http.StatusRequestEntityTooLarge} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.service.URL()+enrichPath,
			io.LimitReader(endless('x'), int64(size)))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+f.key)
		resp, err := http.DefaultTransport.RoundTrip(req)
		require.NoError(t, err, "the response arrives although the body is too large")
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.StatusCode, fmt.Sprint(size))
	}
}

func TestInput_TruncatedBodyHasRateHeaders(t *testing.T) {
	f := start(t, nil)
	narrow := f.newKey(queryapi.KeyOptions{Name: "usage", Scopes: []string{event.ScopeUsage}})
	waitForStatus(t, http.StatusForbidden, func() response { // the service has read the change
		return f.do(http.MethodPost, enrichPath, `{"codehost":"x"}`,
			map[string]string{"Authorization": "Bearer " + narrow})
	})
	for _, c := range []struct {
		path, key, kind string
		status          int
	}{
		{enrichPath, f.key, "application/json", http.StatusUnprocessableEntity},
		{searchPath, f.key, "application/json", http.StatusBadRequest},
		{enrichPath, narrow, "application/json", http.StatusForbidden},
		{enrichPath, "not-a-key", "application/json", http.StatusUnauthorized},
		{enrichPath, f.key, "text/plain", http.StatusUnsupportedMediaType},
		{enrichPath, f.key, "", http.StatusUnsupportedMediaType},
	} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(f.service.URL(), "http://"))
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn,
			"POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: "+
				"21\r\n\r\n{\"cod", c.path, c.key, c.kind)
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		got, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, got.Body)
		require.NoError(t, err)
		require.NoError(t, errors.Join(got.Body.Close(), conn.Close()))
		require.Equal(t, c.status, got.StatusCode, "%+v", c)
		authorized := c.status != http.StatusUnauthorized && c.status != http.StatusUnsupportedMediaType
		for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit",
			"RateLimit-Policy"} {
			require.Equal(t, authorized, got.Header.Get(name) != "", "%+v: %s", c, name)
		}
	}
}

// It is read, because 413 and 415 are answered before 401.
func TestInput_UnauthenticatedBodyIsNotBuffered(t *testing.T) {
	f := start(t, nil)
	body := strings.Repeat(" ", 1<<20)
	send := func(contentType string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.service.URL()+enrichPath,
			strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", contentType)
		resp, err := http.DefaultTransport.RoundTrip(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	const calls = 32
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		require.Equal(t, http.StatusUnauthorized, send("application/json"))
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(calls<<20/2),
		"half of the bodies, with all that the test allocates")
	require.Equal(t, http.StatusUnsupportedMediaType, send("text/plain"))
	require.Equal(t, http.StatusUnsupportedMediaType, send(""))
}

// endless is a reader that repeats one byte forever.
type endless byte

// Read implements io.Reader.
func (e endless) Read(p []byte) (int, error) {
	copy(p, bytes.Repeat([]byte{byte(e)}, len(p)))
	return len(p), nil
}
