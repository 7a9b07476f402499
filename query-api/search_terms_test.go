package queryapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

func TestSearch_AbsentTermsAreFoundOnceTheyExist(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	query := func(sort string) string {
		return `{"query":{"multi_match":{"query":"quagga data"}},"size":1` + sort + `}`
	}
	all := func(sort string) []string {
		answer := f.search(query(sort))
		out := ids(answer)
		for answer["next_cursor"] != nil {
			answer = f.search(strings.TrimSuffix(query(sort), "}") +
				fmt.Sprintf(`,"cursor":%q}`, answer["next_cursor"]))
			out = append(out, ids(answer)...)
		}
		return out
	}
	const byID = `,"sort":[{"profile_id.keyword":"asc"}]`
	require.Equal(t, []string{"p1", "p2", "p3", "p5"}, all(byID))
	require.ElementsMatch(t, []string{"p1", "p2", "p3", "p5"}, all(""))
	require.EqualValues(t, 0, f.search(`{"query":{"multi_match":{"query":"quagga zebra"}}}`)["total"])
	require.EqualValues(t, 0, f.search(`{"query":{"query_string":{"query":"quagga zebra"}},"size":0}`)["total"])

	begun, scored := f.search(query(byID)), f.search(query(""))
	f.insert(record.KindNetworkPerson,
		`{"profile_id":"p9","last_updated":"2026-05-01","username":"quagga","full_name":"Quagga Zebra"}`)
	require.Equal(t, []string{"p1", "p2", "p3", "p5", "p9"}, all(byID))
	require.ElementsMatch(t, []string{"p1", "p2", "p3", "p5", "p9"}, all(""))
	require.EqualValues(t, 1, f.search(`{"query":{"multi_match":{"query":"quagga zebra"}}}`)["total"])
	require.EqualValues(t, 1, f.search(`{"query":{"query_string":{"query":"quagga zebra"}},"size":0}`)["total"])
	require.Equal(t, []string{"p9"},
		ids(
			f.search(
				`{"query":{"query_string":{"query":"network_url:quagga network_username:quagga"}},"sort":["_doc"]}`)))
	for sort, first := range map[string]map[string]any{byID: begun, "": scored} {
		var rest []string
		for answer := first; answer["next_cursor"] != nil; {
			answer = f.search(strings.TrimSuffix(query(sort), "}") +
				fmt.Sprintf(`,"cursor":%q}`, answer["next_cursor"]))
			rest = append(rest, ids(answer)...)
		}
		require.Len(t, rest, 3)
		require.NotContains(t, rest, "p9")
	}
}

func TestSearch_CountsRepeatedTerms(t *testing.T) {
	f := start(t, nil)
	for n := 1; n <= 20; n++ {
		words := strings.Repeat("data ", n) + strings.Repeat("other ", 20-n) // all of one length
		f.insert(record.KindNetworkPerson,
			fmt.Sprintf(
				`{"profile_id":"r%02d","last_updated":"2026-01-01","username":"r%d","headline":%q,"experience":`+
					`[{"title":%q,"description":%q},{"title":%q}]}`,
				n, n, words, words, words, words))
	}
	var want []string
	for n := 20; n >= 1; n-- {
		want = append(want, fmt.Sprintf("r%02d", n))
	}
	for _, field := range []string{"profile.headline", "experience.title", "experience.description"} {
		require.Equal(t, want, ids(f.search(`{"query":{"match":{"`+field+`":"data"}},"size":50}`)), field)
	}
}
