package identity

import (
	"html"
	"slices"
	"strings"
	"unicode"

	"github.com/mozillazg/go-unidecode"
	"golang.org/x/text/unicode/norm"
)

// maxName is the number of bytes of a display name that are used.
const maxName = 200

// NameTokens returns the parts of a display name in lower-case Latin letters, in order: transliterated,
// without accents, titles, emoji and text in parentheses.
func NameTokens(name string) []string {
	var tokens []string
	for _, t := range words(unidecode.Unidecode(display(name)), func(r rune) bool {
		return r < unicode.MaxASCII &&
			unicode.IsLetter(r)
	}) {
		t = strings.ToLower(t)
		if !isTitle(t) {
			tokens = append(tokens, t)
		}
	}
	return tokens
}

// NameBlockingKeys returns the blocking keys of a display name: two people whose names differ in order, script,
// transliteration, particles, middle names or the number of surnames share a key. A single word has no key, unless
// its script does not use spaces.
//
// A key consists of two parts of the name in alphabetical order; the prefix "~" marks a key of the consonants of
// given name and surname, "=" one of the name in its own script.
func NameBlockingKeys(name string) []string {
	var keys []string
	add := func(list ...string) {
		for _, k := range list {
			if len(keys) < maxNameKeys && !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	if native := nativeKey(name); native != "" {
		add(native)
	}
	parts := NameParts(name)
	if len(parts) < 2 {
		return keys
	}
	add(PairBlockingKeys(parts[0], parts[len(parts)-1])...)
	n := len(parts)
	surname := n - 1 // its first particle, or itself
	for surname > 1 && isParticle(parts[surname-1]) {
		surname--
	}
	bare := parts
	if surname < n-1 { // van der Berg, Vanderberg
		add(PairBlockingKeys(parts[0], strings.Join(parts[surname:], ""))...)
		bare = append(slices.Clone(parts[:surname]), parts[n-1])
	}
	if len(bare) == 3 && min(len(bare[0]), len(bare[1]), len(bare[2])) > 1 {
		// Ming Duo Ouyang, Mingduo Ouyang
		add(pairKey(bare[0]+bare[1], bare[2]), pairKey(bare[0], bare[1]+bare[2]))
	}
	for i, a := range bare[:min(len(bare), maxPairedParts)] {
		for _, b := range bare[i+1 : min(len(bare), maxPairedParts)] {
			if a != b && min(len(a), len(b)) > 1 {
				add(pairKey(a, b))
			}
		}
	}
	return keys
}

// Bounds of the blocking keys of a name.
const (
	maxPairedParts = 4
	maxNameKeys    = 12
)

func pairKey(a, b string) string { return pair("", a, b) }

// PairBlockingKeys returns the blocking keys of a given and a family name, both NameTokens, as NameBlockingKeys does.
func PairBlockingKeys(given, family string) []string {
	if given == "" || family == "" || given == family {
		return nil
	}
	keys := []string{pair("", given, family)}
	if a, b := ConsonantSkeleton(given), ConsonantSkeleton(family); len(a)+len(b) >= 5 && a != b {
		keys = append(keys, pair("~", a, b))
	}
	return keys
}

func pair(prefix, a, b string) string {
	if b < a {
		a, b = b, a
	}
	return prefix + a + " " + b
}

// ConsonantSkeleton returns the consonant skeleton of a word in lower-case Latin letters, without the letters in
// which transliterations differ.
func ConsonantSkeleton(word string) string {
	var b strings.Builder
	last := rune(0)
	for i, r := range FoldTransliterations(word) {
		if strings.ContainsRune("aeiouy", r) {
			if i > 0 {
				continue
			}
			r = 'a'
		}
		if r != last {
			b.WriteRune(r)
		}
		last = r
	}
	return b.String()
}

// FoldTransliterations replaces letters that transliterations use for each other by one of them.
func FoldTransliterations(word string) string {
	var stack [64]byte
	out := stack[:0]
	for i := 0; i < len(word); i++ {
		next := byte(0)
		if i+1 < len(word) {
			next = word[i+1]
		}
		switch c := word[i]; {
		case c == 'p' && next == 'h':
			out = append(out, 'f')
			i++
		case c == 'c' && next == 'k':
			out = append(out, 'k')
			i++
		case c == 'k' && next == 'h':
			out = append(out, 'h')
			i++
		case c == 'x':
			out = append(out, "ks"...)
		case c == 'c', c == 'q':
			out = append(out, 'k')
		case c == 'w':
			out = append(out, 'v')
		case c == 'z':
			out = append(out, 's')
		case c == 'j':
			out = append(out, 'y')
		default:
			out = append(out, c)
		}
	}
	return string(out)
}

// nativeKey returns the key of a name in a non-Latin script.
func nativeKey(name string) string {
	letters := words(strings.ToLower(norm.NFC.String(display(name))), func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsMark(r)
	})
	foreign := slices.DeleteFunc(letters, func(w string) bool {
		return !strings.ContainsFunc(w, func(r rune) bool {
			return unicode.IsLetter(r) &&
				!unicode.Is(unicode.Latin, r)
		})
	})
	switch {
	case len(foreign) == 0:
		return ""
	case len(foreign) == 1:
		if n := len([]rune(foreign[0])); n < 2 || !unicode.In([]rune(foreign[0])[0], unicode.Han, unicode.Hangul,
			unicode.Hiragana, unicode.Katakana, unicode.Thai) {
			return ""
		}
		return "=" + foreign[0]
	}
	return pair("=", foreign[0], foreign[len(foreign)-1])
}

// display returns a name without artifacts of crawls.
func display(name string) string {
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "")
	}
	name = html.UnescapeString(name)
	for {
		open := strings.IndexAny(name, "([")
		if open < 0 {
			break
		}
		end := strings.IndexAny(name[open:], ")]")
		if end < 0 {
			name = name[:open]
			break
		}
		name = name[:open] + " " + name[open+end+1:]
	}
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, name)
}

// joiners occur inside words: apostrophes and hyphens.
const joiners = "'\u2019`-"

// words splits a text at all characters that are not part of a word. Apostrophes and hyphens inside a word
// are removed.
func words(s string, isPart func(rune) bool) []string {
	if strings.ContainsAny(s, joiners) {
		s = strings.Map(func(r rune) rune {
			if strings.ContainsRune(joiners, r) {
				return -1
			}
			return r
		}, s)
	}
	return strings.FieldsFunc(s, func(r rune) bool { return !isPart(r) })
}

func isTitle(t string) bool {
	switch t {
	case "dr", "prof", "mr", "mrs", "ms", "sir", "phd", "mba", "md", "msc", "bsc", "pmp", "cpa", "cfa", "eng", "ing",
		"dipl", "jr", "sr", "ii", "iii", "esq":
		return true
	}
	return false
}

// UsernameBlockingKey returns the blocking key of a username: its letters in lower case, without separators, trailing
// digits and the suffix that the professional network adds to slugs. It is "" if fewer than three letters
// remain.
func UsernameBlockingKey(username string) string {
	key := NormalizeUsername(username)
	parts := strings.FieldsFunc(key, func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	if n := len(parts); n > 1 && isSlugEnding(parts[n-1]) {
		parts = parts[:n-1]
	}
	bare := strings.TrimRight(strings.Join(parts, ""), "0123456789")
	if len([]rune(bare)) < 3 {
		return ""
	}
	return bare
}

// isSlugEnding reports whether a part of a slug is a platform's suffix for a taken name: a number, or a
// longer hexadecimal number.
func isSlugEnding(part string) bool {
	const digits = "0123456789"
	if strings.Trim(part, digits) == "" {
		return true
	}
	return len(part) >= 6 && strings.ContainsAny(part, digits) && strings.Trim(part, digits+"abcdef") == ""
}
