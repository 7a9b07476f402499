package readstore

import (
	"context"

	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// PersonQuery is a query of person enrichment. Identifiers are comparison forms (identity.NormalizeUsername,
// identity.NormalizeEmail), empty if not given.
type PersonQuery struct {
	CodehostUsername string
	NetworkUsername  string
	Email            string
	// NoReplyUserID and NoReplyUsername are the account that Email names, if it is a no-reply address of the code
	// host; the id is 0 if it is not in the address.
	NoReplyUserID   int64
	NoReplyUsername string
	Codehost        bool // the codehost webset is requested
	Network         bool // the network webset is requested
}

// Person is the result of a person enrichment: JSON objects, nil if the webset was not requested or did not match.
type Person struct {
	Codehost []byte
	Network  []byte
	// Identities are the records that it was rendered from, as "<kind> <identity>".
	Identities []string
	// Identifiers are the identifiers of those records and of people named in them (metering.Used).
	Identifiers []string
}

// Person finds a person (rulings.md, Person enrichment) and renders
// person.codehost and person.network (MAPPING.md, section 3).
func (s *Store) Person(ctx context.Context, q PersonQuery) (Person, error) {
	w := s.session()
	w.noReply = s.noReplyOf(q)
	return w.person(ctx, q)
}

func (s *session) person(ctx context.Context, q PersonQuery) (Person, error) {
	codehost, network, err := s.resolve(ctx, q)
	if err != nil {
		return Person{}, err
	}
	out := Person{Identifiers: identifiers(network.person, codehost.person)}
	if network.person != nil {
		out.Network = appendEnrichedNetwork(nil, network.person.network, network.by)
		out.Identities = append(out.Identities, identities(network.person)...)
	}
	if codehost.person == nil {
		return out, nil
	}
	row := codehost.person.codehost
	other, err := s.follow(ctx, codehost.person)
	if err != nil {
		return Person{}, err
	}
	by := codehost.by
	if other.person != nil {
		out.Identifiers = append(out.Identifiers, identifiers(other.person)...)
		if by == nil && other.by != nil && row.NetworkUsername == "" {
			by = &discoveredLink{identity.Network, other.person.network.Username, other.by.confidence}
		}
	}
	out.Codehost = appendEnrichedCodehost(nil, row, other.network(), by)
	out.Identities = append(out.Identities, identities(codehost.person)...)
	return out, nil
}

// targetCompany is the kind of a company in Record.Identities.
const targetCompany = "network-company"

// CompanyQuery is a query of company enrichment. Slugs are identity.NormalizeUsername forms, IDs are exact; empty if
// not given.
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
	w := s.session()
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
			return Record{
				Body: appendCompany(nil, found), Identities: []string{targetCompany + " " + found.CompanyID},
			}, nil
		}
	}
	return Record{}, nil
}

// company returns the newest existing company of ids that passes; of equal versions, that with the smallest ID.
func (s *Store) company(
	ctx context.Context, ids []string, pass func(*readmodel.CompanyRow) bool,
) (*readmodel.CompanyRow, error) {
	hashes := make([]uint64, len(ids))
	for i, id := range ids {
		hashes[i] = readmodel.CompanyHash(id)
	}
	var rows [][]*readmodel.CompanyRow
	var seen [][]readmodel.VersionBumpRow
	err := runBoth(
		true, func() (err error) {
			rows, err = s.companies.Get(ctx, hashes)
			return err
		},
		true, func() (err error) {
			seen, err = s.seen.Get(ctx, hashes)
			return err
		})
	if err != nil {
		return nil, err
	}
	var best *readmodel.CompanyRow
	for i, id := range ids {
		for _, c := range rows[i] {
			if c.CompanyID != id || c.Deleted || !pass(c) {
				continue
			}
			row := *c
			row.Version = readmodel.NewestVersion(record.KindNetworkCompany, id, row.Version, row.ContentHash, seen[i])
			c := &row
			if best == nil || c.Version > best.Version || c.Version == best.Version && c.CompanyID < best.CompanyID {
				best = c
			}
		}
	}
	return best, nil
}
