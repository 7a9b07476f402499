package highlight_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/highlight"
	"muster/schemas/readmodel"
)

func text() algebra.Field {
	return algebra.Field{SearchField: readmodel.SearchField{Path: "t", Type: readmodel.SearchText}}
}

func fragments(t testing.TB, n algebra.Node, number, length int, texts ...string) []string {
	t.Helper()
	return fragmentsOf(t, text(), n, number, length, texts...)
}

// fragmentsOf is like fragments, of a subfield.
func fragmentsOf(
	t testing.TB, f algebra.Field, n algebra.Node, number, length int, texts ...string,
) []string {
	t.Helper()
	document, err := json.Marshal(map[string]any{"t": texts})
	require.NoError(t, err)
	body, err := highlight.New(n, []algebra.Highlight{{
		Field: f, Before: "[", After: "]", Fragments: number, Length: length,
	}}, "").Append(nil, document)
	require.NoError(t, err)
	var out map[string][]string
	if len(body) > 0 {
		require.NoError(t, json.Unmarshal(body, &out), string(body))
	}
	return out[f.Name()]
}

func word(s string) algebra.Node { return algebra.Term{Field: text(), Text: s} }

func TestHighlighter_FragmentsEndAtSentencesAndWords(t *testing.T) {
	const long = "First one here. Second has go in it. Third is short! And go is in the fourth, which is a longer one."
	require.Equal(t, []string{"Second has [go] in it. Third is short!", "And [go] is in the fourth, which is a"},
		fragments(t, word("go"), 5, 38, long))
	require.Equal(t, []string{strings.NewReplacer("go", "[go]").Replace(long)}, fragments(t, word("go"), 0, 1, long))
	require.Equal(t, []string{"[go]", "[go]"}, fragments(t, word("go"), 5, 1, long))
	require.Empty(t, fragments(t, word("absent"), 5, 10, long))
}

func TestHighlighter_FragmentsWithMostWordsAreReturned(t *testing.T) {
	either := algebra.Bool{Should: []algebra.Node{word("a"), word("b")}}
	require.Equal(t, []string{"[a] [b]", "[b] [a] [b]"}, fragments(t, either, 2, 100, "[a]", "a b", "a a a", "b a b",
		"b"))
	require.Equal(t, []string{"[a] x"}, fragments(t, either, 1, 100, "a x", "b x"))
}

func TestHighlighter_PhrasesAreMarkedAsAWhole(t *testing.T) {
	phrase := algebra.Phrase{Field: text(), Terms: [][]string{{"quick"}, {"fox"}}}
	require.Equal(t, []string{"fox quick [quick] [fox] quick"}, fragments(t, phrase, 5, 100,
		"fox quick quick fox quick"))
	phrase.Slop = 1
	require.Equal(t, []string{"[quick] brown [fox]"}, fragments(t, phrase, 5, 100, "quick brown fox"))
	phrase = algebra.Phrase{Field: text(), Terms: [][]string{{"quick"}, {"fo"}}, PrefixLast: true}
	require.Equal(t, []string{"[quick] [fox] quick of"}, fragments(t, phrase, 5, 100, "quick fox quick of"))
}

// Letters whose lower case has another length do not shift marks.
func TestHighlighter_MarksLettersOfAnyLength(t *testing.T) {
	require.Equal(t, []string{"İȺ ẞ 😀 [Go]!"}, fragments(t, word("go"), 5, 100, "İȺ ẞ 😀 Go!"))
	require.Equal(t, []string{"東[京]のソフト"}, fragments(t, word("京"), 5, 100, "東京のソフト"))
}

// Without its tags, the whole text is as before.
func FuzzHighlighter(f *testing.F) {
	f.Add("Second has go in it.", "go", 5)
	f.Add("İȺ ẞ 😀 Go!\n\n. .", "i̇", 1)
	f.Fuzz(func(t *testing.T, s, w string, length int) {
		if !utf8.ValidString(s) || !utf8.ValidString(w) || strings.ContainsAny(s, "[]") || length < 1 {
			return
		}
		for _, part := range fragments(t, word(w), 0, 1, s) {
			require.Equal(t, strings.TrimSpace(s), strings.NewReplacer("[", "", "]", "").Replace(part))
		}
		for _, part := range fragments(t, algebra.Pattern{Field: text(), Kind: algebra.Prefix, Text: w}, 100,
			length, s) {
			require.Contains(t, s, strings.NewReplacer("[", "", "]", "").Replace(part))
		}
	})
}

// Words of a subfield are those of its analysis.
func TestHighlighter_MarksWordsOfSubfields(t *testing.T) {
	for subfield, tc := range map[algebra.Subfield][3]string{
		algebra.Folded: {"jose", "Hello, José!", "Hello, [José]!"},
		algebra.Code:   {"c++", "C, (C++) and .NET", "C, ([C++]) and .NET"},
	} {
		field := text()
		field.Subfield = subfield
		require.Equal(t, []string{tc[2]}, fragmentsOf(t, field, algebra.Term{Field: field, Text: tc[0]}, 5, 100, tc[1]))
	}
}
