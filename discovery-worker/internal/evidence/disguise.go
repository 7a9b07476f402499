package evidence

import (
	"slices"
	"strings"
	"unicode"

	"muster/discovery-worker/internal/people"
)

// disguised reports whether a name or the username has a word of letters of two
// scripts that look alike: nobody writes their own name so.
func disguised(p *people.Profile) bool {
	return mixed(p.Username) || slices.ContainsFunc(p.Names, mixed)
}

// mixed reports whether a word of the text mixes Latin letters with those of
// scripts that have their likeness, or hides characters between letters.
func mixed(text string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.Is(unicode.Mn, r) && !unicode.Is(unicode.Cf, r)
	}), func(word string) bool {
		latin, alike, hidden := false, false, false
		for i, r := range word {
			switch {
			case unicode.In(r, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee, unicode.Coptic, unicode.Lisu):
				alike = true
			case unicode.Is(unicode.Latin, r):
				latin = true
			case unicode.Is(unicode.Cf, r):
				// Crawls leave marks of direction around words, never within.
				hidden = hidden || i > 0 && strings.TrimRightFunc(word[i:], func(r rune) bool { return unicode.Is(unicode.Cf, r) }) != "" && latin
			}
		}
		return latin && (alike || hidden)
	})
}

// organization reports whether one of two calls itself what the other is employed
// by, or bears a word that only organizations have in their names.
func organization(a, b *note) bool {
	employs := func(firm, person *note) bool {
		return slices.ContainsFunc(firm.namesAsFirms(), func(f company) bool {
			return f.spaced != "" && slices.ContainsFunc(person.companies(), func(e company) bool { return e.spaced == f.spaced })
		})
	}
	return employs(a, b) || employs(b, a) || a.bearsOrganization() || b.bearsOrganization()
}

// ofOrganizations reports whether a name has a word that only organizations have in
// theirs.
func ofOrganizations(name string) bool {
	return slices.ContainsFunc(words(name), func(s string) bool {
		switch s {
		case "official", "gmbh", "inc", "llc", "ltd", "corp", "corporation", "foundation", "community", "newsroom", "helpdesk", "hq", "careers", "ministry", "university", "fanclub", "fans":
			return true
		}
		return false
	})
}
