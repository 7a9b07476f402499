package evidence

import (
	"slices"
	"strings"

	"github.com/antzucaro/matchr"

	"muster/discovery-worker/internal/people"
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
	nameHalf    = "half"     // one of two names agrees, the other contradicts
)

// name is the best that any two display names give.
func name(p Pair) string {
	for _, a := range p.A.Names {
		for _, b := range p.B.Names {
			if k := native(a); k != "" && k == native(b) {
				return nameNative + commonness(p.Namesakes)
			}
		}
	}
	as, bs := usableNames(p.A), usableNames(p.B)
	if len(as) == 0 || len(bs) == 0 {
		return Missing
	}
	order := []string{nameExact, nameNick, nameSound, nameInitial, nameGiven, nameFamily, nameHalf, Different}
	best := len(order) - 1
	for _, a := range as {
		for _, b := range bs {
			best = min(best, slices.Index(order, compareNames(a, b)))
		}
	}
	if best <= 2 {
		return order[best] + commonness(p.Namesakes)
	}
	return order[best]
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
func NamesContradict(a, b *people.Profile, findings []Finding) bool {
	whole := func(list [][]string) bool {
		return slices.ContainsFunc(list, func(t []string) bool { return len(t) > 1 })
	}
	if l := Level(findings, FieldName); l != Different && l != nameHalf {
		return false
	}
	if !whole(usableNames(a)) || !whole(usableNames(b)) {
		return false
	}
	u := Level(findings, FieldUsername)
	return u == Different || u == Missing
}
