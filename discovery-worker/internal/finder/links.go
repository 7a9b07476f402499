package finder

import (
	"context"
	"maps"
	"slices"

	"muster/discovery-worker/internal/people"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// findLinked follows declared, mentioned and recorded links of a profile, in both directions.
func (s *search) findLinked(ctx context.Context, from *people.Profile) error {
	keys := s.linkKeys(from)
	named, link, declares := keys.namedAccounts, keys.link, keys.declaring
	found, err := s.cache.lookup(ctx, keys.all())
	if err != nil {
		return err
	}
	for i, a := range slices.Concat(from.Declared, from.Mentioned) {
		k := usernameKey(a)
		if !named[k] || len(found[k]) > 0 {
			continue
		}
		named[k] = false
		if p := s.externalProfile(ctx, a, i < len(from.Declared)); p != nil {
			s.addExternalCandidate(p, rankLink)
		}
	}
	for k := range named {
		for _, row := range found[k] {
			if ref, ok := people.RefOf(row); ok {
				l := s.addCandidate(ref, rankLink)
				l.usernames = append(l.usernames, k.Value)
			}
		}
	}
	for _, k := range declares {
		for _, row := range found[k] {
			if ref, ok := people.RefOf(row); ok {
				s.addCandidate(ref, rankLink).anyUsername = true
			}
		}
	}
	return s.findStated(ctx, found[link])
}

// linkKeys are the lookup keys of a profile's links.
type linkKeys struct {
	namedAccounts map[people.Key]bool // accounts that the profile names
	link          people.Key          // account-links that name the profile
	declaring     []people.Key        // profiles that name the profile
}

func (k linkKeys) all() []people.Key {
	return append(append(slices.Collect(maps.Keys(k.namedAccounts)), k.link), k.declaring...)
}

func (s *search) linkKeys(from *people.Profile) linkKeys {
	k := linkKeys{namedAccounts: make(map[people.Key]bool),
		link: people.Key{Type: readmodel.LookupLink(from.Platform), Value: from.Key}}
	for _, a := range slices.Concat(from.Declared, from.Mentioned) {
		if a.Platform != s.seed.Platform && a.Platform != from.Platform {
			k.namedAccounts[usernameKey(a)] = true
		}
	}
	for _, platform := range otherPlatforms(from.Platform) {
		if platform == s.seed.Platform {
			continue
		}
		k.declaring = append(k.declaring,
			people.Key{Type: readmodel.LookupDeclared(platform, from.Platform), Value: from.Key},
			people.Key{Type: readmodel.LookupMention(platform, from.Platform), Value: from.Key})
	}
	return k
}

// findStated follows account-link records to the owners of the usernames they name.
func (s *search) findStated(ctx context.Context, rows []readmodel.LookupRow) error {
	confidence := make(map[people.Key][]float32)
	accounts := make(map[people.Key]event.Account)
	var keys []people.Key
	for _, row := range rows {
		if a, ok := linkTarget(row); ok && a.Platform != s.seed.Platform {
			confidence[usernameKey(a)] = append(confidence[usernameKey(a)], row.Confidence)
			accounts[usernameKey(a)] = a
			keys = append(keys, usernameKey(a))
		}
	}
	if len(keys) == 0 {
		return nil
	}
	found, err := s.cache.lookup(ctx, keys)
	if err != nil {
		return err
	}
	for k, stated := range confidence {
		for _, row := range found[k] {
			if ref, ok := people.RefOf(row); ok {
				l := s.addCandidate(ref, rankLink)
				l.usernames = append(l.usernames, k.Value)
				l.stated = append(l.stated, stated...)
			}
		}
		if len(found[k]) > 0 {
			continue
		}
		if p := s.externalProfile(ctx, accounts[k], true); p != nil {
			l := s.addExternalCandidate(p, rankLink)
			l.stated = append(l.stated, stated...)
		}
	}
	return nil
}

// externalProfile returns the profile of an account without a record: from a live lookup, or, if
// the account is declared, from its link. It returns nil for an erased person.
func (s *search) externalProfile(ctx context.Context, a event.Account, declared bool) *people.Profile {
	p, status := s.lookUpLive(ctx, a.Platform, a.Username)
	if p != nil || status == statusErased || !declared {
		return p
	}
	if p = people.NewUnrecorded(a); s.finder.reader.IsErased(p) {
		return nil
	}
	return p
}
