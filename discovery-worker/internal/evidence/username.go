package evidence

import (
	"math"
	"slices"
	"strings"

	"github.com/antzucaro/matchr"

	"muster/schemas/identity"
)

// compareUsername compares the two usernames, and each with the other's name. The same rare word on
// both sides is strong evidence. If the names agree, a username that consists of the name is the
// same fact once more, and has a level of its own.
func compareUsername(p Pair) string {
	level, _ := matchUsernames(p)
	if isFromName(level) && agrees(compareName(p)) {
		return level + "_known"
	}
	return level
}

// isFromName reports whether a level says that a username is part of a name.
func isFromName(level string) bool {
	return level == usernameSameName || level == usernameFromName || level == usernameFromPart
}

const (
	usernameSameName = "same_name" // both are the same parts of a name
	usernameFromName = "from_name" // one has given name and family name of the other side
	usernameFromPart = "from_part" // one has a part of the name of the other side
)

// matchUsernames returns the level of two usernames, and the parts of a name that it rests on.
func matchUsernames(p Pair) (string, []matchedPart) {
	if p.A.Key == "" || p.B.Key == "" { // a description has no username
		return Missing, nil
	}
	na, nb := p.features()
	ha, hb := na.keyStem(), nb.keyStem()
	flatA, flatB := na.strippedKey(), nb.strippedKey()
	if flatA == flatB || ha != "" && ha == hb {
		handle := ha
		if flatA == flatB {
			handle = flatA
		}
		for _, side := range [...]*features{na, nb} {
			for _, u := range side.names() {
				if isMadeOf(handle, u.tokens) {
					return usernameSameName, containedParts(handle, u.tokens)
				}
			}
		}
		return "same_word" + informationSuffix(handle), nil
	}
	fromB, partsB := derivedParts(na, nb)
	fromA, partsA := derivedParts(nb, na)
	if fromA > fromB {
		fromB, partsB = fromA, partsA
	}
	switch {
	case fromB == 2:
		return usernameFromName, partsB
	case isSimilarUsername(flatA, flatB, ha, hb):
		return "similar", nil
	case fromB == 1:
		return usernameFromPart, partsB
	}
	return Different, nil
}

// containedParts returns the parts of a name that a handle contains.
func containedParts(handle string, tokens []string) []matchedPart {
	var out []matchedPart
	for _, t := range tokens {
		if len(t) >= 3 && strings.Contains(handle, t) && len(out) < 2 {
			out = append(out, matchedPart{t, t})
		}
	}
	return out
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
// and family name, one of which may be an initial, 1 for one of them. It also returns these parts.
func derivedParts(person, account *features) (int, []matchedPart) {
	stem := account.stem()
	if stem == "" {
		return 0, nil
	}
	best := 0
	var parts []matchedPart
	for _, u := range person.names() {
		given, family := u.tokens[0], u.tokens[len(u.tokens)-1]
		for _, m := range u.forms {
			if len(m.given) >= 3 && len(family) >= 3 && strings.Contains(stem, m.given) &&
				strings.Contains(stem, family) {
				return 2, []matchedPart{{given, m.given}, {family, family}}
			}
			if i := slices.Index(m.forms, stem); i >= 0 {
				match := []matchedPart{{given, m.given}, {family, family}}
				// Of an initial, the username says no more.
				if !strings.Contains(stem, m.given) && strings.Contains(stem, family) {
					match[0][1] = m.given[:1]
				} else if !strings.Contains(stem, family) && strings.Contains(stem, m.given) && len(m.given) > 2 {
					match[1][1] = family[:1]
				}
				return 2, match
			}
		}
		for _, t := range u.tokens {
			if len(t) >= 4 && strings.Contains(stem, t) {
				best, parts = 1, []matchedPart{{t, t}}
			}
		}
		for _, n := range u.nicknames {
			if len(n) >= 4 && strings.Contains(stem, n) {
				best, parts = 1, []matchedPart{{given, n}}
			}
		}
	}
	return best, parts
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
