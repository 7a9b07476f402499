package analysis

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
)

const (
	softHyphen         = '\u00ad'
	zwj                = '\u200d' // zero-width joiner
	textPresentation   = '\ufe0e'
	emojiPresentation  = '\ufe0f'
	enclosingKeycap    = '\u20e3'
	firstModifier      = '\U0001f3fb' // Fitzpatrick modifiers
	lastModifier       = '\U0001f3ff'
	firstRegional      = '\U0001f1e6'
	lastRegional       = '\U0001f1ff'
	firstTag, lastTag  = '\U000e0020', '\U000e007e'
	cancelTag          = '\U000e007f'
	longestProbe       = 2 * utf8.UTFMax
	simpleLettersEnd   = 0x0e00 // below, every letter takes part in words
	hangulSyllableEnd  = 0xd7a3
	hangulSyllableFrom = 0xac00
)

// scanner finds the tokens of a segment between two word boundaries, by the rules of Lucene's grammar beyond
// UAX#29. It matches the longest of: an emoji sequence, a word, a run of South-East Asian letters, an
// ideograph, a hiragana.
type scanner struct {
	text   string
	end    int // of the segment; moves if a run crosses it
	barren int // connectors up to here do not start a word
}

// view is more than MaxToken UTF-16 units in bytes; text beyond it does not matter.
const view = 4 * (MaxToken + 1)

// next returns the length of the token at offset at, or of the text to skip there.
func (sc *scanner) next(at int) (n int, isToken bool) {
	seg := sc.text[at:min(sc.end, at+view)]
	// The first two continue over the library's boundaries.
	beyond := sc.text[at:min(len(sc.text), at+view)]
	n = max(runOfComplexContext(beyond), emojiSequence(beyond), longest(seg))
	if n == 0 && at >= sc.barren || n > 0 && beginsWord(seg) {
		word, connectors := wordAt(seg)
		n = max(n, word)
		sc.barren = at + connectors
		if connectors+utf8.UTFMax > len(seg) && at+len(seg) < sc.end {
			sc.barren -= 3 * MaxToken // A word that starts later may still be reached.
		}
	}
	if n == 0 {
		_, w := decode(seg)
		return w, false
	}
	if over := cut(sc.text[at : at+n]); over < n {
		// Lucene's buffer ends here, which limits its rules.
		window := scanner{text: sc.text[at : at+over], end: 0}
		it := words.FromString(window.text)
		it.Next()
		window.end = it.End()
		n, isToken = window.next(0)
		sc.end = max(sc.end, at+n)
		return n, isToken
	}
	sc.end = max(sc.end, at+n)
	return n, true
}

// longest returns the length of the longest token that is not a word and does not continue over segments; 0
// without one.
func longest(seg string) int {
	r, w := decode(seg)
	switch {
	case r == '#' || r == '*':
		return keycap(seg)
	case isRegional(r):
		rest := w + extends(seg[w:])
		if second, w2 := decode(seg[rest:]); isRegional(second) {
			return rest + w2 + extends(seg[rest+w2:])
		}
	case isModifier(r):
		return w + extendsSansPresentation(seg[w:])
	case unicode.Is(unicode.Han, r) || unicode.Is(unicode.Hiragana, r):
		return w + extends(seg[w:])
	}
	return 0
}

// wordAt returns the length of the word at the start of seg: all of seg, without an emoji joined by a
// zero-width joiner. Without a word, connectors is the length of the connectors at the start.
func wordAt(seg string) (n, connectors int) {
	at := 0
	for { // connectors such as the low line may lead
		r, w := decode(seg[at:])
		if w > 0 && isWord(r) {
			at += w
			break
		}
		if !isConnector(r) {
			return 0, at
		}
		at += w + extends(seg[at+w:])
	}
	for {
		j := strings.IndexRune(seg[at:], zwj)
		if j < 0 {
			return len(seg), 0
		}
		at += j + utf8.RuneLen(zwj)
		if r, _ := decode(seg[at:]); isPictographic(r) && !isWord(r) {
			return at, 0
		}
	}
}

// emojiSequence returns the length of the emoji sequence (UTS #51) at the start of s.
func emojiSequence(s string) int {
	n := 0
	for at := 0; ; {
		for strings.HasPrefix(s[at:], "\u200d") {
			at += utf8.RuneLen(zwj)
		}
		r, w := decode(s[at:])
		modifier := isModifier(r)
		if !modifier && !isPictographic(r) {
			break
		}
		if modifier && at > 0 && n == 0 {
			break // Joiners must precede a pictograph.
		}
		at += w
		plain := extendsSansPresentation(s[at:])
		n = at + plain
		if joined := strings.HasSuffix(s[at:n], "\u200d"); joined {
			// The joiners may belong to the next element instead.
			if next, _ := decode(s[n:]); isPictographic(next) || isModifier(next) {
				at = n
				continue
			}
		}
		at = n
		if modifier {
			break
		}
		if strings.HasPrefix(s[at:], "\ufe0f") {
			at += utf8.RuneLen(emojiPresentation)
			n = at
		}
		if tags := tagSequence(s[at:]); tags > 0 {
			return at + tags
		}
		if !strings.HasPrefix(s[at:], "\u200d") {
			break
		}
	}
	return n
}

func tagSequence(s string) int {
	for i, r := range s {
		if r == cancelTag && i > 0 {
			return i + utf8.RuneLen(cancelTag)
		}
		if r < firstTag || r > lastTag {
			return 0
		}
	}
	return 0
}

// keycap returns the length of a keycap sequence that starts with # or *. With a digit it is a word.
func keycap(seg string) int {
	plain := 1 + extendsSansPresentation(seg[1:])
	if rest, ok := strings.CutPrefix(seg[plain:], "\ufe0f\u20e3"); ok {
		return plain + len("\ufe0f\u20e3") + extendsSansPresentation(rest)
	}
	if strings.ContainsRune(seg[1:plain], enclosingKeycap) {
		return plain
	}
	return 0
}

func runOfComplexContext(s string) int {
	n := 0
	for {
		r, w := decode(s[n:])
		if w == 0 || !unicode.Is(complexContext, r) {
			return n
		}
		n += w + extends(s[n+w:])
	}
}

// extends returns the length of the characters at the start of s that attach to the previous one (UAX#29
// WB4).
func extends(s string) int {
	for i, r := range s {
		if !isExtend(r) {
			return i
		}
	}
	return len(s)
}

func extendsSansPresentation(s string) int {
	for i, r := range s {
		if r == textPresentation || r == emojiPresentation || !isExtend(r) {
			return i
		}
	}
	return len(s)
}

// cut returns the length in bytes of the first MaxToken UTF-16 units of s, without a split character.
func cut(s string) int {
	if len(s) <= MaxToken {
		return len(s)
	}
	units := 0
	for i, r := range s {
		units++
		if r > 0xffff {
			units++
		}
		if units > MaxToken {
			return i
		}
	}
	return len(s)
}

func isRegional(r rune) bool { return r >= firstRegional && r <= lastRegional }
func isModifier(r rune) bool { return r >= firstModifier && r <= lastModifier }

// isSimpleLetter is a cheap, sufficient condition of isWord.
func isSimpleLetter(r rune) bool {
	if r >= hangulSyllableFrom && r <= hangulSyllableEnd {
		return true
	}
	return r < simpleLettersEnd && unicode.IsLetter(r)
}

// The properties of characters are derived from the library's tables: from whether it reports a boundary next
// to a character of a known class.

// isWord reports whether r is a letter, digit or katakana: it joins with a following low line (WB13a) and is
// not a connector.
func isWord(r rune) bool {
	if r < 0x80 {
		return isASCIIWord(r)
	}
	return isSimpleLetter(r) || joins(r, '_') && !isConnector(r)
}

func isConnector(r rune) bool {
	return r == '_' || r == 0x202f || unicode.Is(unicode.Pc, r) && joins(r, '_')
}

// isExtend reports whether r attaches to any character: Extend, Format, ZWJ.
func isExtend(r rune) bool {
	switch {
	case r < 0x300 && r != softHyphen, unicode.Is(unicode.Lo, r):
		return false
	case unicode.In(r, unicode.Mn, unicode.Mc):
		return true
	}
	return joins('漢', r)
}

// beginsWord reports whether s starts with one of the few letters that are also emoji or ideographs; the
// longer match wins.
func beginsWord(s string) bool {
	r, _ := decode(s)
	return isWord(r)
}

// isPictographic reports whether r is part of emoji sequences.
func isPictographic(r rune) bool { return r >= 0x80 && unicode.Is(pictographic, r) }

// joins reports whether there is no word boundary between a and b.
func joins(a, b rune) bool {
	var buf [longestProbe]byte
	p := utf8.AppendRune(utf8.AppendRune(buf[:0], a), b)
	it := words.FromBytes(p)
	return it.Next() && it.End() == len(p)
}

func decode(s string) (rune, int) { return utf8.DecodeRuneInString(s) }
