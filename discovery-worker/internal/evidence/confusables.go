package evidence

import (
	"slices"
	"strings"
	"unicode"

	"muster/discovery-worker/internal/people"
)

// usesConfusables reports whether a name or the username has a word that mixes look-alike letters
// of two scripts (UTS #39), which is a sign of impersonation.
func usesConfusables(p *people.Profile) bool {
	return isMixedScript(p.Username) || slices.ContainsFunc(p.Names, isMixedScript)
}

// isMixedScript reports whether a word of the text mixes Latin letters with those of a look-alike
// script, or hides characters between letters.
func isMixedScript(text string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.Is(unicode.Mn, r) && !unicode.Is(unicode.Cf, r)
	}), func(word string) bool {
		latin, hasLookalike, hidden := false, false, false
		for i, r := range word {
			switch {
			case unicode.In(r, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee, unicode.Coptic,
				unicode.Lisu):
				hasLookalike = true
			case unicode.Is(unicode.Latin, r):
				latin = true
			case unicode.Is(unicode.Cf, r):
				// Crawlers leave directional marks around words, but not inside.
				hidden = hidden || i > 0 && strings.TrimRightFunc(word[i:], func(r rune) bool {
					return unicode.Is(unicode.Cf, r)
				}) != "" && latin
			}
		}
		return latin && (hasLookalike || hidden)
	})
}

// isOrganizationPair reports whether the name of one side is an employer of the other, or whether a
// name has a word that only organizations use.
func isOrganizationPair(a, b *features) bool {
	employs := func(firm, person *features) bool {
		return slices.ContainsFunc(firm.namesAsCompanies(), func(f company) bool {
			return f.spaced != "" && slices.ContainsFunc(person.companies(), func(e company) bool {
				return e.spaced == f.spaced
			})
		})
	}
	return employs(a, b) || employs(b, a) || a.hasOrganizationName() || b.hasOrganizationName()
}

// hasOrganizationWord reports whether a name has a word that only organizations use.
func hasOrganizationWord(name string) bool {
	return slices.ContainsFunc(words(name), func(s string) bool {
		switch s {
		case "official", "gmbh", "inc", "llc", "ltd", "corp", "corporation", "foundation", "community", "newsroom",
			"helpdesk", "hq", "careers", "ministry", "university", "fanclub", "fans":
			return true
		}
		return false
	})
}
