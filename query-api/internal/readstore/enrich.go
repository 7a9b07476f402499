package readstore

import (
	"context"
	"slices"

	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// maxShared bounds how many holders of a shared e-mail address are tried when
// the other webset's record is looked for.
const maxShared = 10

// PersonQuery says who is looked for, and in which websets. Identifiers are
// comparison forms (identity.UsernameKey, identity.EmailKey), empty when not
// given.
type PersonQuery struct {
	CodehostUsername string
	NetworkUsername  string
	Email            string
	// NoReplyUserID and NoReplyUsername are the account that Email names, if it is a no-reply address of the code
	// host; the id is 0 if it is not in the address.
	NoReplyUserID   int64
	NoReplyUsername string
	Codehost         bool // the codehost webset is requested
	Network          bool // the network webset is requested
}

// Person is an answer of person enrichment: JSON objects, nil when the webset
// was not requested or did not match.
type Person struct {
	Codehost []byte
	Network  []byte
	// Identities of the records that the answer was made from, as "<kind> <identity>".
	Identities []string
	// Identifiers are what those go by, and whoever is named beside them (metering.Used).
	Identifiers []string
}

// Person finds a person (rulings.md, Person enrichment) and renders
// person.codehost and person.network (MAPPING.md, section 3).
func (s *Store) Person(ctx context.Context, q PersonQuery) (Person, error) {
	var network readmodel.NetworkColumns
	var codehost readmodel.CodehostColumns
	if q.Network {
		network = readmodel.NetworkEnrich
	}
	if q.Codehost {
		codehost = readmodel.CodehostEnrich
	}
	var out Person
	w := s.session(network, codehost)
	w.noReply = s.noReplyOf(q)
	err := w.ahead(ctx, func(ctx context.Context) (err error) {
		out, err = w.person(ctx, q)
		return err
	})
	return out, err
}

func (s *session) person(ctx context.Context, q PersonQuery) (Person, error) {
	m, err := s.identify(ctx, q)
	if err != nil {
		return Person{}, err
	}
	out := Person{Identifiers: identifiers(m.network.person, m.codehost.person)}
	if q.Network && m.network.person != nil {
		out.Network = appendEnrichedNetwork(nil, m.network.person.network, m.network.by)
		out.Identities = append(out.Identities, identities(m.network.person)...)
	}
	if !q.Codehost || m.codehost.person == nil {
		return out, nil
	}
	row := m.codehost.person.codehost
	e := s.startEntries(ctx, row.UserID, readmodel.EntryEnrich, readmodel.EntryFull)
	username, by := "", m.codehost.by
	if row.NetworkUsername == "" {
		other, err := s.follow(ctx, m.codehost.person)
		if err != nil {
			return Person{}, err
		}
		if other.person != nil {
			username = other.person.network.Username
			out.Identifiers = append(out.Identifiers, identifiers(other.person)...)
		}
		if by == nil && other.by != nil {
			by = &discoveredLink{identity.Network, username, other.by.confidence}
		}
	}
	if err := e.wait(); err != nil {
		return Person{}, err
	}
	out.Codehost = appendEnrichedCodehost(nil, row, username, e, by)
	out.Identities = append(out.Identities, identities(m.codehost.person)...)
	return out, nil
}

// match is who was found: a record of each platform, or of one.
type match struct{ codehost, network linked }

func (m *match) set(p *person) { m.link(linked{person: p}) }

func (m *match) link(l linked) {
	switch {
	case l.person == nil:
	case l.person.network != nil:
		m.network = l
	default:
		m.codehost = l
	}
}

// identify applies the identifiers in their order. The first specific one that
// matches anything decides; the e-mail address is for when none does.
func (s *session) identify(ctx context.Context, q PersonQuery) (match, error) {
	specific := []struct {
		platform platform
		username string
	}{{codehostPlatform(), q.CodehostUsername}, {networkPlatform(), q.NetworkUsername}}
	for _, id := range specific {
		if id.username == "" {
			continue
		}
		m, err := s.byUsername(ctx, q, id.platform, id.username)
		if err != nil || m != (match{}) {
			return m, err
		}
	}
	if q.Email == "" {
		return match{}, nil
	}
	for _, key := range append([]string{q.Email}, identity.EmailForms(q.Email)...) {
		q.Email = key
		m, err := s.byEmail(ctx, q)
		if err != nil || m != (match{}) {
			return m, err
		}
	}
	return match{}, nil
}

func (q PersonQuery) wants(p platform) bool {
	if p.name == identity.Network {
		return q.Network
	}
	return q.Codehost
}

// byUsername finds the holder of a username, or else the record of the other
// platform that is linked to it.
func (s *session) byUsername(ctx context.Context, q PersonQuery, p platform, username string) (match, error) {
	keys := []lookupKey{{p.username, username}}
	if q.wants(p.other()) {
		keys = append(keys, linkKeys(p, username)...)
	}
	if err := s.ask(ctx, keys...); err != nil {
		return match{}, err
	}
	// Nearly always one account has ever held the name: its lists can be read
	// at once with its record.
	if found := candidates(p, s.found[keys[0]]); p.name == identity.Codehost && q.Codehost && len(found) == 1 {
		if id, ok := userID(found[0].identity); ok {
			s.startEntries(ctx, id, readmodel.EntryEnrich, readmodel.EntryFull)
		}
	}
	own, err := s.holder(ctx, p, username)
	if err != nil {
		return match{}, err
	}
	var m match
	if own != nil {
		m.set(own)
		if !q.wants(p.other()) {
			return m, nil
		}
		other, err := s.follow(ctx, own)
		m.link(other)
		return m, err
	}
	other, err := s.followAccount(ctx, p, username, nil)
	if err != nil || other.person == nil {
		return match{}, err
	}
	m.link(other)
	if !q.wants(p) {
		return m, nil
	}
	back, err := s.follow(ctx, other.person)
	m.link(back)
	return m, err
}

// byEmail finds the most recently updated holder of an address among the
// requested websets, and its counterpart in the other one.
func (s *session) byEmail(ctx context.Context, q PersonQuery) (match, error) {
	var wanted []platform
	for _, p := range []platform{codehostPlatform(), networkPlatform()} {
		if q.wants(p) {
			wanted = append(wanted, p)
		}
	}
	keys := make([]lookupKey, len(wanted))
	for i, p := range wanted {
		keys[i] = lookupKey{p.email, q.Email}
	}
	if err := s.ask(ctx, keys...); err != nil {
		return match{}, err
	}
	var targets []target
	for i, p := range wanted {
		targets = append(targets, candidates(p, s.found[keys[i]])...)
	}
	if err := s.read(ctx, targets); err != nil {
		return match{}, err
	}
	holders := make([][]*person, len(wanted))
	winner := -1
	for i, p := range wanted {
		var err error
		holders[i], err = s.existing(ctx, p, s.found[keys[i]], func(h *person) bool { return slices.Contains(h.emailKeys(), q.Email) })
		if err != nil {
			return match{}, err
		}
		if len(holders[i]) > 0 && (winner < 0 || holders[i][0].version() > holders[winner][0].version()) {
			winner = i
		}
	}
	var m match
	if winner < 0 {
		return m, nil
	}
	who := holders[winner][0]
	m.set(who)
	if len(wanted) == 1 {
		return m, nil
	}
	other, err := s.follow(ctx, who)
	if err != nil {
		return match{}, err
	}
	if other.person == nil {
		other.person, err = s.companion(ctx, who, holders[1-winner])
	}
	m.link(other)
	return m, err
}

// companion is the newest of the holders whose own link does not lead to
// someone other than who.
func (s *session) companion(ctx context.Context, who *person, holders []*person) (*person, error) {
	for _, h := range holders[:min(len(holders), maxShared)] {
		leads, err := s.follow(ctx, h)
		if err != nil {
			return nil, err
		}
		if leads.person == nil || leads.person.compareIdentity(who) == 0 {
			return h, nil
		}
	}
	return nil, nil
}

// targetCompany is the kind of a company in Record.Identities.
const targetCompany = "network-company"

// CompanyQuery names a company. Slugs are identity.UsernameKey forms, ids are
// exact; empty means not given.
type CompanyQuery struct {
	Slug      string
	NetworkID string
	URLSlug   string
	CompanyID string
}

// Company finds a company by the first identifier that matches, in the order
// of the fields, and renders it (MAPPING.md, section 4). A nil Body means no match.
func (s *Store) Company(ctx context.Context, q CompanyQuery) (Record, error) {
	identifiers := []struct {
		kind  readmodel.LookupType
		value string
		holds func(*readmodel.CompanyRow) string
	}{
		{readmodel.LookupCompanySlug, q.Slug, func(c *readmodel.CompanyRow) string { return c.SlugKey }},
		{readmodel.LookupCompanyNetworkID, q.NetworkID, func(c *readmodel.CompanyRow) string { return c.NetworkID }},
		{readmodel.LookupCompanySlug, q.URLSlug, func(c *readmodel.CompanyRow) string { return c.SlugKey }},
		{"", q.CompanyID, func(c *readmodel.CompanyRow) string { return c.CompanyID }},
	}
	w := s.session(0, 0)
	keys := make([]lookupKey, 0, len(identifiers))
	for _, id := range identifiers {
		if id.kind != "" {
			keys = append(keys, lookupKey{id.kind, id.value})
		}
	}
	if err := w.ask(ctx, keys...); err != nil {
		return Record{}, err
	}
	for _, id := range identifiers {
		if id.value == "" {
			continue
		}
		ids := []string{id.value}
		if id.kind != "" {
			ids = ids[:0]
			for _, r := range w.found[lookupKey{id.kind, id.value}] {
				ids = append(ids, r.Target)
			}
		}
		found, err := s.company(ctx, ids, func(c *readmodel.CompanyRow) bool { return id.holds(c) == id.value })
		if err != nil {
			return Record{}, err
		}
		if found != nil {
			return Record{Body: appendCompany(nil, found), Identities: []string{targetCompany + " " + found.CompanyID}}, nil
		}
	}
	return Record{}, nil
}

// company is the newest existing one of ids that passes, then the smallest.
func (s *Store) company(ctx context.Context, ids []string, pass func(*readmodel.CompanyRow) bool) (*readmodel.CompanyRow, error) {
	hashes := make([]uint64, len(ids))
	for i, id := range ids {
		hashes[i] = readmodel.CompanyHash(id)
	}
	rows, err := s.companies.Get(ctx, hashes)
	if err != nil {
		return nil, err
	}
	var best *readmodel.CompanyRow
	for i, id := range ids {
		for _, c := range rows[i] {
			if c.CompanyID != id || c.Deleted || !pass(c) {
				continue
			}
			if best == nil || c.Version > best.Version || c.Version == best.Version && c.CompanyID < best.CompanyID {
				best = c
			}
		}
	}
	return best, nil
}
