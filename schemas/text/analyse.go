package text

import (
	"strings"
	"unicode"

	"github.com/clipperhouse/uax29/v2/words"
)

// Gap is added to the position between two values of one field, so that no phrase reaches from one into the next
// (position_increment_gap of Elasticsearch's text fields).
const Gap = 100

// MaxToken is the length in UTF-16 units at which a token is cut (max_token_length of the standard analyzer).
const MaxToken = 255

// Token is one word of a text. Position counts tokens from 0; two tokens that follow each other differ by 1, more where
// an analyzer dropped a stop word or a new value began.
type Token struct {
	Text     string
	Position int
}

// Analyse appends the tokens of s by the standard analyzer to dst. Positions begin at 0.
func Analyse(dst []Token, s string) []Token {
	return standard(dst, s, 0)
}

// AnalyseValues appends the tokens of a field with several values to dst, in order, as Lucene numbers them: each value,
// also one without tokens, adds Gap to the positions after it.
func AnalyseValues(dst []Token, values []string) []Token {
	base := 0
	for _, v := range values {
		n := len(dst)
		dst = standard(dst, v, base)
		base += Gap + len(dst) - n
	}
	return dst
}

// standard appends the tokens of s with positions from base on.
func standard(dst []Token, s string, base int) []Token {
	s = lower(s)
	if dst, ok := ascii(dst, s, base); ok {
		return dst
	}
	return general(dst, s, base)
}

// general is standard for any text in lower case.
func general(dst []Token, s string, base int) []Token {
	it := words.FromString(s)
	offset := 0 // of the iterator's text in s
	for it.Next() {
		start, end := offset+it.Start(), offset+it.End()
		seg := s[start:end]
		if plain, isToken := classify(seg); plain && (!isToken || len(seg) <= MaxToken) {
			if isToken {
				dst = append(dst, Token{Text: seg, Position: base})
				base++
			}
			continue
		}
		// The rare rest: emoji, South-East Asian runs, which go on over segments, and what is too long.
		sc := scanner{text: s, end: end}
		for at := start; at < sc.end; {
			n, isToken := sc.next(at)
			if isToken {
				dst = append(dst, Token{Text: s[at : at+n], Position: base})
				base++
			}
			at += n
		}
		if sc.end != end {
			offset = sc.end
			it.SetText(s[offset:])
		}
	}
	return dst
}

// lower is LowerCaseFilter: the simple mapping of each code point. Doing it before the words are cut changes no
// boundary and costs one allocation for a text instead of one for each capitalized word.
func lower(s string) string {
	return strings.ToLower(s)
}

// classify tells segments whose fate their first characters decide: plain is false for all others.
func classify(seg string) (plain, isToken bool) {
	ascii := true
	letter := false
	for i := range len(seg) {
		c := seg[i]
		if c >= 0x80 {
			ascii = false
			break
		}
		letter = letter || isASCIIWord(rune(c))
	}
	if ascii {
		return true, letter
	}
	r, w := decode(seg)
	if w == len(seg) && unicode.In(r, unicode.Han, unicode.Hiragana) && !isPictographic(r) {
		return true, true
	}
	if !isSimpleLetter(r) && !isASCIIWord(r) {
		return false, false
	}
	// A word can be joined to a following emoji by a zero-width joiner only.
	return !strings.Contains(seg, "\u200d"), true
}

func isASCIIWord(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z'
}
