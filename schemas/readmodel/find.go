package readmodel

import (
	"slices"
	"strings"

	"muster/schemas/identity"
)

// Lookup types for discovery, which looks for people without an identifier. A match is weak evidence.
const (
	lookupName   = "name."
	lookupHandle = "handle."
)

// LookupName returns the lookup type of name blocking keys (identity.NameBlockingKeys) on a platform.
func LookupName(platform string) LookupType { return LookupType(lookupName + platform) }

// LookupHandle returns the lookup type of username blocking keys (identity.UsernameBlockingKey) on a platform.
func LookupHandle(platform string) LookupType { return LookupType(lookupHandle + platform) }

// LookupMention returns the lookup type of usernames of another platform that texts and websites of people
// mention, outside the fields for usernames.
func LookupMention(platform, other string) LookupType {
	return LookupType(platform + ".mentions_" + other)
}

// mention indexes a person by the accounts on other platforms that texts and websites mention.
func (r *Renderer) mention(l *lookupWriter, platform string, websites []string, texts ...string) {
	add := func(found []identity.Account) {
		for _, a := range found {
			if a.Platform != platform {
				l.add(LookupMention(platform, a.Platform), identity.NormalizeUsername(a.Username))
			}
		}
	}
	for _, t := range texts {
		if strings.ContainsAny(t, "/@:") { // Required in every mention.
			add(r.platforms.FindMentions(t))
		}
	}
	add(r.platforms.FindAccounts(websites))
}

// partOfName is the source of a name key that is not of the given and the family name ([NameCount]).
const partOfName = "part"

// find indexes a person by the blocking keys of discovery.
func (l *lookupWriter) find(platform, username string, names ...string) {
	l.add(LookupHandle(platform), identity.UsernameBlockingKey(username))
	var keys, whole []string
	for _, name := range names {
		if name == "" {
			continue
		}
		hasPair := false
		for _, k := range identity.NameBlockingKeys(name) {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
			if !hasPair && k[0] != '~' && k[0] != '=' { // The first one is that of given and family name.
				hasPair, whole = true, append(whole, k)
			}
		}
	}
	for _, k := range keys {
		row := *l
		if !slices.Contains(whole, k) {
			row.source = partOfName
		}
		row.add(LookupName(platform), k)
	}
}
