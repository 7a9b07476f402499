package project_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/projector/internal/projectortest"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// Compares with ClickHouse expressions over the tokens.
func TestSearchPeople_DerivedColumnsEqualClickHouse(t *testing.T) {
	s := projectortest.OpenStore(t)
	recs := projectortest.WorldPeople(t)
	s.Insert("world", recs...)
	long := strings.Repeat("one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "+
		"sixteen seventeen eighteen ", 3)
	odd := []*record.Record{
		projectortest.Person(t, "none", "2025", `"username":"none"`),
		projectortest.Person(t, "withdrawn", "2025", `"deleted":true`),
		projectortest.Person(
			t,
			"signs",
			"2025",
			`"username":"signs","headline":"...","experience":[{"title":"!!"},{"title":"?"},`+
				`{"company":{"name":"x"}},{"title":"a"}]`,
		),
		projectortest.Person(t, "many", "2025", `"username":"many","headline":"`+long+`","experience":[{"title":"`+long+
			`"},{"title":"Two two TWO"},{"title":"seventeen"},{"company":{"name":"two"}}]`),
	}
	s.Insert("odd", odd...)
	require.Greater(t, s.Count("SELECT count() FROM search_people"), uint64(200))
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
			require.Zero(t, s.Count("SELECT count() FROM search_people WHERE "+w), w)
		}
		require.NotZero(t, s.Count("SELECT sum("+f.Length()+") FROM search_people"), f.Path)
	}
	var headline, repeats, spread []string
	var titles [][]string
	var length, values uint32
	read := func(id string) {
		require.NoError(t, s.Conn.QueryRow(t.Context(), "SELECT profile_headline_tokens, experience_title_tokens, "+
			"experience_title_repeats, experience_title_spread, "+
			"experience_title_length, experience_title_values FROM search_people WHERE profile_id = '"+id+
			"'").Scan(&headline, &titles, &repeats, &spread, &length, &values))
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

// Each text has an index or a filter for tokens and whole values, and Times columns as SearchFields says.
func TestSearchPeople_HasTextIndexes(t *testing.T) {
	s := projectortest.OpenStore(t)
	recs := projectortest.WorldPeople(t)
	times := strings.Repeat("seven ", 7) + strings.Repeat("two ", 2) + strings.Repeat("nine ", 9) + "one " +
		strings.Repeat("long ", 1+70)
	s.Insert(
		"world",
		append(recs, projectortest.Person(t, "many", "2025", `"username":"many","headline":"`+times+`"`))...)
	var names []string
	require.NoError(t, s.Conn.QueryRow(t.Context(), "SELECT arraySort(groupArray(name)) FROM "+
		"system.data_skipping_indices WHERE database = currentDatabase() AND table = 'search_people'").Scan(&names))
	var want []string
	either := func(indexed bool, column string) {
		if indexed {
			want = append(want, column+"_index")
		} else {
			want = append(want, column+"_filter")
		}
	}
	for _, f := range readmodel.SearchFields() {
		if f.Type != readmodel.SearchText {
			continue
		}
		either(f.Indexed, f.Tokens())
		either(f.KeywordIndexed, f.Keyword())
		if f.Counted {
			want = append(want, f.TimesIndex())
			r := f.Repeats()
			bits := "arrayFlatten(arrayMap(w -> arrayMap(b -> concat(w, '\\0', toString(b)), " +
				"bitPositionsToArray(countEqual(" + r + ", w))), arrayDistinct(" + r + ")))"
			require.Zero(t, s.Count("SELECT count() FROM search_people WHERE arraySort("+f.Times()+") != arraySort("+
				bits+")"), f.Path)
			require.NotZero(t, s.Count("SELECT sum(length("+f.Times()+")) FROM search_people"), f.Path)
			require.NoError(t, s.Conn.Exec(t.Context(), "INSERT INTO search_people (profile_hash, profile_id, "+r+
				") SELECT 1, '"+f.Path+"', "+r+" FROM search_people WHERE "+f.Times()+" != [] ORDER BY length("+r+
				") DESC LIMIT 1"))
			require.Equal(t, uint64(1), s.Count("SELECT count() FROM search_people WHERE profile_hash = 1 AND "+
				"profile_id = '"+f.Path+"' AND "+f.Times()+" != [] AND arraySort("+f.Times()+") = arraySort("+bits+")"),
				"computed by the table if it is not sent")
		}
	}
	require.ElementsMatch(t, want, names)
	var found []string
	require.NoError(t, s.Conn.QueryRow(t.Context(), "SELECT arraySort(groupUniqArray(token)) FROM "+
		"mergeTreeTextIndex(currentDatabase(), 'search_people', 'profile_headline_times_text') "+
		"WHERE splitByChar('\\0', token)[1] IN ('seven', 'two', 'nine', 'one', 'long')").Scan(&found))
	require.Equal(t, []string{
		readmodel.Time("long", 1), readmodel.Time("long", 2), readmodel.Time("long", 6), // 70 = 64 + 4 + 2
		readmodel.Time("nine", 3), readmodel.Time("seven", 1), readmodel.Time("seven", 2), readmodel.Time("two", 0),
	}, found)
}
