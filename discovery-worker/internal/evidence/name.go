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

// compareName returns the best level of any two display names.
func compareName(p Pair) string {
	na, nb := p.features()
	for _, a := range na.natives() {
		for _, b := range nb.natives() {
			if a.key == b.key {
				return nameNative + commonPartSuffix(a.tokens)
			}
		}
	}
	namesA, namesB := na.names(), nb.names()
	if len(namesA) == 0 || len(namesB) == 0 {
		return Missing
	}
	order := []string{nameExact, nameNick, nameSound, nameInitial, nameGiven, nameFamily, nameMiddle, nameHalf,
		Different}
	best := len(order) - 1
	for _, a := range namesA {
		for _, b := range namesB {
			best = min(best, slices.Index(order, compareNameTokens(a.tokens, b.tokens)))
		}
	}
	level := order[best]
	switch level {
	case nameExact, nameNick, nameSound, nameInitial, nameGiven, nameFamily:
		return level + commonestNameParts(namesA, namesB)
	case nameHalf, Different:
		if na.hasLossyName() != nb.hasLossyName() {
			return nameScripts // the difference may come from the transliteration
		}
	}
	if level == Different && na.hasFullName() && nb.hasFullName() {
		return Different + "_whole"
	}
	return level
}

func isFullName(tokens []string) bool { return len(tokens) > 1 }

// commonPartSuffix returns a level suffix for how common the parts of a name are.
func commonPartSuffix(names ...[]string) string {
	highest := 0
	for _, tokens := range names {
		if len(tokens) > 0 {
			highest = max(highest, countCommonParts(tokens))
		}
	}
	return commonPartSuffixes[highest]
}

// commonestNameParts returns the suffix of the most common name of both sides.
func commonestNameParts(a, b []usableName) string {
	highest := 0
	for _, u := range a {
		highest = max(highest, u.commonParts)
	}
	for _, u := range b {
		highest = max(highest, u.commonParts)
	}
	return commonPartSuffixes[highest]
}

var commonPartSuffixes = [...]string{"", "_plain", "_plainest"} //nolint:gochecknoglobals // a constant

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

// nameTokens returns identity.NameTokens. For scripts without spaces it returns the family name and
// the rest, instead of one token for each syllable.
func nameTokens(name string) []string {
	syllabic := func(r rune) bool { return unicode.In(r, unicode.Han, unicode.Hangul) }
	if !strings.ContainsFunc(name, syllabic) {
		return identity.NameTokens(name)
	}
	words := strings.Fields(name)
	// The family name is the first character, except a few with two.
	if len(words) == 1 {
		runes := []rune(words[0])
		words = []string{string(runes[:1]), string(runes[1:])}
	}
	var out []string
	for _, w := range words {
		if tokens := identity.NameTokens(w); len(tokens) > 0 {
			out = append(out, strings.Join(tokens, ""))
		}
	}
	if len(out) > 0 && strings.ContainsFunc(name, func(r rune) bool { return unicode.Is(unicode.Hangul, r) }) {
		out[0] = koreanSurname(out[0])
	}
	return out
}

func compareNameTokens(a, b []string) string {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) == 1 {
		first, last := b[0], b[len(b)-1]
		switch {
		case len(b) == 1 && isSameGiven(a[0], b[0]), a[0] == strings.Join(b, ""):
			return nameGiven
		case len(b) == 1:
			return Different
		case isSameGiven(a[0], first):
			return nameGiven
		case a[0] == last, isSameGiven(a[0], last):
			return nameFamily
		}
		return Different
	}
	given, family := a[0], a[len(a)-1]
	if len(a) > 2 && a[0] == b[0] && family == b[len(b)-1] && !shareMiddleName(a[1:len(a)-1], b[1:len(b)-1]) {
		return nameMiddle
	}
	best := Different
	order := []string{nameExact, nameNick, nameSound, nameInitial, nameHalf, Different}
	for _, o := range [][2]string{{b[0], b[len(b)-1]}, {b[len(b)-1], b[0]}} {
		level := compareGivenFamily(given, family, o[0], o[1])
		if slices.Index(order, level) < slices.Index(order, best) {
			best = level
		}
	}
	// Compound names, such as Ana Maria Silva Costa and Ana Silva.
	if best == nameHalf || best == Different {
		if isSubset(a, b) {
			return nameExact
		}
	}
	return best
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
	givenExact, familyExact := g1 == g2, f1 == f2
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
		return true
	}
	return matchr.JaroWinkler(a, b, false) >= 0.93
}

// koreanSurname returns the usual romanization of a Korean family name.
func koreanSurname(family string) string {
	switch family {
	case "gim":
		return "kim"
	case "yi", "i", "ri":
		return "lee"
	case "bak":
		return "park"
	case "choe":
		return "choi"
	case "jeong":
		return "jung"
	case "gang":
		return "kang"
	case "jo":
		return "cho"
	case "yun":
		return "yoon"
	case "im":
		return "lim"
	case "sin":
		return "shin"
	case "gwon":
		return "kwon"
	}
	return family
}

func isInitial(a, b string) bool {
	return (len(a) == 1 || len(b) == 1) && a[0] == b[0]
}

func isSameGiven(a, b string) bool {
	return a == b || nicknames(a, b) || isSimilarSpelling(a, b) && len(a) >= 5
}

func isSubset(a, b []string) bool {
	for _, w := range a {
		if !slices.Contains(b, w) {
			return false
		}
	}
	return true
}

// NamesContradict reports whether both sides have full names without a common part, and neither
// username contains a part of the other's name.
func NamesContradict(p Pair, findings []Comparison) bool {
	if p.Features == nil {
		p.Features = NewFeatureCache()
	}
	a, b := p.features()
	return namesContradict(a, b, findings)
}

func namesContradict(a, b *features, findings []Comparison) bool {
	if l := Level(findings, FieldName); l != Different+"_whole" && l != nameHalf {
		return false
	}
	if !a.hasFullName() || !b.hasFullName() {
		return false
	}
	u := Level(findings, FieldUsername)
	return u == Different || u == Missing
}
