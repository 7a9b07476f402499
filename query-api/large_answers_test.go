package queryapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/schemas/record"
)

// largePerson is a record of 900 KB.
func largePerson() string {
	return fmt.Sprintf(`{"profile_id":"big","last_updated":"2026-01-01","username":"big","summary":%q}`,
		strings.Repeat("lorem ipsum ", 75_000))
}

// listOf returns a list that names a person n times.
func listOf(n int) string { return `{"network":["` + strings.Repeat(`big","`, n-1) + `big"]}` }

func TestLargeAnswers_RejectedCallIsFree(t *testing.T) {
	f := start(t, func(c *queryapi.Config, _ *queryapi.Deps) { c.ResponseBytes = 4 << 20 })
	f.insert(record.KindNetworkPerson, largePerson())
	for range 4 { // memory is released
		r := waitForStatus(t, http.StatusOK, func() response { return f.post(networkPath, listOf(5)) })
		require.Len(t, r.list(), 5)
		require.Equal(t, 5, charged(t, r))
	}
	others := []string{}
	names := []string{}
	for i := range 8 {
		names = append(names, fmt.Sprintf("big%d", i))
		others = append(others, strings.Replace(largePerson(), `"big"`, fmt.Sprintf(`"big%d"`, i), 2))
	}
	search := `{"query":{"match_all":{}}}`
	require.Equal(t, http.StatusOK, f.post("/v1/person/search", search).status)
	f.insert(record.KindNetworkPerson, others...)
	r := f.post(networkPath, `{"network":["`+strings.Join(names, `","`)+`"]}`)
	require.Equal(t, http.StatusInternalServerError, r.status, "as if the store were unavailable")
	require.Equal(t, "2", r.header.Get("Retry-After"))
	require.Contains(t, r.detail(), "fewer records")
	require.NotContains(t, f.log.String(), `"level":"ERROR"`)
	require.Equal(t, http.StatusServiceUnavailable, f.post("/v1/person/search", search).status)
	require.Equal(t, http.StatusOK,
		f.post("/v1/person/search", `{"query":{"match_all":{}},"_source":["profile.full_name"]}`).status)
	f.spends(4*5 + 1 + 9)
}

// They would evict the stored responses of other organizations.
func TestLargeAnswers_AreNotStored(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, largePerson())
	for n, kept := range map[int]bool{10: true, 20: false} {
		for i := range 2 {
			r := f.do(http.MethodPost, networkPath, listOf(n), idempotent(fmt.Sprint(n)))
			require.Equal(t, http.StatusOK, r.status)
			require.Equal(t, kept && i > 0, r.header.Get("Idempotent-Replayed") == "true", n)
		}
	}
	f.spends(10 + 20 + 20)
}
