// Package suggest suggests the known name closest to a misspelled one.
package suggest

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/antzucaro/matchr"
)

// maxName is how many bytes of a name are compared.
const maxName = 256

// Closest returns the known name with the smallest edit distance to name, the first of several. A name that is part of
// a known one counts as one edit if it has at least three letters and more than a third of the known name; so does
// omitting everything before the known name's last dot. Names with more than one edit per three letters are not
// suggested, because the hint would be misleading.
func Closest(name string, known []string) (string, bool) {
	name = strings.ToLower(strings.ToValidUTF8(name[:min(len(name), maxName)], ""))
	best, least := "", -1
	for _, k := range known {
		if n, near := distance(name, strings.ToLower(k)); near && (least < 0 || n < least) {
			best, least = k, n
		}
	}
	return best, least >= 0
}

// distance returns the edit distance between name and known; near reports whether known may have been meant.
func distance(name, known string) (n int, near bool) {
	n = matchr.OSA(name, known)
	near = 3*n <= max(utf8.RuneCountInString(name), utf8.RuneCountInString(known))
	if n > 1 && len(name) >= 3 && 3*len(name) > len(known) && strings.Contains(known, name) {
		return 1, true
	}
	if i := strings.LastIndexByte(known, '.'); i >= 0 && !strings.Contains(name, ".") {
		if of, ok := distance(name, known[i+1:]); ok && (!near || of+1 < n) {
			return of + 1, true
		}
	}
	return n, near
}

// Hint returns sentence, preceded by the known name that was probably meant by the unknown name, if any.
func Hint(name string, known []string, sentence string) string {
	if n, ok := Closest(name, known); ok {
		return "did you mean " + strconv.Quote(n) + "? " + sentence
	}
	first, size := utf8.DecodeRuneInString(sentence)
	return string(unicode.ToLower(first)) + sentence[size:]
}
