package place

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Fold returns the normalized form of a name: lower case, without accents of Latin, Greek and Cyrillic
// letters, words separated by single spaces, "saint", "mount" and "fort" abbreviated. It is empty for text
// without letters and digits.
func Fold(s string) string {
	buf := make([]byte, 0, len(s)+8)
	return string(appendFolded(buf, s))
}

func appendFolded(dst []byte, s string) []byte {
	if isASCII(s) {
		return appendFoldedASCII(dst, s)
	}
	s = norm.NFKD.String(s)
	begin, space := len(dst), false
	base := rune(0)
	word := begin
	for _, r := range s {
		if unicode.Is(unicode.Mn, r) {
			if !hasOptionalMarks(base) {
				dst = utf8.AppendRune(dst, r)
			}
			continue
		}
		switch {
		case r == '.' || r == '\'' || r == '’' || r == '‘' || r == 'ʻ' || r == 'ʼ' || r == '`' || r == '´' ||
			unicode.Is(unicode.Cf, r):
			continue
		case !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.Mc, r):
			space = true
			continue
		}
		base = r
		if space && len(dst) > begin {
			dst = append(abbreviate(dst, word), ' ')
			word = len(dst)
		}
		space = false
		dst = appendLower(dst, r)
	}
	return abbreviate(dst, word)
}

// FoldAccents returns a text in lower case, without accents of Latin, Greek and Cyrillic letters. Spaces and
// punctuation stay.
func FoldAccents(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	out, base := make([]byte, 0, len(s)), rune(0)
	for _, r := range norm.NFKD.String(s) {
		if unicode.Is(unicode.Mn, r) {
			if !hasOptionalMarks(base) {
				out = utf8.AppendRune(out, r)
			}
			continue
		}
		base = r
		out = appendLower(out, r)
	}
	return string(out)
}

// appendFoldedASCII is appendFolded for ASCII, the most common case.
func appendFoldedASCII(dst []byte, s string) []byte {
	begin, word, space := len(dst), len(dst), false
	for i := range len(s) {
		c := s[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
		case c == '.' || c == '\'' || c == '`':
			continue
		default:
			space = true
			continue
		}
		if space && len(dst) > begin {
			dst = append(abbreviate(dst, word), ' ')
			word = len(dst)
		}
		space = false
		dst = append(dst, c)
	}
	return abbreviate(dst, word)
}

// hasOptionalMarks reports whether the marks of a letter are often omitted in names.
func hasOptionalMarks(r rune) bool {
	return r < utf8.RuneSelf || unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Arabic,
		unicode.Hebrew)
}

func appendLower(dst []byte, r rune) []byte {
	switch r = unicode.ToLower(r); r {
	case 'ß':
		return append(dst, "ss"...)
	case 'ø':
		return append(dst, 'o')
	case 'æ':
		return append(dst, "ae"...)
	case 'œ':
		return append(dst, "oe"...)
	case 'ł':
		return append(dst, 'l')
	case 'đ', 'ð':
		return append(dst, 'd')
	case 'þ':
		return append(dst, "th"...)
	case 'ı':
		return append(dst, 'i')
	case 'ħ':
		return append(dst, 'h')
	case 'ə':
		return append(dst, 'e')
	}
	return utf8.AppendRune(dst, r)
}

// abbreviate shortens the word at word, if names use both forms.
func abbreviate(dst []byte, word int) []byte {
	switch string(dst[word:]) {
	case "saint":
		return append(dst[:word], "st"...)
	case "sainte":
		return append(dst[:word], "ste"...)
	case "mount":
		return append(dst[:word], "mt"...)
	case "fort":
		return append(dst[:word], "ft"...)
	}
	return dst
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
