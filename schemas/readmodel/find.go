package readmodel

import (
	"slices"
	"strings"

	"muster/schemas/identity"
)

// Lookup types under which people are found who are not known by an identifier,
// for discovery. A hit says little by itself.
const (
	lookupName   = "name."
	lookupHandle = "handle."
)

// LookupName is the lookup type under which people of a platform are filed by
// the keys of their names (identity.NameKeys).
func LookupName(platform string) LookupType { return LookupType(lookupName + platform) }

// LookupHandle is the lookup type under which people of a platform are filed by
// the making of their username (identity.HandleKey).
func LookupHandle(platform string) LookupType { return LookupType(lookupHandle + platform) }

// LookupMention is the lookup type under which people of a platform are filed by
// usernames of another that their texts and websites name, beside the fields that
// are made for it.
func LookupMention(platform, other string) LookupType {
	return LookupType(platform + ".mentions_" + other)
}

// mention files a person under the accounts on other platforms that texts and
// websites name.
func (r *Renderer) mention(l *lookupWriter, platform string, websites []string, texts ...string) {
	add := func(found []identity.Account) {
		for _, a := range found {
			if a.Platform != platform {
				l.add(LookupMention(platform, a.Platform), identity.UsernameKey(a.Username))
			}
		}
	}
	for _, t := range texts {
		if strings.ContainsAny(t, "/@:") { // what every mention has
			add(r.platforms.FindMentions(t))
		}
	}
	add(r.platforms.FindAccounts(websites))
}

// find files a person under what discovery looks for.
func (l *lookupWriter) find(platform, username string, names ...string) {
	l.add(LookupHandle(platform), identity.HandleKey(username))
	var seen []string
	for _, name := range names {
		if name == "" {
			continue
		}
		for _, k := range identity.NameKeys(name) {
			if !slices.Contains(seen, k) {
				seen = append(seen, k)
				l.add(LookupName(platform), k)
			}
		}
	}
}
