package e2e_test

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fixturePage is the page of the test fixtures.
const fixturePage = "../docs/fixtures.md"

// fixtureRow is a line of a table of requests: who sends which request, and what the response is.
type fixtureRow struct{ who, request, status, has, what string }

// readFixtures returns the keys of the page by name, and its requests.
func readFixtures(t *testing.T) (keys map[string]string, rows []fixtureRow) {
	t.Helper()
	page, err := os.ReadFile(fixturePage)
	require.NoError(t, err)
	keys = make(map[string]string)
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		switch {
		case len(cells) == 3 && strings.HasPrefix(cells[1], "`mk_live_"):
			keys[cells[0]] = strings.Trim(cells[1], "`")
		case len(cells) == 5 && strings.HasPrefix(cells[1], "`"):
			rows = append(rows, fixtureRow{cells[0], strings.Trim(cells[1], "`"), cells[2],
				strings.Trim(cells[3], "`"), cells[4]})
		}
	}
	return keys, rows
}

var fixtureRequest = regexp.MustCompile(`^(GET|POST) (/\S+)(?: \[([\w-]+): (.+?)\])?(?: (\S.*))?$`)

// send sends a request of the page.
func (f fixtureRow) send(t *testing.T, api *api) answer {
	t.Helper()
	m := fixtureRequest.FindStringSubmatch(f.request)
	require.NotNil(t, m, "%s: not a request", f.request)
	header := http.Header{}
	if m[3] != "" {
		header.Set(m[3], m[4])
	}
	var body []byte
	if m[5] != "" {
		body = []byte(m[5])
	}
	if strings.HasPrefix(m[5], "(1 MiB and 1 byte") {
		body = []byte(strings.Repeat(" ", 1<<20+1))
	}
	got, err := api.do(t.Context(), m[1], m[2], header, body)
	require.NoError(t, err, f.request)
	return got
}

func TestFixturesPage_EachLineGivesItsResponse(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir(), "--sample", "40")
	keys, rows := readFixtures(t)
	statuses := make(map[string]bool)
	for _, row := range rows {
		caller := p.api()
		if key, ok := keys[row.who]; ok {
			caller.key = key
		} else if row.who == "none" {
			caller.key = ""
		}
		got := row.send(t, caller)
		require.Equal(t, row.status, itoa(got.status), "%s: %s", row.request, got.body)
		require.Contains(t, string(got.body), row.has, row.request)
		if _, reason, ok := strings.Cut(row.what, "X-Miss-Reason: "); ok {
			require.Contains(t, got.header.Get("X-Miss-Reason"), strings.Trim(reason, "`"), row.request)
		}
		if strings.Contains(row.what, "free") {
			require.Equal(t, "0", got.header.Get("X-Credits-Charged"), row.request)
		}
		statuses[row.status] = true
	}
	for _, status := range strings.Fields("200 202 400 401 403 404 405 413 415 422 429 504") {
		require.True(t, statuses[status], "no line gives %s", status)
	}
	require.Len(t, keys, 7)

	t.Run("public keys read no record", func(t *testing.T) {
		for name, key := range keys {
			for _, row := range rows {
				if row.status != "200" || strings.HasPrefix(row.request, "GET /v1/usage") {
					continue
				}
				got := row.send(t, &api{base: p.BaseURL, key: key, client: newClient()})
				require.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests},
					got.status, "%s: %s", name, row.request)
			}
		}
	})
	p.stop(t)

	t.Run("a revoked key stays revoked, and nothing is created again", func(t *testing.T) {
		again := start(t, p.dataDir)
		var organizations []accountView
		again.musterJSON(t, &organizations, "account", "list", "--json")
		require.Len(t, organizations, 6, "the fixtures' and the development organization")
		got := (&api{base: again.BaseURL, key: keys["revoked"], client: newClient()}).mustGet(t, "/v1/usage", nil)
		require.Equal(t, http.StatusUnauthorized, got.status)
		again.stop(t)
	})
}
