package evidence

import (
	"math"
	"slices"
	"strings"

	"github.com/antzucaro/matchr"

	"muster/schemas/identity"
)

// username compares the two usernames with each other and each with the other's
// name. That the same rare word was chosen twice says much, that two people of one
// name have it as username says little: see informative.
func username(p Pair) string {
	a, b := p.A.Key, p.B.Key
	if a == "" || b == "" { // a description has none
		return Missing
	}
	na, nb := p.notes()
	ha, hb := na.keyStem(), nb.keyStem()
	flatA, flatB := na.flat(), nb.flat()
	switch {
	case flatA == flatB:
		return "same" + madeOf(p, flatA)
	case ha != "" && ha == hb:
		return "same_stem" + madeOf(p, ha)
	}
	fromB, fromA := derived(na, nb), derived(nb, na)
	switch {
	case fromA == 2 || fromB == 2:
		return "from_name" + plainest(na.names(), nb.names())
	case similar(flatA, flatB, ha, hb):
		return "similar"
	case fromA == 1 || fromB == 1:
		return "from_part"
	}
	return Different
}

// madeOf says of a shared username whether it is just the name, and how much
// there is in it otherwise.
func madeOf(p Pair, handle string) string {
	a, b := p.notes()
	for _, who := range [...]*note{a, b} {
		for _, u := range who.names() {
			if covered(handle, u.tokens) {
				return "_name" + plainSuffixes[u.plain] + commonness(min(p.Alike, 2))
			}
		}
	}
	return "_word" + information(handle) + commonness(min(p.Alike, 2))
}

// information says how much there is in a username that is not a name, by the
// frequencies of letters in names and words (self-information): below 30 bits,
// up to 45, or more.
func information(handle string) string {
	bits := 0.0
	for _, r := range handle {
		if f, ok := letterBits(r); ok {
			bits += f
		} else {
			bits += 6
		}
	}
	switch {
	case bits < 30:
		return "_short"
	case bits < 45:
		return "_long"
	}
	return "_longest"
}

// letterBits is -log2 of a letter's frequency in English text.
func letterBits(r rune) (float64, bool) {
	const letters = "etaoinshrdlcumwfgypbvkjxqz"
	percent := [...]float64{12.7, 9.1, 8.2, 7.5, 7, 6.7, 6.3, 6.1, 6, 4.3, 4, 2.8, 2.8, 2.4, 2.4, 2.2, 2, 2, 1.9, 1.5, 1, 0.8, 0.15, 0.15, 0.1, 0.07}
	i := strings.IndexRune(letters, r)
	if i < 0 {
		return 0, false
	}
	return -math.Log2(percent[i] / 100), true
}

func flat(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' {
			return -1
		}
		return r
	}, s)
}

// similar is one username within the other, or nearly it.
func similar(a, b, stemA, stemB string) bool {
	if min(len(stemA), len(stemB)) < 5 {
		return false
	}
	return strings.Contains(stemA, stemB) || strings.Contains(stemB, stemA) || matchr.JaroWinkler(a, b, false) >= 0.92
}

// derived reports how much of who's name is in by's username: 2 for both given
// and family name (one of them may be an initial), 1 for one of them.
func derived(who, by *note) int {
	stem := by.stem()
	if stem == "" {
		return 0
	}
	best := 0
	for _, u := range who.names() {
		family := u.tokens[len(u.tokens)-1]
		for _, m := range u.made {
			if slices.Contains(m.forms, stem) {
				return 2
			}
			if len(m.given) >= 3 && len(family) >= 3 && strings.Contains(stem, m.given) && strings.Contains(stem, family) {
				return 2
			}
		}
		for _, t := range u.tokens {
			if len(t) >= 4 && strings.Contains(stem, t) {
				best = 1
			}
		}
		for _, n := range u.nicks {
			if len(n) >= 4 && strings.Contains(stem, n) {
				best = 1
			}
		}
	}
	return best
}

// forms are the usernames that people make of their names.
func forms(given, family string) []string {
	return []string{
		given + family, family + given, given[:1] + family, given + family[:1], family + given[:1], family[:1] + given,
		vowelless(family) + given[:1], vowelless(given) + vowelless(family), given + vowelless(family),
	}
}

func vowelless(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("aeiou", r) {
			return -1
		}
		return r
	}, s)
}

// covered reports whether a username is nothing but parts of a name.
func covered(handle string, tokens []string) bool {
	rest := handle
	for _, t := range tokens {
		for _, v := range append([]string{t}, Nicknames(t)...) {
			if len(v) >= 3 && strings.Contains(rest, v) {
				rest = strings.Replace(rest, v, "", 1)
				break
			}
		}
	}
	return rest != handle && len(rest) <= 2
}

// Guesses are the usernames that somebody of the name may have, as
// identity.HandleKey has them: the most usual ones first.
func Guesses(name string) []string {
	tokens := identity.NameTokens(name)
	if len(tokens) < 2 {
		return nil
	}
	given, family := tokens[0], tokens[len(tokens)-1]
	seen := make(map[string]bool)
	var out []string
	for _, g := range append([]string{given}, Nicknames(given)...) {
		for _, f := range forms(g, family) {
			if len(f) >= 4 && !seen[f] && len(out) < 40 {
				seen[f] = true
				out = append(out, f)
			}
		}
	}
	return out
}

// Mailbox is the part of an e-mail address before the at sign, where it can be
// somebody's username; "" for what a firm or a service uses.
func Mailbox(address string) string {
	local, host, ok := strings.Cut(address, "@")
	if !ok || strings.Contains(host, "noreply") {
		return ""
	}
	local, _, _ = strings.Cut(local, "+")
	switch local {
	case "info", "hello", "team", "contact", "office", "jobs", "mail", "me", "admin", "support", "noreply", "no-reply", "sales", "hi", "dev", "root", "git", "github":
		return ""
	}
	if len(local) < 3 {
		return ""
	}
	return local
}

// display is whether the name that one shows is the other's username.
func display(p Pair) string {
	is := func(from, to *note) bool {
		return slices.ContainsFunc(from.handlesShown(), func(s shownHandle) bool {
			return (s.token == to.flat() || s.token == to.stem() || s.flat == to.flat()) &&
				!slices.ContainsFunc(to.names(), func(u usableName) bool { return covered(s.token, u.tokens) })
		})
	}
	a, b := p.notes()
	if is(a, b) || is(b, a) {
		return "handle"
	}
	return "none"
}

// mailbox is whether one's e-mail address begins with the other's username.
func mailbox(p Pair) string {
	best := Missing
	a, b := p.notes()
	for _, o := range [...][2]*note{{a, b}, {b, a}} {
		for _, box := range o[0].mailboxes() {
			level := Different
			switch {
			case box.flat == o[1].flat() && (madeOfName(a, box.stem) || madeOfName(b, box.stem)):
				level = "same_name"
			case box.flat == o[1].flat():
				level = "same_word"
			case box.stem != "" && box.stem == o[1].stem():
				level = "stem"
			}
			if better(level, best, []string{"same_word", "same_name", "stem"}) {
				best = level
			}
		}
	}
	return best
}

// madeOfName reports whether a handle is nothing but one's name.
func madeOfName(who *note, handle string) bool {
	return slices.ContainsFunc(who.names(), func(u usableName) bool { return covered(handle, u.tokens) })
}

// motto is what a username has beside a name, where the other side has it among
// places or topics: junooslo.
func motto(p Pair) string {
	a, b := p.notes()
	for _, o := range [...][2]*note{{a, b}, {b, a}} {
		by, of := o[0], o[1]
		stem := by.stem()
		rest := ""
		without := func(t string) {
			if len(t) >= 3 && strings.HasPrefix(stem, t) {
				rest = stem[len(t):]
			}
		}
		for _, who := range o {
			for _, u := range who.names() {
				without(u.tokens[0])
				without(u.tokens[len(u.tokens)-1])
				for _, nick := range u.nicks {
					without(nick)
				}
			}
		}
		if len(rest) < 3 {
			continue
		}
		if slices.ContainsFunc(of.placeParts(), func(s placePart) bool { return s.joined == rest }) {
			return "place"
		}
		if len(rest) >= 4 && of.topicWords()[rest] {
			return "topic"
		}
	}
	return "none"
}
