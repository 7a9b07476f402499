package readstore

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"muster/schemas/readmodel"
)

// statement says that an account belongs to whom is being followed.
type statement struct {
	declared   bool
	confidence float32
	version    int64 // of what states it
	to         *person
}

// linked is where a link leads: to nobody when person is nil.
type linked struct {
	person *person
	// by says how discovery found the link; nil: it is a declared one.
	by *discoveredLink
}

// follow returns the record of the other platform that a record's link leads to.
func (s *session) follow(ctx context.Context, from *person) (linked, error) {
	return s.followAccount(ctx, from.platform(), from.usernameKey(), from)
}

// followAccount follows the link of an account by its username key, a declared one
// before one that discovery found; record is the account's own record, or nil when
// it has none (MAPPING.md, section 2, "Followed link").
func (s *session) followAccount(ctx context.Context, p platform, username string, record *person) (linked, error) {
	to, err := s.declaredLink(ctx, p, username, record)
	if err != nil || to != nil {
		return linked{person: to}, err
	}
	return s.discoveredLink(ctx, p, username, record)
}

// linkKeys are the lookups that following an account begins with.
func linkKeys(p platform, username string) []lookupKey {
	return []lookupKey{{p.other().declares, username}, {p.link, username}}
}

// declaredLink follows the declared links of an account. Statements, and their
// order, are those of MAPPING.md, section 2, "Followed link": what the record
// declares, the records that declare its username, account-links.
func (s *session) declaredLink(ctx context.Context, p platform, username string, record *person) (*person, error) {
	other := p.other()
	var declared []string
	if record != nil {
		declared = record.declared()
		declared = declared[:min(len(declared), maxDeclared)]
	}
	keys := linkKeys(p, username)
	for _, d := range declared {
		keys = append(keys, lookupKey{other.username, d})
	}
	if err := s.ask(ctx, keys...); err != nil {
		return nil, err
	}
	declarers := s.found[lookupKey{other.declares, username}]
	links := s.links(p, username)

	// One more round for everything that is needed to weigh the statements:
	// the main rows, and who holds the usernames that account-links name.
	targets := candidates(other, declarers)
	for _, d := range declared {
		targets = append(targets, candidates(other, s.found[lookupKey{other.username, d}])...)
	}
	linked := make([]lookupKey, 0, len(links))
	for _, l := range links {
		linked = append(linked, lookupKey{other.username, l.username})
	}
	err := both(
		len(targets) > 0, func() error { return s.read(ctx, targets) },
		len(linked) > 0, func() error { return s.ask(ctx, linked...) })
	if err != nil {
		return nil, err
	}
	targets = nil
	for _, k := range linked {
		targets = append(targets, candidates(other, s.found[k])...)
	}
	if err := s.read(ctx, targets); err != nil {
		return nil, err
	}

	var stated []statement
	for _, d := range declared {
		to, err := s.holder(ctx, other, d)
		if err != nil {
			return nil, err
		}
		stated = append(stated, statement{declared: true, confidence: 1, version: record.version(), to: to})
	}
	reverse, err := s.existing(ctx, other, declarers, func(q *person) bool { return slices.Contains(q.declared(), username) })
	if err != nil {
		return nil, err
	}
	for _, q := range reverse {
		stated = append(stated, statement{declared: true, confidence: 1, version: q.version(), to: q})
	}
	for _, l := range links {
		to, err := s.holder(ctx, other, l.username)
		if err != nil {
			return nil, err
		}
		stated = append(stated, statement{declared: l.declared, confidence: l.confidence, version: l.version, to: to})
	}
	stated = slices.DeleteFunc(stated, func(st statement) bool { return st.to == nil })
	if len(stated) == 0 {
		return nil, nil
	}
	return slices.MinFunc(stated, func(a, b statement) int {
		switch {
		case a.declared != b.declared && a.declared:
			return -1
		case a.declared != b.declared:
			return 1
		}
		return cmp.Or(cmp.Compare(b.confidence, a.confidence), cmp.Compare(b.version, a.version), a.to.compareIdentity(b.to))
	}).to, nil
}

// link is an account-link that names the other side's username.
type link struct {
	username   string
	declared   bool
	confidence float32
	version    int64
}

// links are the account-links of an account to the other platform that may be
// followed. They have been asked for.
func (s *session) links(p platform, username string) []link {
	prefix := p.other().name + ":"
	var out []link
	for _, r := range s.found[lookupKey{p.link, username}] {
		if r.TargetKind != readmodel.TargetAccount || !r.Declared && r.Confidence < readmodel.DiscoveredConfidence {
			continue
		}
		if to, ok := strings.CutPrefix(r.Target, prefix); ok && !s.store.ErasedAccount(p.other().name, to) {
			out = append(out, link{to, r.Declared, r.Confidence, r.Version})
		}
	}
	return out
}
