package queryapi_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

func TestIdempotency_StoredAnswerOfErasedPersonIsDropped(t *testing.T) {
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) { d.Suppressed = set })
	answersOfTheErased(t, f, set, f.service.URL(), f.service.URL())
}

// Most erasures name a username or an address, and the IDs are resolved later: stored responses are
// checked by all identifiers.
func TestIdempotency_ErasureByUsernameOrEmailDropsStoredAnswers(t *testing.T) {
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) { d.Suppressed = set })
	f.insert(record.KindNetworkPerson,
		networkPerson("p1", "octavia", "2026-01-01",
			`"emails":["octavia@x.example"],"profile":{"headline":"engineer"}`),
		networkPerson("p2", "juno", "2026-01-01", `"emails":["juno@x.example"],"profile":{"headline":"engineer"}`))
	f.insert(record.KindCodehostPerson, codehostPerson(7, "lin", "2026-01-01", `"network_username":"octavia"`),
		codehostPerson(8, "ada", "2026-01-01"), codehostPerson(9, "zed", "2026-01-01"))
	f.insert(record.KindAccountLink, accountLink("zed", "octavia", "manual", "2026-01-01"))
	calls := []struct{ path, body string }{
		{networkPath, `{"network":"octavia"}`}, {networkPath, `{"network":["juno","octavia"]}`},
		{networkPath, `{"network":"juno"}`},
		{"/v1/person/enrich", `{"network_username":"octavia","websets":["network"]}`},
		{"/v1/person/enrich", `{"codehost":"lin","websets":["codehost"]}`},
		{"/v1/person/enrich", `{"codehost":"ada","websets":["codehost"]}`},
		{"/v1/webset/codehost/person", `{"codehost":"lin","addons":["network"]}`},
		{"/v1/person/search", `{"query":{"term":{"network_username.keyword":"octavia"}}}`},
		{"/v1/person/search", `{"query":{"match_all":{}}}`},
		{"/v1/person/enrich", `{"codehost":"zed","websets":["codehost"]}`},
		{"/v1/person/enrich", `{"items":[{"codehost":"ada"},{"email":"octavia@x.example","websets":["network"]}]}`},
	}
	// replayed returns the calls whose stored response is returned.
	replayed := func() []int {
		var out []int
		for i, c := range calls {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.service.URL()+c.path,
				strings.NewReader(c.body))
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+f.key)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Idempotency-Key", "k"+strconv.Itoa(i))
			r := f.send(req)
			require.Equal(t, http.StatusOK, r.status, "%s: %s", c.body, r.body)
			if r.header.Get("Idempotent-Replayed") == "true" {
				out = append(out, i)
			}
		}
		return out
	}
	require.Empty(t, replayed())
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, replayed())
	erase(t, set, suppress.NetworkUsername, "octavia")
	require.Equal(t, []int{2, 5}, replayed())
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, replayed(), "without her")
	erase(t, set, suppress.UserID, "9")
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 10}, replayed())
	erase(t, set, suppress.Email, "juno@x.example")
	require.Equal(t, []int{0, 3, 4, 5, 6, 7, 9, 10}, replayed())
}

// answersOfTheErased makes calls at one replica and repeats them at another.
func answersOfTheErased(t *testing.T, f *fixture, set *suppress.Set, first, second string) {
	t.Helper()
	f.insert(record.KindNetworkPerson, networkPerson("p1", "octavia", "2026-01-01"),
		networkPerson("p2", "juno", "2026-01-01"))
	f.insert(record.KindCodehostPerson, codehostPerson(7, "lin", "2026-01-01",
		`"commits":[{"sha":"ab12","author_date":"2026-02-03","author_email":"ada@example.com","message":"more"}]`))
	const octavia, juno, lin = `{"network":"octavia"}`, `{"network":"juno"}`, `{"codehost":"lin"}`
	call := func(url, path, body string) response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+f.key)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", "k"+body)
		return f.send(req)
	}
	paths := map[string]string{octavia: networkPath, juno: networkPath, lin: "/v1/webset/codehost/person"}
	answers := make(map[string]string)
	for body, path := range paths {
		r := call(first, path, body)
		require.Equal(t, http.StatusOK, r.status, r.body)
		require.Empty(t, r.header.Get("Idempotent-Replayed"))
		answers[body] = r.body
	}
	repeated := func(want map[string]bool) {
		t.Helper()
		for body, path := range paths {
			r := call(second, path, body)
			require.Equal(t, http.StatusOK, r.status, r.body)
			require.Equal(t, want[body], r.header.Get("Idempotent-Replayed") == "true", "%s: %s", body, r.body)
			require.Equal(t, want[body], r.body == answers[body], "%s: %s", body, r.body)
			answers[body] = r.body
		}
	}
	repeated(map[string]bool{octavia: true, juno: true, lin: true})
	erase(t, set, suppress.ProfileID, "p1")
	repeated(map[string]bool{juno: true, lin: true})
	require.Equal(t, "{}", answers[octavia])
	repeated(map[string]bool{octavia: true, juno: true, lin: true})
	require.Contains(t, answers[lin], "ada@example.com")
	erase(t, set, suppress.Email, "ada@example.com") // the eraser deletes its row
	require.NoError(t, f.conn.Exec(t.Context(), "DELETE FROM codehost_commits WHERE sha = 'ab12'"))
	f.inserts++
	f.build(7)
	repeated(map[string]bool{octavia: true, juno: true})
	require.NotContains(t, answers[lin], "ada@example.com")
	repeated(map[string]bool{octavia: true, juno: true, lin: true})
}
