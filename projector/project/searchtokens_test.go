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
			`"username":"signs","headline":"...","personal_email":"`+strings.Repeat("-", 300)+`","experience":[{"title":"!!"},{"title":"?"},`+
				`{"company":{"name":"x"}},{"title":"a"}]`,
		),
		projectortest.Person(t, "many", "2025", `"username":"many","headline":"`+long+`","personal_email":"x.example `+
			strings.Repeat("y", 260)+`","experience":[{"title":"`+long+
			`"},{"title":"Two two TWO"},{"title":"seventeen"},{"company":{"name":"two"}}]`),
	}
	s.Insert("odd", odd...)
	require.Greater(t, s.Count("SELECT count() FROM search_people"), uint64(200))
	repeats := make(map[string][]string) // expressions by column
	for _, f := range readmodel.SearchFields() {
		if f.Linked { // not in the table
			continue
		}
		if f.Type != readmodel.SearchText {
			continue
		}
		flat := f.Tokens()
		if f.Nested != "" {
			flat = "arrayFlatten(" + f.Tokens() + ")"
		}
		wrong := []string{"has(" + flat + ", '')"}
		if f.Nested != "" {
			wrong = append(wrong, "length("+f.Tokens()+") != length("+f.Column+")")
		}
		repeats[f.Repeats()] = append(repeats[f.Repeats()], repeatsOf(f)...)
		for _, w := range wrong {
			require.Zero(t, s.Count("SELECT count() FROM search_people WHERE "+w), w)
		}
		require.NotZero(t, s.Count("SELECT sum(length("+flat+")) FROM search_people"), f.Path)
	}
	require.Len(t, repeats, 5)
	for column, lists := range repeats {
		require.Zero(t, s.Count("SELECT count() FROM search_people WHERE arraySort("+column+") != arraySort(arrayConcat("+
			strings.Join(lists, ", ")+"))"), column)
		require.NotZero(t, s.Count("SELECT sum(length("+column+")) FROM search_people"), column)
	}
	var text, email string
	var headline, address, whole []string
	var again []uint64
	var titles [][]string
	read := func(id string) {
		require.NoError(t, s.Conn.QueryRow(t.Context(), "SELECT profile_headline, profile_headline_tokens, "+
			"profile_personal_email, profile_personal_email_tokens, experience_title, experience_title_tokens, "+
			"experience_title_repeats FROM search_people WHERE profile_id = '"+id+
			"'").Scan(&text, &headline, &email, &address, &whole, &titles, &again))
	}
	read("signs")
	require.Equal(t, "...", text)
	require.Empty(t, headline)
	require.Equal(t, strings.Repeat("-", 300), email, "without tokens, a long text shows that it is present")
	require.Empty(t, address)
	require.Equal(t, []string{"!!", "?", "", "a"}, whole)
	require.Equal(t, [][]string{{}, {}, {}, {"a"}}, titles)
	require.Empty(t, again)
	read("many")
	require.Equal(t, long, text, "the subfield .code needs the whole text")
	require.Len(t, headline, 54)
	require.Empty(t, email, "too long for .keyword")
	require.Equal(t, []string{"x.example", strings.Repeat("y", 255), "yyyyy"}, address)
	require.Equal(t, []string{"two", "two", "two"}, titles[1])
	require.Len(t, again, 36+3+1)
	title := readmodel.SearchField{Column: "experience_title"}
	var isNew []uint64
	for _, h := range again {
		if h&readmodel.NewElement != 0 {
			isNew = append(isNew, h)
		}
	}
	require.ElementsMatch(t, []uint64{
		title.TermHash("two", false) | readmodel.NewElement, title.TermHash("seventeen", false) | readmodel.NewElement,
	}, isNew)
}

// repeatsOf returns expressions of the hashes of the repeats of a text: of its tokens, and of its whole values.
func repeatsOf(f readmodel.SearchField) []string {
	of := func(kind, elements string) string {
		pairs := "arrayFlatten(arrayMap(e -> arrayMap((t, n) -> (t, n = 1), e, arrayEnumerateUniq(e)), " + elements + "))"
		return "arrayMap(p -> bitOr(bitAnd(xxHash64(concat('" + f.Column + "', char(" + kind + "), p.1)), " +
			"bitNot(toUInt64(1))), toUInt64(p.2)), arrayFilter((p, n) -> n > 1, " + pairs +
			", arrayEnumerateUniq(arrayMap(p -> p.1, " + pairs + "))))"
	}
	if f.Nested == "" {
		return []string{of("0", "["+f.Tokens()+"]")}
	}
	return []string{
		of("0", f.Tokens()),
		of("1", "arrayMap(v -> if(v = '' OR lengthUTF8(v) > 256, [], [v]), "+f.Column+")"),
	}
}

// Each indexed text has an index for tokens and whole values, some others have a filter.
func TestSearchPeople_HasTextIndexes(t *testing.T) {
	s := projectortest.OpenStore(t)
	var names []string
	require.NoError(t, s.Conn.QueryRow(t.Context(), "SELECT arraySort(groupArray(name)) FROM "+
		"system.data_skipping_indices WHERE database = currentDatabase() AND table = 'search_people'").Scan(&names))
	want := []string{"few_values_filter", "many_values_filter", "experience_company_tokens_filter"}
	var filtered []string // by these
	for _, f := range readmodel.SearchFields() {
		if f.Linked || f.Type != readmodel.SearchText {
			continue
		}
		of := func(column, expression string, isIndexed, isFiltered bool) {
			switch {
			case isIndexed:
				want = append(want, column+"_index")
			case isFiltered && column != "experience_company_url_tokens":
				want = append(want, column+"_filter")
			default:
				filtered = append(filtered, expression)
			}
		}
		flat := f.Tokens()
		if f.Nested != "" {
			flat = "arrayFlatten(" + flat + ")"
		}
		of(f.Tokens(), flat, f.Indexed, f.Filtered)
		of(f.Column, f.Column, f.KeywordIndexed, f.KeywordFiltered)
	}
	var expressions string
	require.NoError(t, s.Conn.QueryRow(t.Context(), "SELECT arrayStringConcat(groupArray(expr), ', ') FROM "+
		"system.data_skipping_indices WHERE database = currentDatabase() AND table = 'search_people' AND name IN "+
		"('few_values_filter', 'many_values_filter', 'experience_company_tokens_filter')").Scan(&expressions))
	require.ElementsMatch(t, filtered, strings.Split(expressions, ", "))
	require.ElementsMatch(t, want, names)
	require.LessOrEqual(t, len(names), 50)
	require.LessOrEqual(t, s.Count("SELECT count() FROM system.columns WHERE database = currentDatabase() AND "+
		"table = 'search_people'"), uint64(120))
}
