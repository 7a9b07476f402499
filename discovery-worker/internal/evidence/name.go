package evidence

import (
	"slices"
	"strings"
	"unicode"

	"github.com/antzucaro/matchr"

	"muster/schemas/identity"
)

// Levels of names, best first. Those of whole names get a suffix for how common
// the name is.
const (
	nameNative  = "native"   // the same in its own script
	nameExact   = "exact"    // the same words, in whatever order
	nameNick    = "nickname" // a nickname of the given name
	nameSound   = "spelling" // another transliteration, or a typing mistake
	nameInitial = "initial"  // J. Abara
	nameGiven   = "given"    // only the given name, and it agrees
	nameFamily  = "family"   // only the family name, and it agrees
	nameMiddle  = "middle"   // given and family name agree, those between contradict
	nameHalf    = "half"     // one of two names agrees, the other contradicts
	nameScripts = "scripts"  // in two scripts, of which one does not tell
)

// name is the best that any two display names give.
func name(p Pair) string {
	na, nb := p.notes()
	for _, a := range na.natives() {
		for _, b := range nb.natives() {
			if a.key == b.key {
				return nameNative + part(a.tokens)
			}
		}
	}
	as, bs := na.names(), nb.names()
	if len(as) == 0 || len(bs) == 0 {
		return Missing
	}
	order := []string{nameExact, nameNick, nameSound, nameInitial, nameGiven, nameFamily, nameMiddle, nameHalf, Different}
	best := len(order) - 1
	for _, a := range as {
		for _, b := range bs {
			best = min(best, slices.Index(order, compareNames(a.tokens, b.tokens)))
		}
	}
	level := order[best]
	switch level {
	case nameExact, nameNick, nameSound, nameInitial, nameGiven, nameFamily:
		return level + plainest(as, bs)
	case nameHalf, Different:
		if na.lossy() != nb.lossy() {
			return nameScripts // what is lost between the scripts may be the difference
		}
	}
	if level == Different && na.whole() && nb.whole() {
		return Different + "_whole"
	}
	return level
}

func whole(tokens []string) bool { return len(tokens) > 1 }

// part is a suffix for how usual the parts of a name are in the world.
func part(names ...[]string) string {
	most := 0
	for _, tokens := range names {
		if len(tokens) > 0 {
			most = max(most, plain(tokens))
		}
	}
	return plainSuffixes[most]
}

// plainest is part of the names of both sides.
func plainest(a, b []usableName) string {
	most := 0
	for _, u := range a {
		most = max(most, u.plain)
	}
	for _, u := range b {
		most = max(most, u.plain)
	}
	return plainSuffixes[most]
}

var plainSuffixes = [...]string{"", "_plain", "_plainest"} //nolint:gochecknoglobals // a constant

// lossy reports whether one of the names is in a script whose letters do not say
// how the name is spoken: without vowels, or Chinese characters that Japanese
// reads in its own way.
func lossy(names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		return strings.ContainsFunc(n, func(r rune) bool {
			return unicode.In(r, unicode.Arabic, unicode.Hebrew, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Ethiopic)
		})
	})
}

// native is the key of a name in another script than the Latin one.
func native(name string) string {
	for _, k := range identity.NameKeys(name) {
		if strings.HasPrefix(k, "=") {
			return k
		}
	}
	return ""
}

// tokensOf are identity.NameTokens, where a script that writes no spaces gives
// the family name and what follows it, and not one token a syllable.
func tokensOf(name string) []string {
	syllabic := func(r rune) bool { return unicode.In(r, unicode.Han, unicode.Hangul) }
	if !strings.ContainsFunc(name, syllabic) {
		return identity.NameTokens(name)
	}
	words := strings.Fields(name)
	if len(words) == 1 { // the first character is the family name, but for a few of two
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
		out[0] = korean(out[0])
	}
	return out
}

func compareNames(a, b []string) string {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) == 1 {
		first, last := b[0], b[len(b)-1]
		switch {
		case len(b) == 1 && sameGiven(a[0], b[0]), a[0] == strings.Join(b, ""):
			return nameGiven
		case len(b) == 1:
			return Different
		case sameGiven(a[0], first):
			return nameGiven
		case a[0] == last, sameGiven(a[0], last):
			return nameFamily
		}
		return Different
	}
	given, family := a[0], a[len(a)-1]
	if len(a) > 2 && a[0] == b[0] && family == b[len(b)-1] && !between(a[1:len(a)-1], b[1:len(b)-1]) {
		return nameMiddle
	}
	best := Different
	order := []string{nameExact, nameNick, nameSound, nameInitial, nameHalf, Different}
	for _, o := range [][2]string{{b[0], b[len(b)-1]}, {b[len(b)-1], b[0]}} {
		level := comparePair(given, family, o[0], o[1])
		if slices.Index(order, level) < slices.Index(order, best) {
			best = level
		}
	}
	if best == nameHalf || best == Different { // compound names: Ana Maria Silva Costa and Ana Silva
		if subset(a, b) {
			return nameExact
		}
	}
	return best
}

// between reports whether the names between have one in common, or its initial.
func between(a, b []string) bool {
	for _, x := range a {
		for _, y := range b {
			if x == y || alike(x, y) || initialOf(x, y) {
				return true
			}
		}
	}
	return false
}

func comparePair(g1, f1, g2, f2 string) string {
	givenExact, familyExact := g1 == g2, f1 == f2
	familyClose := familyExact || alike(f1, f2)
	switch {
	case givenExact && familyExact:
		return nameExact
	case familyExact && nicknames(g1, g2):
		return nameNick
	case familyClose && (givenExact || alike(g1, g2) || nicknames(g1, g2)):
		return nameSound
	case familyClose && initialOf(g1, g2), givenExact && initialOf(f1, f2):
		return nameInitial
	case familyExact, sameGiven(g1, g2):
		return nameHalf
	}
	return Different
}

// alike reports whether two words are spellings of one.
func alike(a, b string) bool {
	if a == b {
		return true
	}
	if min(len(a), len(b)) < 4 {
		return false
	}
	if ca := identity.Consonants(a); len(ca) >= 3 && ca == identity.Consonants(b) {
		return true
	}
	return matchr.JaroWinkler(a, b, false) >= 0.93
}

// korean is the usual spelling of a Korean family name by that of its letters.
func korean(family string) string {
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

func initialOf(a, b string) bool {
	return (len(a) == 1 || len(b) == 1) && a[0] == b[0]
}

func sameGiven(a, b string) bool { return a == b || nicknames(a, b) || alike(a, b) && len(a) >= 5 }

func subset(a, b []string) bool {
	for _, w := range a {
		if !slices.Contains(b, w) {
			return false
		}
	}
	return true
}

// NamesContradict reports whether both have whole names that have nothing in
// common, and neither username has anything of the other's name.
func NamesContradict(p Pair, findings []Finding) bool {
	if p.Notes == nil {
		p.Notes = NewNotes()
	}
	a, b := p.notes()
	return namesContradict(a, b, findings)
}

func namesContradict(a, b *note, findings []Finding) bool {
	if l := Level(findings, FieldName); l != Different+"_whole" && l != nameHalf {
		return false
	}
	if !a.whole() || !b.whole() {
		return false
	}
	u := Level(findings, FieldUsername)
	return u == Different || u == Missing
}
