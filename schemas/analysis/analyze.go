package analysis

import (
	"strings"
	"unicode"

	"github.com/clipperhouse/uax29/v2/words"
)

// Gap is added to the position between two values of a field, so that phrases do not match across values
// (position_increment_gap of Elasticsearch's text fields).
const Gap = 100

// MaxToken is the length in UTF-16 units at which tokens are split (max_token_length of the standard
// analyzer).
const MaxToken = 255

// Token is a token of a text. Position counts from 0. Consecutive tokens differ by 1, or more if an analyzer
// removed a stop word or a new value began.
type Token struct {
	Text     string
	Position int
}

// Analyze appends the tokens of s by the standard analyzer to dst. Positions start at 0.
func Analyze(dst []Token, s string) []Token {
	s = lower(s)
	if dst, ok := ascii(dst, s); ok {
		return dst
	}
	return general(dst, s)
}

// general is Analyze for any text in lower case.
func general(dst []Token, s string) []Token {
	position := 0
	it := words.FromString(s)
	offset := 0 // of the iterator's text in s
	for it.Next() {
		start, end := offset+it.Start(), offset+it.End()
		seg := s[start:end]
		if plain, isToken := classify(seg); plain && (!isToken || len(seg) <= MaxToken) {
			if isToken {
				dst = append(dst, Token{Text: seg, Position: position})
				position++
			}
			continue
		}
		// Rare cases: emoji, South-East Asian runs, which continue over segments, and tokens that are too
		// long.
		sc := scanner{text: s, end: end}
		for at := start; at < sc.end; {
			n, isToken := sc.next(at)
			if isToken {
				dst = append(dst, Token{Text: s[at : at+n], Position: position})
				position++
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

// lower is LowerCaseFilter: the simple mapping of each code point. Lower-casing before segmentation changes
// no boundary, and allocates once per text instead of once per capitalized word.
func lower(s string) string {
	return strings.ToLower(s)
}

// classify decides segments by their first characters where possible; plain is false for all others.
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
