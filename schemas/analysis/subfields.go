package analysis

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// foldings is the table of Lucene's ASCIIFoldingFilter: a line has a text of ASCII characters, and the characters that
// it replaces.
//
//go:embed asciifolding.txt
var foldings string

var foldingTable = sync.OnceValue(func() map[rune]string { //nolint:gochecknoglobals // a table, never written
	out := make(map[rune]string)
	for line := range strings.Lines(foldings) {
		folded, characters, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		for _, r := range characters {
			out[r] = folded
		}
	}
	return out
})

// Fold replaces characters by their ASCII equivalents, as Lucene's ASCIIFoldingFilter does.
func Fold(s string) string {
	if isASCII(s) {
		return s
	}
	table := foldingTable()
	var b strings.Builder
	for _, r := range s {
		if folded, ok := table[r]; ok {
			b.WriteString(folded)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Foldings returns the characters of texts in lower case that Fold replaces, in order, and their replacements.
func Foldings() (from, to []string) {
	table := foldingTable()
	for r := range table {
		if unicode.ToLower(r) == r {
			from = append(from, string(r))
		}
	}
	slices.Sort(from)
	for _, s := range from {
		to = append(to, Fold(s))
	}
	return from, to
}

// Folded appends the tokens of the subfield .folded: those of the standard analyzer, folded.
func Folded(dst []Token, s string) []Token {
	n := len(dst)
	dst = Analyze(dst, s)
	for i := range dst[n:] {
		dst[n+i].Text = Fold(dst[n+i].Text)
	}
	return dst
}

// CodeOpening and CodeClosing are the characters that [Code] strips from the start and the end of a token.
const (
	CodeOpening = `([{<"'`
	CodeClosing = `)]}>"',;:!?.`
)

// Code appends the tokens of the subfield .code: words between white space in lower case, without the punctuation
// around them ("c++", "c#", ".net", "node.js"). A word of punctuation alone is no token and takes no position.
func Code(dst []Token, s string) []Token {
	n := len(dst)
	dst = whitespace(dst, lower(s))
	kept := dst[:n]
	for _, t := range dst[n:] {
		text := strings.TrimRight(strings.TrimLeft(t.Text, CodeOpening), CodeClosing)
		if text != "" {
			kept = append(kept, Token{Text: text, Position: len(kept) - n})
		}
	}
	return kept
}
