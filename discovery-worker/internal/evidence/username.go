package evidence

import (
	"math"
	"slices"
	"strings"

	"github.com/antzucaro/matchr"

	"muster/schemas/identity"
)

// compareUsername compares the two usernames, and each with the other's name. The same rare word on
// both sides is strong evidence. The same name as username is weak evidence, see
// usernameDerivation.
func compareUsername(p Pair) string {
	a, b := p.A.Key, p.B.Key
	if a == "" || b == "" { // a description has no username
		return Missing
	}
	na, nb := p.features()
	ha, hb := na.keyStem(), nb.keyStem()
	flatA, flatB := na.strippedKey(), nb.strippedKey()
	switch {
	case flatA == flatB:
		return "same" + usernameDerivation(p, flatA)
	case ha != "" && ha == hb:
		return "same_stem" + usernameDerivation(p, ha)
	}
	fromB, fromA := derivedParts(na, nb), derivedParts(nb, na)
	switch {
	case fromA == 2 || fromB == 2:
		return "from_name" + commonestNameParts(na.names(), nb.names())
	case isSimilarUsername(flatA, flatB, ha, hb):
		return "similar"
	case fromA == 1 || fromB == 1:
		return "from_part"
	}
	return Different
}

// usernameDerivation returns a level suffix for a shared username: whether it is only the name, and
// otherwise its information content.
func usernameDerivation(p Pair, handle string) string {
	a, b := p.features()
	for _, side := range [...]*features{a, b} {
		for _, u := range side.names() {
			if isMadeOf(handle, u.tokens) {
				return "_name" + commonPartSuffixes[u.commonParts] + termFrequency(min(p.SimilarUsernames, 2))
			}
		}
	}
	return "_word" + informationSuffix(handle) + termFrequency(min(p.SimilarUsernames, 2))
}

// informationSuffix returns a level suffix for the self-information of a username that is not a
// name, from letter frequencies: below 30 bits, below 45, or more.
func informationSuffix(handle string) string {
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

// letterBits returns -log2 of a letter's frequency in English text.
func letterBits(r rune) (float64, bool) {
	const letters = "etaoinshrdlcumwfgypbvkjxqz"
	percent := [...]float64{12.7, 9.1, 8.2, 7.5, 7, 6.7, 6.3, 6.1, 6, 4.3, 4, 2.8, 2.8, 2.4, 2.4, 2.2, 2, 2, 1.9, 1.5,
		1, 0.8, 0.15, 0.15, 0.1, 0.07}
	i := strings.IndexRune(letters, r)
	if i < 0 {
		return 0, false
	}
	return -math.Log2(percent[i] / 100), true
}

func stripSeparators(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' {
			return -1
		}
		return r
	}, s)
}

// isSimilarUsername reports whether one username contains the other, or nearly equals it.
func isSimilarUsername(a, b, stemA, stemB string) bool {
	if min(len(stemA), len(stemB)) < 5 {
		return false
	}
	return strings.Contains(stemA, stemB) || strings.Contains(stemB, stemA) || matchr.JaroWinkler(a, b, false) >= 0.92
}

// derivedParts returns how many parts of a person's name are in an account's username: 2 for given
// and family name, one of which may be an initial, 1 for one of them.
func derivedParts(person, account *features) int {
	stem := account.stem()
	if stem == "" {
		return 0
	}
	best := 0
	for _, u := range person.names() {
		family := u.tokens[len(u.tokens)-1]
		for _, m := range u.forms {
			if slices.Contains(m.forms, stem) {
				return 2
			}
			if len(m.given) >= 3 && len(family) >= 3 && strings.Contains(stem, m.given) &&
				strings.Contains(stem, family) {
				return 2
			}
		}
		for _, t := range u.tokens {
			if len(t) >= 4 && strings.Contains(stem, t) {
				best = 1
			}
		}
		for _, n := range u.nicknames {
			if len(n) >= 4 && strings.Contains(stem, n) {
				best = 1
			}
		}
	}
	return best
}

// usernameForms returns usernames that people derive from their name.
func usernameForms(given, family string) []string {
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

// isMadeOf reports whether a username consists of parts of a name.
func isMadeOf(handle string, tokens []string) bool {
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

// GuessUsernames returns likely usernames for a name, as identity.UsernameBlockingKey normalizes them, most
// likely first.
func GuessUsernames(name string) []string {
	tokens := identity.NameTokens(name)
	if len(tokens) < 2 {
		return nil
	}
	given, family := tokens[0], tokens[len(tokens)-1]
	seen := make(map[string]bool)
	var out []string
	for _, g := range append([]string{given}, Nicknames(given)...) {
		for _, f := range usernameForms(g, family) {
			if len(f) >= 4 && !seen[f] && len(out) < 40 {
				seen[f] = true
				out = append(out, f)
			}
		}
	}
	return out
}

// MailboxUsername returns the local part of an e-mail address if it may be a username, or "" for
// role addresses and services.
func MailboxUsername(address string) string {
	local, host, ok := strings.Cut(address, "@")
	if !ok || strings.Contains(host, "noreply") {
		return ""
	}
	local, _, _ = strings.Cut(local, "+")
	switch local {
	case "info", "hello", "team", "contact", "office", "jobs", "mail", "me", "admin", "support", "noreply", "no-reply",
		"sales", "hi", "dev", "root", "git", "github":
		return ""
	}
	if len(local) < 3 {
		return ""
	}
	return local
}

// compareDisplay reports whether a display name is the other side's username.
func compareDisplay(p Pair) string {
	isHandleOf := func(from, to *features) bool {
		return slices.ContainsFunc(from.displayHandles(), func(s displayHandle) bool {
			return (s.token == to.strippedKey() || s.token == to.stem() || s.flat == to.strippedKey()) &&
				!slices.ContainsFunc(to.names(), func(u usableName) bool { return isMadeOf(s.token, u.tokens) })
		})
	}
	a, b := p.features()
	if isHandleOf(a, b) || isHandleOf(b, a) {
		return "handle"
	}
	return "none"
}

// compareMailbox compares the local parts of e-mail addresses with the other side's username.
func compareMailbox(p Pair) string {
	best := Missing
	a, b := p.features()
	for _, o := range [...][2]*features{{a, b}, {b, a}} {
		for _, box := range o[0].mailboxes() {
			level := Different
			switch {
			case box.stripped == o[1].strippedKey() && (isMadeOfName(a, box.stem) || isMadeOfName(b, box.stem)):
				level = "same_name"
			case box.stripped == o[1].strippedKey():
				level = "same_word"
			case box.stem != "" && box.stem == o[1].stem():
				level = "stem"
			}
			if isBetter(level, best, []string{"same_word", "same_name", "stem"}) {
				best = level
			}
		}
	}
	return best
}

// isMadeOfName reports whether a handle consists of parts of the person's name.
func isMadeOfName(person *features, handle string) bool {
	return slices.ContainsFunc(person.names(), func(u usableName) bool { return isMadeOf(handle, u.tokens) })
}

// compareUsernameSuffix looks up the part of a username after the name, as in junooslo, in the
// places and topics of the other side.
func compareUsernameSuffix(p Pair) string {
	a, b := p.features()
	for _, o := range [...][2]*features{{a, b}, {b, a}} {
		owner, other := o[0], o[1]
		stem := owner.stem()
		rest := ""
		trimPart := func(t string) {
			if len(t) >= 3 && strings.HasPrefix(stem, t) {
				rest = stem[len(t):]
			}
		}
		for _, side := range o {
			for _, u := range side.names() {
				trimPart(u.tokens[0])
				trimPart(u.tokens[len(u.tokens)-1])
				for _, nick := range u.nicknames {
					trimPart(nick)
				}
			}
		}
		if len(rest) < 3 {
			continue
		}
		if slices.ContainsFunc(other.placeParts(), func(s placePart) bool { return s.joined == rest }) {
			return "place"
		}
		if len(rest) >= 4 && other.topicWords()[rest] {
			return "topic"
		}
	}
	return "none"
}
