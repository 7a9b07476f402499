package projector_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// What search_people has beside the tokens of a text is what ClickHouse derives
// from the tokens.
func TestSearchDerived(t *testing.T) {
	s := openStore(t)
	var recs []*record.Record
	for _, r := range worldRecords(t, 300, 7) {
		if r.Kind == record.KindNetworkPerson {
			recs = append(recs, r)
		}
	}
	s.insert("world", recs...)
	long := strings.Repeat("one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen ", 3)
	odd := []*record.Record{
		person(t, "none", "2025", `"username":"none"`),
		person(t, "withdrawn", "2025", `"deleted":true`),
		person(t, "signs", "2025", `"username":"signs","headline":"...","experience":[{"title":"!!"},{"title":"?"},{"company":{"name":"x"}},{"title":"a"}]`),
		person(t, "many", "2025", `"username":"many","headline":"`+long+`","experience":[{"title":"`+long+`"},{"title":"Two two TWO"},{"title":"seventeen"},{"company":{"name":"two"}}]`),
	}
	s.insert("odd", odd...)
	require.Greater(t, s.count("SELECT count() FROM search_people"), uint64(200))
	for _, f := range readmodel.SearchFields() {
		if f.Type != readmodel.SearchText {
			continue
		}
		flat := f.Tokens()
		if f.Nested != "" {
			flat = "arrayFlatten(" + f.Tokens() + ")"
		}
		again := func(list string) string {
			return "arrayFilter((t, n) -> n > 1, " + list + ", arrayEnumerateUniq(" + list + "))"
		}
		wrong := []string{
			f.Repeats() + " != " + again(flat),
			f.Length() + " != arrayCount(t -> t != '', " + flat + ")",
		}
		if f.Nested != "" {
			wrong = append(wrong,
				f.Spread()+" != "+again("arrayFlatten(arrayMap(e -> arrayDistinct(e), "+f.Tokens()+"))"),
				f.Values()+" != arrayCount(e -> notEmpty(e) AND e[1] != '', "+f.Tokens()+")",
				"length("+f.Tokens()+") != length("+f.Column+")")
		}
		for _, w := range wrong {
			require.Zero(t, s.count("SELECT count() FROM search_people WHERE "+w), w)
		}
		require.NotZero(t, s.count("SELECT sum("+f.Length()+") FROM search_people"), f.Path)
	}
	var headline, repeats, spread []string
	var titles [][]string
	var length, values uint32
	read := func(id string) {
		require.NoError(t, s.conn.QueryRow(t.Context(), "SELECT profile_headline_tokens, experience_title_tokens, experience_title_repeats, experience_title_spread, "+
			"experience_title_length, experience_title_values FROM search_people WHERE profile_id = '"+id+"'").Scan(&headline, &titles, &repeats, &spread, &length, &values))
	}
	read("signs")
	require.Equal(t, []string{""}, headline)
	require.Equal(t, [][]string{{""}, {""}, {}, {"a"}}, titles)
	require.Equal(t, []string{""}, repeats)
	require.Equal(t, []string{""}, spread)
	require.EqualValues(t, []any{uint32(1), uint32(1)}, []any{length, values})
	read("many")
	require.Len(t, headline, 54)
	require.Equal(t, []string{"two", "two", "two"}, titles[1])
	require.Len(t, repeats, 36+3+1)
	require.ElementsMatch(t, []string{"two", "seventeen"}, spread)
	require.EqualValues(t, []any{uint32(58), uint32(3)}, []any{length, values})
}
