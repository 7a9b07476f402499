package planner

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

func TestHints(t *testing.T) {
	term := algebra.Term{Text: "engineer"}
	text := readmodel.SearchField{Path: "profile.headline", Type: readmodel.SearchText}
	other := algebra.Term{Field: algebra.Field{SearchField: text}, Text: "engineer"}
	phrase := algebra.Phrase{Terms: [][]string{{"software"}, {"engineer"}}}
	for name, c := range map[string]struct {
		node               algebra.Node
		sorts              []Sort
		eager, readsTokens bool
	}{
		"words":                  {node: algebra.Bool{Should: []algebra.Node{term, algebra.Range{}}, Minimum: 1}, eager: true},
		"elements":               {node: algebra.Nested{Node: algebra.Bool{Must: []algebra.Node{term}}}, eager: true},
		"a pattern":              {node: algebra.Bool{Must: []algebra.Node{term, algebra.Pattern{}}}},
		"a phrase":               {node: algebra.Bool{Must: []algebra.Node{term, phrase}}, readsTokens: true},
		"a phrase beside a text": {node: algebra.Bool{Must: []algebra.Node{other, phrase}}},
		"a phrase of elements":   {node: algebra.Bool{Must: []algebra.Node{other, algebra.Nested{Node: phrase}}}, readsTokens: true},
		"a phrase beside a text, and one of elements": {node: algebra.Bool{Must: []algebra.Node{other, phrase, algebra.Nested{Node: phrase}}}, readsTokens: true},
		"a phrase of one word":                        {node: algebra.Phrase{Terms: [][]string{{"engineer"}}}},
		"a function":                                  {node: algebra.Function{Node: term}},
		"a least score":                               {node: algebra.Function{Node: term, MinScore: new(float64)}, readsTokens: true},
		"an average to sort by":                       {node: term, sorts: []Sort{{Kind: SortField, Mode: algebra.ScoreAvg}}},
		"a least value to sort by":                    {node: term, sorts: []Sort{{Kind: SortField, Mode: algebra.ScoreMin}}, eager: true},
		"a pattern in a sort":                         {node: term, sorts: []Sort{{Kind: SortField, Mode: algebra.ScoreMin, Nested: algebra.Pattern{}}}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.eager, eager(c.node, c.sorts, nil), "eager")
			require.Equal(t, c.readsTokens, readsTokens(c.node, nil), "reads tokens")
		})
	}
	stats := NewStats()
	stats.Absent[termKey(other.Field, other.Text)] = true
	require.True(t, readsTokens(algebra.Bool{Should: []algebra.Node{other, phrase}}, stats), "nobody has the other text's word")
	var many algebra.DisMax
	for range maxEager {
		many.Nodes = append(many.Nodes, term)
	}
	require.False(t, eager(many, nil, nil), "one more than may be")
}

func TestDear(t *testing.T) {
	term := algebra.Term{Text: "engineer"}
	phrase := algebra.Phrase{Terms: [][]string{{"software"}, {"engineer"}}}
	elements := algebra.Nested{Node: term, Mode: algebra.ScoreAvg}
	alike := algebra.Nested{Node: algebra.Bool{Filter: []algebra.Node{term}}, Mode: algebra.ScoreAvg}
	number := algebra.Nested{Node: algebra.Constant{Node: term, Score: 2}, Mode: algebra.ScoreSum}
	for name, c := range map[string]struct {
		node algebra.Node
		sort SortKind
		want bool
	}{
		"a word":                         {term, SortScore, false},
		"a phrase":                       {phrase, SortScore, true},
		"a phrase by a field":            {phrase, SortField, true},
		"a phrase in no order":           {phrase, SortDocument, false},
		"a phrase that is not scored":    {algebra.Constant{Node: phrase, Score: 1}, SortScore, false},
		"elements":                       {elements, SortScore, true},
		"elements that are not scored":   {algebra.Bool{Filter: []algebra.Node{elements}}, SortScore, false},
		"elements with equal scores":     {alike, SortScore, false},
		"their sum":                      {number, SortScore, true},
		"elements beside a word":         {algebra.Bool{Must: []algebra.Node{term}, Filter: []algebra.Node{alike}}, SortScore, true},
		"elements where a word may be":   {algebra.Bool{Should: []algebra.Node{term}, Filter: []algebra.Node{alike}}, SortScore, true},
		"elements with a function":       {algebra.Function{Node: alike}, SortScore, true},
		"the best of words and elements": {algebra.DisMax{Nodes: []algebra.Node{term, alike}}, SortScore, true},
		"a boost":                        {algebra.Boost{Node: alike, Factor: 2}, SortScore, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, Dear(c.node, []Sort{{Kind: c.sort}})) })
	}
}

func TestAtMost(t *testing.T) {
	field := algebra.Field{}
	term := func(text string) algebra.Node { return algebra.Term{Field: field, Text: text} }
	stats := &Stats{Terms: map[string]int64{termKey(field, "few"): 3, termKey(field, "many"): 70, termKey(field, "huge"): math.MaxInt64}}
	for name, c := range map[string]struct {
		node algebra.Node
		want int64
	}{
		"everybody":    {algebra.All{}, math.MaxInt64},
		"nobody":       {algebra.None{}, 0},
		"a term":       {term("few"), 3},
		"not counted":  {term("other"), math.MaxInt64},
		"both":         {algebra.Bool{Must: []algebra.Node{term("many")}, Filter: []algebra.Node{term("few"), algebra.All{}}}, 3},
		"either":       {algebra.Bool{Should: []algebra.Node{term("many"), term("few")}, Minimum: 1}, 73},
		"should alone": {algebra.Bool{Should: []algebra.Node{term("many")}}, math.MaxInt64},
		"not":          {algebra.Bool{MustNot: []algebra.Node{term("few")}}, math.MaxInt64},
		"the best":     {algebra.DisMax{Nodes: []algebra.Node{term("few"), term("many")}}, 73},
		"no overflow":  {algebra.DisMax{Nodes: []algebra.Node{term("huge"), term("huge")}}, math.MaxInt64},
		"a phrase":     {algebra.Phrase{Field: field, Terms: [][]string{{"many"}, {"few"}, {"a", "b"}}}, 3},
		"wrapped":      {algebra.Boost{Node: algebra.Constant{Node: algebra.Nested{Node: algebra.Function{Node: term("few")}}}}, 3},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, AtMost(c.node, stats)) })
	}
	require.Equal(t, int64(math.MaxInt64), AtMost(term("few"), nil))
}

// What an expression has twice in the same words the server evaluates once.
func TestElementsAreChosenOnce(t *testing.T) {
	title := algebra.Field{SearchField: readmodel.SearchField{Path: "experience.title", Nested: "experience", Column: "experience_title", Type: readmodel.SearchText, Indexed: true}}
	now := algebra.Field{SearchField: readmodel.SearchField{Path: "experience.is_current", Nested: "experience", Column: "experience_is_current", Type: readmodel.SearchBoolean}}
	word, current := algebra.Term{Field: title, Text: "engineer"}, algebra.Term{Field: now, Text: "T"}
	stats := &Stats{Fields: map[string]FieldStats{title.Name(): {Documents: 9, Terms: 20}}, Terms: map[string]int64{termKey(title, "engineer"): 3}}
	rank := func(n algebra.Node, kind SortKind) string {
		nested := algebra.Nested{Path: "experience", Node: n, Mode: algebra.ScoreAvg}
		return RankStatement(Rank{Node: nested, Sort: []Sort{{Kind: kind}}, Stats: stats, Limit: 10}).SQL
	}
	chosen := "arrayFilter((e_experience_title_tokens, e_experience_is_current) -> (has(e_experience_title_tokens, {p0:String}) AND (e_experience_is_current = 1)), " +
		"experience_title_tokens, experience_is_current)"
	both := algebra.Bool{Must: []algebra.Node{word}, Filter: []algebra.Node{current}}

	scored := rank(both, SortScore)
	require.Equal(t, 2, strings.Count(scored, chosen), scored)
	require.Contains(t, scored, "notEmpty("+chosen+")")
	require.NotContains(t, scored, "arrayExists")

	optional := algebra.Bool{Should: []algebra.Node{algebra.Nested{Path: "experience", Node: both, Mode: algebra.ScoreAvg}, algebra.Range{}}, Minimum: 1}
	require.NotContains(t, RankStatement(Rank{Node: optional, Sort: []Sort{{Kind: SortScore}}, Stats: stats, Limit: 10}).SQL, "arrayExists((e_experience")

	require.Contains(t, rank(both, SortDocument), "arrayExists", "nothing is scored")
	alike := rank(algebra.Constant{Node: both, Score: 2}, SortScore)
	require.NotContains(t, alike, "arrayAvg", "the average of equal scores")
	require.Contains(t, alike, "arrayExists")
}
