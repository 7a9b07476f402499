package readstore

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// discoveredLink says that a record was reached by a link that discovery found,
// from which account, and how sure that is. It is served with the record.
type discoveredLink struct {
	platform, username string
	confidence         float64
}

// appendDiscovered appends the member that marks a record as reached by a link that
// discovery found; a nil link is a declared one, which needs no mark.
func appendDiscovered(b []byte, by *discoveredLink) []byte {
	if by == nil {
		return b
	}
	b = append(appendName(b, "discovered_link"), '{')
	b = appendString(b, "platform", by.platform)
	b = appendString(b, "username", by.username)
	b = strconv.AppendFloat(appendName(b, "confidence"), by.confidence, 'f', -1, 64)
	return append(b, '}')
}

// discoveredStatement is what a kept result of discovery says of two accounts: that
// they are one person's.
type discoveredStatement struct {
	input, found event.Social
	confidence   float64
	version      int64
}

// fileDiscovered files what a kept result says under both accounts.
func fileDiscovered(found map[uint64][]discoveredStatement, r *readmodel.DiscoveryRow) {
	var d event.Discovery
	if json.Unmarshal([]byte(r.Result), &d) != nil || d.Validate() != nil || !d.Complete() {
		return
	}
	for _, s := range d.Socials[1:] {
		if s.Confidence < readmodel.DiscoveredConfidence {
			continue
		}
		// The input is filed under the name by which it was asked for.
		input := d.Socials[0]
		input.Account = d.Input
		st := discoveredStatement{input, s, s.Confidence, d.At.UnixMicro()}
		for _, a := range []event.Account{d.Input, s.Account} {
			h := readmodel.DiscoveryHash(a.Platform, identity.UsernameKey(a.Username))
			found[h] = append(found[h], st)
		}
	}
}

// identityOf is the stable id of a record, as discovery has it; empty without one.
func (p *person) identityOf() string {
	switch {
	case p == nil:
		return ""
	case p.network != nil:
		return p.network.ProfileID
	}
	return strconv.FormatInt(p.codehost.UserID, 10)
}

func (p *person) username() string {
	if p.network != nil {
		return p.network.Username
	}
	return p.codehost.CodehostUsername
}

// discoveredLink follows the link of an account that discovery is surest of, of
// those that count (readmodel.DiscoveredConfidence), for want of a declared one. It
// leads from one record to another: a username that has moved to somebody else since
// leads nowhere, and neither does a link to whom declared links, or a surer one,
// give to somebody else.
func (s *session) discoveredLink(ctx context.Context, p platform, username string, record *person) (linked, error) {
	to, confidence, err := s.surest(ctx, p, username, record)
	if err != nil || to == nil {
		return linked{}, err
	}
	if len(to.declared()) > 0 && !slices.Contains(to.declared(), username) {
		return linked{}, nil
	}
	other, err := s.declaredLink(ctx, to.platform(), to.usernameKey(), to)
	if err != nil || other != nil {
		return linked{}, err
	}
	if record != nil {
		back, _, err := s.surest(ctx, to.platform(), to.usernameKey(), to)
		if err != nil || back != nil && back.compareIdentity(record) != 0 {
			return linked{}, err
		}
		username = record.username()
	}
	return linked{to, &discoveredLink{p.name, username, confidence}}, nil
}

// surest is the record of the other platform that discovery is surest of; nil when
// there is none.
func (s *session) surest(ctx context.Context, p platform, username string, record *person) (*person, float64, error) {
	var said []discoveredStatement
	if err := one(ctx, s.store.discovered, readmodel.DiscoveryHash(p.name, username), &said); err != nil {
		return nil, 0, err
	}
	type lead struct {
		to         target
		confidence float64
		version    int64
	}
	var leads []lead
	var targets []target
	for _, st := range said {
		from, to := st.input, st.found
		if to.Platform == p.name {
			from, to = to, from
		}
		if from.Platform != p.name || identity.UsernameKey(from.Username) != username || from.Identity != record.identityOf() ||
			to.Platform != p.other().name || to.Identity == "" || s.store.ErasedAccount(to.Platform, identity.UsernameKey(to.Username)) {
			continue
		}
		t := target{to.Platform, to.Identity}
		leads, targets = append(leads, lead{t, st.confidence, st.version}), append(targets, t)
	}
	if err := s.read(ctx, targets); err != nil {
		return nil, 0, err
	}
	leads = slices.DeleteFunc(leads, func(l lead) bool { return s.people[l.to.key()] == nil })
	if len(leads) == 0 {
		return nil, 0, nil
	}
	best := slices.MinFunc(leads, func(a, b lead) int {
		return cmp.Or(cmp.Compare(b.confidence, a.confidence), cmp.Compare(b.version, a.version),
			s.people[a.to.key()].compareIdentity(s.people[b.to.key()]))
	})
	return s.people[best.to.key()], best.confidence, nil
}
