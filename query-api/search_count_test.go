package queryapi_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/schemas/record"
)

// A call with size 0 returns a cursor that starts the first page.
func TestSearch_CursorOfSizeZeroStartsTheFirstPage(t *testing.T) {
	f := start(t, nil)
	contractPeople(f)
	for _, tc := range []struct {
		query, rest string
		total       int
	}{
		{`{"match":{"profile.headline":"counts"}}`, ``, 7},
		{`{"match":{"profile.headline":"counts"}}`, `,"sort":[{"profile.connections":"desc"}]`, 7},
		{`{"function_score":{"query":{"match":{"profile.headline":"counts"}},"random_score":{}}}`, ``, 7},
		{`{"match_phrase_prefix":{"profile.headline":"counts pa"}}`, ``, 7},
		{`{"match":{"profile.headline":"nothing"}}`, ``, 0},
	} {
		walk := func(size int, cursor any) map[string]any {
			body := fmt.Sprintf(`{"query":%s%s,"size":%d`, tc.query, tc.rest, size)
			if cursor != nil {
				body += fmt.Sprintf(`,"cursor":%q`, cursor)
			}
			return f.search(body + `}`)
		}
		count := walk(0, nil)
		require.EqualValues(t, tc.total, count["total"])
		require.Empty(t, count["results"])
		require.EqualValues(t, 0, count["credits_charged"])
		if tc.total == 0 {
			require.Nil(t, count["next_cursor"])
			continue
		}
		all := walk(10, count["next_cursor"])
		require.Len(t, all["results"], tc.total)
		require.EqualValues(t, tc.total, all["total"])
		require.Nil(t, all["next_cursor"])
		// The same from page to page, with counts in between.
		again := walk(0, count["next_cursor"])
		require.EqualValues(t, tc.total, again["total"])
		var found []string
		for cursor := again["next_cursor"]; cursor != nil; {
			page := walk(3, cursor)
			require.EqualValues(t, tc.total, page["total"])
			found, cursor = append(found, ids(page)...), page["next_cursor"]
		}
		require.Equal(t, ids(all), found, "%s: the walk is that of one seed", tc.query)
	}
	other := f.search(`{"query":{"match_all":{}},"size":0}`)["next_cursor"]
	require.Equal(t, http.StatusBadRequest,
		f.post("/v1/person/search", fmt.Sprintf(`{"query":{"match_none":{}},"cursor":%q}`, other)).status,
		"of another query")
}

// Counts that depend on addresses are limited, so that addresses cannot be guessed by counting.
func TestSearch_CountsOfAddressesAreLimited(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson,
		networkPerson("p1", "quinn", "2026-01-01", `"personal_email":"quinn@post.example"`))
	count := func(query string) response {
		return f.post("/v1/person/search", `{"query":`+query+`,"size":0}`)
	}
	const address = `{"range":{"profile.personal_email.keyword":{"gte":"q"}}}`
	for range 10 {
		require.EqualValues(t, 1, count(address).json()["total"])
	}
	refused := count(address)
	require.Equal(t, http.StatusTooManyRequests, refused.status, refused.body)
	require.Contains(t, refused.detail(), "e-mail addresses is limited to 10 calls a minute")
	seconds, err := strconv.Atoi(refused.header.Get("Retry-After"))
	require.NoError(t, err)
	require.Greater(t, seconds, 0)
	require.LessOrEqual(t, seconds, 60)
	require.Equal(t, http.StatusTooManyRequests, count(`{"query_string":{"query":"quinn"}}`).status, "all fields")
	cursor := f.search(`{"query":` + address + `,"size":1}`)
	require.EqualValues(t, 1, cursor["credits_charged"], "with results it is paid for")
	// A page after the last result has the total alone, too, and an explanation says whether terms exist.
	refused = f.post("/v1/person/search", `{"query":`+address+`,"from":9000,"size":1}`)
	require.Equal(t, http.StatusTooManyRequests, refused.status, refused.body)
	refused = f.post("/v1/person/search/explain", `{"query":{"prefix":{"profile.personal_email":"quinn"}}}`)
	require.Equal(t, http.StatusTooManyRequests, refused.status, refused.body)
	explained := f.post("/v1/person/search/explain", `{"query":{"term":{"profile_id":"p1"}}}`)
	require.Equal(t, http.StatusOK, explained.status, explained.body)
	require.EqualValues(t, 1, count(`{"term":{"profile_id":"p1"}}`).json()["total"], "without addresses it is free")
	key := f.key
	f.key = f.newKey(queryapi.KeyOptions{Name: "another"})
	// each key has a separate limit, once the service knows it
	waitForStatus(t, http.StatusOK, func() response { return count(address) })
	f.key = key
	require.Equal(t, http.StatusTooManyRequests, count(address).status)
}
