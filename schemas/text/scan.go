package text

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

// scanner finds the tokens of a segment between two word boundaries, by the rules that Lucene's grammar has beyond
// UAX#29. It matches the longest of: an emoji sequence, a word, a run of South-East Asian letters, an ideograph, a
// hiragana.
type scanner struct {
	text   string
	end    int // of the segment; moves on when a run crosses it
	barren int // up to here, connectors are known to lead no word
}

// view is more than the bytes of MaxToken UTF-16 units: what lies beyond it decides nothing.
const view = 4 * (MaxToken + 1)

// next gives the length of the token at offset at, or the length of what is skipped there.
func (sc *scanner) next(at int) (n int, isToken bool) {
	seg := sc.text[at:min(sc.end, at+view)]
	// The first two go on over the library's boundaries.
	beyond := sc.text[at:min(len(sc.text), at+view)]
	n = max(runOfComplexContext(beyond), emojiSequence(beyond), longest(seg))
	if n == 0 && at >= sc.barren || n > 0 && beginsWord(seg) {
		word, connectors := wordAt(seg)
		n = max(n, word)
		sc.barren = at + connectors
		if connectors+utf8.UTFMax > len(seg) && at+len(seg) < sc.end {
			sc.barren -= 3 * MaxToken // a word that begins later may yet be reached
		}
	}
	if n == 0 {
		_, w := decode(seg)
		return w, false
	}
	if over := cut(sc.text[at : at+n]); over < n {
		// Lucene's buffer ends here, and with it what its rules see.
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

// longest is the length of the longest token that is neither a word nor goes on over segments; 0 when there is none.
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

// wordAt is the length of the word that seg begins with: all of seg, but not an emoji that a zero-width joiner glues
// to it. When there is none, connectors is the length of the connectors at its start.
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

// emojiSequence is the length of the emoji sequence (UTS #51) that s begins with.
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
			break // joiners may lead a pictograph only
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

// keycap is the length of a keycap sequence that begins with # or *. With a digit it is a word already.
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

// extends is the length of the characters at the start of s that attach to what is before them (UAX#29 WB4).
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

// cut is the length in bytes of the first MaxToken UTF-16 units of s, less when they end within a character.
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

// The properties that the grammar needs of a character are those that the library's tables give: asked by whether the
// library sees a boundary beside a character whose class is known.

// isWord tells letters, digits and katakana: what joins with a low line after it (WB13a) and is no connector.
func isWord(r rune) bool {
	if r < 0x80 {
		return isASCIIWord(r)
	}
	return isSimpleLetter(r) || joins(r, '_') && !isConnector(r)
}

func isConnector(r rune) bool {
	return r == '_' || r == 0x202f || unicode.Is(unicode.Pc, r) && joins(r, '_')
}

// isExtend tells what attaches to any character: Extend, Format, ZWJ.
func isExtend(r rune) bool {
	switch {
	case r < 0x300 && r != softHyphen, unicode.Is(unicode.Lo, r):
		return false
	case unicode.In(r, unicode.Mn, unicode.Mc):
		return true
	}
	return joins('漢', r)
}

// beginsWord tells the few letters that begin a word beside being emoji or ideographs: the longer match counts.
func beginsWord(s string) bool {
	r, _ := decode(s)
	return isWord(r)
}

// isPictographic tells what an emoji sequence is made of.
func isPictographic(r rune) bool { return r >= 0x80 && unicode.Is(pictographic, r) }

// joins tells whether there is no word boundary between a and b.
func joins(a, b rune) bool {
	var buf [longestProbe]byte
	p := utf8.AppendRune(utf8.AppendRune(buf[:0], a), b)
	it := words.FromBytes(p)
	return it.Next() && it.End() == len(p)
}

func decode(s string) (rune, int) { return utf8.DecodeRuneInString(s) }
