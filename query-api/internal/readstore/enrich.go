package readstore

import (
	"context"
	"slices"

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

// answer finds a person (rulings.md, Person enrichment) and renders person.codehost and person.network (MAPPING.md,
// section 3).
func (q PersonQuery) answer(ctx context.Context, w *session) (Record, error) {
	w.noReply = w.store.noReplyOf(q)
	codehost, network, err := w.resolve(ctx, q)
	if err != nil {
		return Record{}, err
	}
	out := Record{Body: []byte{'{'}, Identifiers: identifiers(network.person, codehost.person)}
	if codehost.person != nil {
		row := codehost.person.codehost
		other, err := w.follow(ctx, codehost.person)
		if err != nil {
			return Record{}, err
		}
		by := codehost.by
		if other.person != nil {
			out.Identifiers = append(out.Identifiers, identifiers(other.person)...)
			if by == nil && other.by != nil && row.NetworkUsername == "" {
				by = &discoveredLink{identity.Network, other.person.network.Username, other.by.confidence}
			}
		}
		out.Body = appendEnrichedCodehost(append(out.Body, `"codehost":`...), row, other.network(), by)
		out.Groups = append(out.Groups, identity.Codehost)
	}
	if network.person != nil {
		if codehost.person != nil {
			out.Body = append(out.Body, ',')
		}
		out.Body = appendEnrichedNetwork(append(out.Body, `"network":`...), network.person.network, network.by)
		out.Groups = append(out.Groups, identity.Network)
	}
	out.Body = append(out.Body, '}')
	out.Identities = identities(network.person, codehost.person)
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

// answer finds a company by the first identifier that matches, in the order of the fields, and renders it (MAPPING.md,
// section 4). A nil Body means no match.
func (q CompanyQuery) answer(ctx context.Context, w *session) (Record, error) {
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
	keys := make([]lookupKey, 0, len(identifiers))
	for _, id := range identifiers {
		if id.kind != "" {
			keys = append(keys, lookupKey{id.kind, id.value})
		}
	}
	if err := w.ask(ctx, keys...); err != nil {
		return Record{}, err
	}
	named := make([][]string, len(identifiers)) // company IDs
	for i, id := range identifiers {
		switch {
		case id.value == "":
		case id.kind == "":
			named[i] = []string{id.value}
		default:
			for _, r := range w.found[lookupKey{id.kind, id.value}] {
				named[i] = append(named[i], r.Target)
			}
		}
	}
	companies, err := w.companies(ctx, slices.Concat(named...))
	if err != nil {
		return Record{}, err
	}
	for i, id := range identifiers {
		var best *readmodel.CompanyRow
		for _, name := range named[i] {
			c := companies[name]
			if c != nil && id.holds(c) == id.value && (best == nil || newerCompany(c, best)) {
				best = c
			}
		}
		if best != nil {
			return Record{
				Body: appendCompany(nil, best), Groups: []string{"company"},
				Identities: []string{targetCompany + " " + best.CompanyID},
			}, nil
		}
	}
	return Record{}, nil
}

// newerCompany reports whether c is newer than d; of equal versions, the smaller ID is.
func newerCompany(c, d *readmodel.CompanyRow) bool {
	return c.Version > d.Version || c.Version == d.Version && c.CompanyID < d.CompanyID
}

// companies reads companies in one round. The result lacks those that do not exist.
func (s *session) companies(ctx context.Context, ids []string) (map[string]*readmodel.CompanyRow, error) {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var r round
	for _, id := range ids {
		r.companies.keys = append(r.companies.keys, readmodel.CompanyHash(id))
	}
	r.seen.keys = r.companies.keys
	if err := s.fetch(ctx, &r); err != nil {
		return nil, err
	}
	out := make(map[string]*readmodel.CompanyRow, len(ids))
	for i, id := range ids {
		for _, c := range r.companies.values[i] {
			if c.CompanyID != id || c.Deleted {
				continue
			}
			row := *c
			row.Version = readmodel.NewestVersion(record.KindNetworkCompany, id, row.Version, row.ContentHash,
				r.seen.values[i])
			out[id] = &row
		}
	}
	return out, nil
}
