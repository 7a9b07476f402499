package analysis

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Analyzer appends the tokens of a text to dst, as [Analyze] does.
type Analyzer func(dst []Token, s string) []Token

// UnknownAnalyzerError means that a name is not one of [Names].
type UnknownAnalyzerError struct{ Name string }

// Error includes the known names.
func (e *UnknownAnalyzerError) Error() string {
	return fmt.Sprintf("analyzer %q is not supported; supported are %s", e.Name, strings.Join(Names(), ", "))
}

// Names returns the analyzers of [Named]: the built-in ones of Elasticsearch that are implemented exactly.
func Names() []string {
	return []string{"default", "keyword", "simple", "standard", "stop", "whitespace"}
}

// Named returns the analyzer with a name ("analyzer" of the match clauses). The error is an
// *[UnknownAnalyzerError].
func Named(name string) (Analyzer, error) {
	switch name {
	case "standard", "default":
		return Analyze, nil
	case "simple":
		return simple, nil
	case "whitespace":
		return whitespace, nil
	case "keyword":
		return keyword, nil
	case "stop":
		return stop, nil
	}
	return nil, &UnknownAnalyzerError{Name: name}
}

// simple returns runs of letters in lower case.
func simple(dst []Token, s string) []Token {
	return runs(dst, lower(s), unicode.IsLetter)
}

// whitespace splits at white space. No-break spaces do not separate.
func whitespace(dst []Token, s string) []Token {
	return runs(dst, s, func(r rune) bool { return !isJavaWhitespace(r) })
}

// keyword returns the text itself, even if it is empty.
func keyword(dst []Token, s string) []Token {
	return append(dst, Token{Text: s})
}

// stop is simple without English stop words, which leave gaps in the positions.
func stop(dst []Token, s string) []Token {
	n := len(dst)
	dst = simple(dst, s)
	kept := slices.DeleteFunc(dst[n:], func(t Token) bool { return isStopWord(t.Text) })
	return dst[:n+len(kept)]
}

// runs appends the longest runs of characters for which belongs holds, cut at MaxToken.
func runs(dst []Token, s string, belongs func(rune) bool) []Token {
	position, start, units := 0, 0, 0
	flush := func(end int) {
		if units > 0 {
			dst = append(dst, Token{Text: s[start:end], Position: position})
			position++
			units = 0
		}
	}
	for i, r := range s {
		if !belongs(r) {
			flush(i)
			continue
		}
		if units == 0 {
			start = i
		}
		units++
		if r > 0xffff {
			units++
		}
		if units >= MaxToken { // the character that reaches the limit stays whole
			flush(i + len(string(r)))
		}
	}
	flush(len(s))
	return dst
}

// isJavaWhitespace implements java.lang.Character.isWhitespace.
func isJavaWhitespace(r rune) bool {
	switch {
	case r >= '\t' && r <= '\r', r >= 0x1c && r <= 0x1f:
		return true
	case r == 0xa0, r == 0x2007, r == 0x202f:
		return false
	}
	return unicode.In(r, unicode.Zs, unicode.Zl, unicode.Zp)
}

// isStopWord reports whether w is in Lucene's ENGLISH_STOP_WORDS_SET.
func isStopWord(w string) bool {
	switch w {
	case "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not",
		"of",
		"on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will",
		"with":
		return true
	}
	return false
}
