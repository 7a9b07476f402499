package finder

import (
	"context"
	"maps"
	"slices"

	"muster/discovery-worker/internal/people"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// links follows what is declared, mentioned or stated about an account, both
// ways.
func (s *search) links(ctx context.Context, from *people.Profile) error {
	asked := s.linkKeys(from)
	named, link, declares := asked.named, asked.link, asked.declares
	found, err := s.known.lookup(ctx, asked.all())
	if err != nil {
		return err
	}
	for i, a := range slices.Concat(from.Declared, from.Mentioned) {
		k := keyOf(a)
		if !named[k] || len(found[k]) > 0 {
			continue
		}
		named[k] = false
		if p := s.unrecorded(ctx, a, i < len(from.Declared)); p != nil {
			s.adopt(p, rankLink)
		}
	}
	for k := range named {
		for _, row := range found[k] {
			if ref, ok := people.RefOf(row); ok {
				l := s.add(ref, rankLink)
				l.usernames = append(l.usernames, k.Value)
			}
		}
	}
	for _, k := range declares {
		for _, row := range found[k] {
			if ref, ok := people.RefOf(row); ok {
				s.add(ref, rankLink).anyhow = true
			}
		}
	}
	return s.stated(ctx, found[link])
}

// linkKeys are what links are looked up by.
type linkKeys struct {
	named    map[people.Key]bool // accounts that a profile names
	link     people.Key          // account-links that name it
	declares []people.Key        // who names it
}

func (k linkKeys) all() []people.Key {
	return append(append(slices.Collect(maps.Keys(k.named)), k.link), k.declares...)
}

func (s *search) linkKeys(from *people.Profile) linkKeys {
	k := linkKeys{named: make(map[people.Key]bool), link: people.Key{Type: readmodel.LookupLink(from.Platform), Value: from.Key}}
	for _, a := range slices.Concat(from.Declared, from.Mentioned) {
		if a.Platform != s.seed.Platform && a.Platform != from.Platform {
			k.named[keyOf(a)] = true
		}
	}
	for _, platform := range others(from.Platform) {
		if platform == s.seed.Platform {
			continue
		}
		k.declares = append(k.declares,
			people.Key{Type: readmodel.LookupDeclared(platform, from.Platform), Value: from.Key},
			people.Key{Type: readmodel.LookupMention(platform, from.Platform), Value: from.Key})
	}
	return k
}

// stated follows account-link records: who holds the usernames that they name.
func (s *search) stated(ctx context.Context, rows []readmodel.LookupRow) error {
	confidence := make(map[people.Key][]float32)
	accounts := make(map[people.Key]event.Account)
	var keys []people.Key
	for _, row := range rows {
		if a, ok := splitAccount(row); ok && a.Platform != s.seed.Platform {
			confidence[keyOf(a)] = append(confidence[keyOf(a)], row.Confidence)
			accounts[keyOf(a)] = a
			keys = append(keys, keyOf(a))
		}
	}
	if len(keys) == 0 {
		return nil
	}
	found, err := s.known.lookup(ctx, keys)
	if err != nil {
		return err
	}
	for k, stated := range confidence {
		for _, row := range found[k] {
			if ref, ok := people.RefOf(row); ok {
				l := s.add(ref, rankLink)
				l.usernames = append(l.usernames, k.Value)
				l.stated = append(l.stated, stated...)
			}
		}
		if len(found[k]) > 0 {
			continue
		}
		if p := s.unrecorded(ctx, accounts[k], true); p != nil {
			l := s.adopt(p, rankLink)
			l.stated = append(l.stated, stated...)
		}
	}
	return nil
}

// unrecorded is an account of which nothing is on record: as its host has it, else, if it
// is declared, as its link names it; nil for somebody who was erased.
func (s *search) unrecorded(ctx context.Context, a event.Account, declared bool) *people.Profile {
	p, said := s.live(ctx, a.Platform, a.Username)
	if p != nil || said == erased || !declared {
		return p
	}
	if p = people.Unrecorded(a); s.finder.reader.Erased(p) {
		return nil
	}
	return p
}
