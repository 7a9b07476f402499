// Package nearest finds the known name that somebody may have meant who wrote another one.
package nearest

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/antzucaro/matchr"
)

// maxName bounds what is compared of a name, in bytes: the rest of a longer one is of no use.
const maxName = 256

// Name is the known name with the fewest typing mistakes, of equally near ones the first. A
// part of it, three letters or more and more than a third of it, counts as one mistake, as
// leaving out what stands before its last point does. There is none with a mistake in more than every third letter:
// who follows a hint by chance finds something else.
func Name(name string, known []string) (string, bool) {
	name = strings.ToLower(strings.ToValidUTF8(name[:min(len(name), maxName)], ""))
	best, least := "", -1
	for _, k := range known {
		if n, near := mistakes(name, strings.ToLower(k)); near && (least < 0 || n < least) {
			best, least = k, n
		}
	}
	return best, least >= 0
}

// mistakes counts how often a name has to be changed to be a known one; near says that it
// may be meant.
func mistakes(name, known string) (n int, near bool) {
	n = matchr.OSA(name, known)
	near = 3*n <= max(utf8.RuneCountInString(name), utf8.RuneCountInString(known))
	if n > 1 && len(name) >= 3 && 3*len(name) > len(known) && strings.Contains(known, name) {
		return 1, true
	}
	if i := strings.LastIndexByte(known, '.'); i >= 0 && !strings.Contains(name, ".") {
		if of, ok := mistakes(name, known[i+1:]); ok && (!near || of+1 < n) {
			return of + 1, true
		}
	}
	return n, near
}

// Hint words what is said to somebody who wrote a name that is not known: which one may have
// been meant, if any, before a sentence that helps in any case.
func Hint(name string, known []string, sentence string) string {
	if n, ok := Name(name, known); ok {
		return "did you mean " + strconv.Quote(n) + "? " + sentence
	}
	first, size := utf8.DecodeRuneInString(sentence)
	return string(unicode.ToLower(first)) + sentence[size:]
}
