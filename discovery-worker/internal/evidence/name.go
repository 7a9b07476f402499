package evidence

import (
	"slices"
	"strings"
	"unicode"

	"github.com/antzucaro/matchr"

	"muster/schemas/identity"
)

// Levels of names, best first. Full names get a suffix for their frequency.
const (
	nameNative  = "native"   // equal in the native script
	nameExact   = "exact"    // the same words in any order
	nameNick    = "nickname" // a nickname of the given name
	nameSound   = "spelling" // another transliteration, or a typo
	nameInitial = "initial"  // J. Abara
	nameGiven   = "given"    // only a given name, and it agrees
	nameFamily  = "family"   // only a family name, and it agrees
	nameMiddle  = "middle"   // given and family name agree, middle names contradict
	nameHalf    = "half"     // one of two names agrees, the other contradicts
	nameScripts = "scripts"  // two scripts, of which one is ambiguous
)

// nameMatch is the result of the comparison of two names: the level, and the parts that agree.
type nameMatch struct {
	level string
	parts []matchedPart
}

// agrees reports whether names of a level are those of one person.
func agrees(level string) bool {
	switch level {
	case nameNative, nameExact, nameNick, nameSound, nameInitial, nameGiven, nameFamily:
		return true
	}
	return false
}

// compareName returns the best level of any two display names.
func compareName(p Pair) string { return matchNames(p).level }

// matchNames returns the best match of any two display names. Of equally good ones it returns that
// with most parts.
func matchNames(p Pair) nameMatch {
	na, nb := p.features()
	for _, a := range na.natives() {
		for _, b := range nb.natives() {
			if a.key == b.key {
				return nameMatch{nameNative, matchAll(a.tokens)}
			}
		}
	}
	namesA, namesB := na.names(), nb.names()
	if len(namesA) == 0 || len(namesB) == 0 {
		return nameMatch{level: Missing}
	}
	order := []string{nameExact, nameNick, nameSound, nameInitial, nameGiven, nameFamily, nameMiddle, nameHalf,
		Different}
	best := nameMatch{level: Different}
	for _, a := range namesA {
		for _, b := range namesB {
			m := compareNameTokens(a.tokens, b.tokens)
			if i, j := slices.Index(order, m.level), slices.Index(order, best.level); i < j ||
				i == j && len(m.parts) > len(best.parts) {
				best = m
			}
		}
	}
	switch best.level {
	case nameHalf, Different:
		if na.hasLossyName() != nb.hasLossyName() {
			return nameMatch{level: nameScripts} // the difference may come from the transliteration
		}
	}
	if best.level == Different && na.hasFullName() && nb.hasFullName() {
		best.level += "_whole"
	}
	return best
}

func matchAll(tokens []string) []matchedPart {
	if len(tokens) > 2 {
		tokens = []string{tokens[0], tokens[len(tokens)-1]}
	}
	out := make([]matchedPart, len(tokens))
	for i, t := range tokens {
		out[i] = matchedPart{t, t}
	}
	return out
}

func isFullName(tokens []string) bool { return len(tokens) > 1 }

// isLossyScript reports whether a name is in a script that does not determine its pronunciation:
// without vowels, or Chinese characters, which Japanese reads differently.
func isLossyScript(names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		return strings.ContainsFunc(n, func(r rune) bool {
			return unicode.In(r, unicode.Arabic, unicode.Hebrew, unicode.Han, unicode.Hiragana, unicode.Katakana,
				unicode.Thai, unicode.Ethiopic)
		})
	})
}

// nativeKey returns the key of a name in a non-Latin script, or "".
func nativeKey(name string) string {
	for _, k := range identity.NameBlockingKeys(name) {
		if strings.HasPrefix(k, "=") {
			return k
		}
	}
	return ""
}

func compareNameTokens(a, b []string) nameMatch {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) == 1 {
		return compareSingle(a[0], b)
	}
	// Particles and parts of compound names may be joined, in either order.
	for i := range b {
		if sameWord(strings.Join(a, ""), strings.Join(b[i:], "")+strings.Join(b[:i], "")) {
			return nameMatch{nameExact, matchAll(a)}
		}
	}
	given, family := a[0], a[len(a)-1]
	if len(a) > 2 && a[0] == b[0] && family == b[len(b)-1] && !shareMiddleName(a[1:len(a)-1], b[1:len(b)-1]) {
		return nameMatch{level: nameMiddle}
	}
	best := nameMatch{level: Different}
	order := []string{nameExact, nameNick, nameSound, nameInitial, nameHalf, Different}
	for _, o := range [][2]string{{b[0], b[len(b)-1]}, {b[len(b)-1], b[0]}} {
		level := compareGivenFamily(given, family, o[0], o[1])
		if slices.Index(order, level) < slices.Index(order, best.level) {
			best = nameMatch{level, []matchedPart{{given, o[0]}, {family, o[1]}}}
		}
	}
	// Compound names, such as Ana Maria Silva Costa and Ana Silva.
	if best.level != nameExact && isSubset(a, b) {
		return nameMatch{nameExact, matchAll(a)}
	}
	if !agrees(best.level) {
		best.parts = nil
	}
	return best
}

// compareSingle compares a name of one word with another one.
func compareSingle(word string, b []string) nameMatch {
	first, last := b[0], b[len(b)-1]
	switch {
	case sameWord(word, strings.Join(b, "")):
		return nameMatch{nameGiven, matchAll(b)}
	case isSameGiven(word, first):
		return nameMatch{nameGiven, []matchedPart{{word, first}}}
	case len(b) == 1:
	case isSameGiven(word, last):
		return nameMatch{nameFamily, []matchedPart{{word, last}}}
	}
	return nameMatch{level: Different}
}

// sameWord reports whether two words are equal, or differ in how umlauts are written: Müllen,
// Mullen, Muellen.
func sameWord(a, b string) bool {
	return a == b || min(len(a), len(b)) >= 4 && foldDigraphs(a) == foldDigraphs(b)
}

// foldDigraphs replaces the digraphs for ä, ö, ü, ø and å by one letter.
func foldDigraphs(word string) string {
	return strings.NewReplacer("ae", "a", "oe", "o", "ue", "u", "aa", "a").Replace(word)
}

// shareMiddleName reports whether two lists of middle names share one, or its initial.
func shareMiddleName(a, b []string) bool {
	for _, x := range a {
		for _, y := range b {
			if x == y || isSimilarSpelling(x, y) || isInitial(x, y) {
				return true
			}
		}
	}
	return false
}

func compareGivenFamily(g1, f1, g2, f2 string) string {
	givenExact, familyExact := sameWord(g1, g2), sameWord(f1, f2)
	familyClose := familyExact || isSimilarSpelling(f1, f2)
	switch {
	case givenExact && familyExact:
		return nameExact
	case familyExact && nicknames(g1, g2):
		return nameNick
	case familyClose && (givenExact || isSimilarSpelling(g1, g2) || nicknames(g1, g2)):
		return nameSound
	case familyClose && isInitial(g1, g2), givenExact && isInitial(f1, f2):
		return nameInitial
	case familyExact, isSameGiven(g1, g2):
		return nameHalf
	}
	return Different
}

// isSimilarSpelling reports whether two words are spellings of one name.
func isSimilarSpelling(a, b string) bool {
	if a == b {
		return true
	}
	if min(len(a), len(b)) < 4 {
		return false
	}
	if ca := identity.ConsonantSkeleton(a); len(ca) >= 3 && ca == identity.ConsonantSkeleton(b) {
		// Nikhal and Nehal have the same consonants, but are two names.
		fa, fb := identity.FoldTransliterations(a), identity.FoldTransliterations(b)
		a, b = string(slices.Compact([]byte(a))), string(slices.Compact([]byte(b)))
		return 3*matchr.Levenshtein(a, b) <= min(len(a), len(b)) ||
			6*matchr.Levenshtein(fa, fb) < min(len(fa), len(fb))
	}
	return matchr.JaroWinkler(a, b, false) >= 0.93
}

func isInitial(a, b string) bool {
	return (len(a) == 1 || len(b) == 1) && a[0] == b[0]
}

func isSameGiven(a, b string) bool {
	return a == b || nicknames(a, b) || isSimilarSpelling(a, b) && len(a) >= 5
}

func isSubset(a, b []string) bool {
	for _, w := range a {
		if !slices.ContainsFunc(b, func(other string) bool { return sameWord(w, other) }) {
			return false
		}
	}
	return true
}

// NamesContradict reports whether both sides have full names of which given name or surname differ,
// and neither username contains a part of the other's name. A one-sided link is then not believed.
func NamesContradict(p Pair) bool {
	if p.Features == nil {
		p.Features = NewFeatureCache()
	}
	username := compareUsername(p)
	m := matchNames(p)
	return m.level != nameInitial && m.contradicts() && (username == Different || username == Missing)
}

// contradicts reports whether given name or surname differ, or one side has only the initial of the
// surname, which every namesake of the given name could have.
func (m nameMatch) contradicts() bool {
	switch m.level {
	case Different + "_whole", nameHalf:
		return true
	case nameInitial:
		family := m.parts[1]
		return min(len(family[0]), len(family[1])) == 1
	}
	return false
}
