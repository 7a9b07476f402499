package readstore

import (
	"context"
	"slices"
	"strings"

	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/resolution"
)

// maxLeads is the maximum number of targets of discovered links whose own links are read.
const maxLeads = 10

// linked is a record and how it was reached; person is nil if there is none.
type linked struct {
	person *person
	// by is the discovered link that led to it; nil if it was reached otherwise.
	by *discoveredLink
}

// account is an account whose links are followed.
type account struct {
	platform platform
	username string  // comparison form
	record   *person // nil if the account has no record
}

// network returns the record of the network webset; nil if there is none.
func (l linked) network() *readmodel.NetworkPersonRow {
	if l.person == nil {
		return nil
	}
	return l.person.network
}

func accountOf(p *person) account { return account{p.platform(), p.usernameKey(), p} }

func (a account) webset() resolution.Webset { return websetOf(a.platform) }

// follow returns the record of the other platform that a record's link leads to.
func (s *session) follow(ctx context.Context, from *person) (linked, error) {
	a := accountOf(from)
	if err := s.loadLinks(ctx, a); err != nil {
		return linked{}, err
	}
	if err := s.loadDiscovered(ctx, a); err != nil {
		return linked{}, err
	}
	links := resolution.Follow(s.rows(), a.webset(), a.username, recordOf(from))
	if len(links) == 0 {
		return linked{}, nil
	}
	return s.reached(links[0].To, links[0]), nil
}

// linkKeys returns the first lookups for following an account.
func linkKeys(p platform, username string) []lookupKey {
	return []lookupKey{{p.other().declares, username}, {p.link, username}}
}

// loadLinks reads the stated links of accounts: the usernames that their own records declare, the records that declare
// them, and account-links; each with the records that they lead to.
func (s *session) loadLinks(ctx context.Context, accounts ...account) error {
	var keys []lookupKey
	for _, a := range accounts {
		keys = append(keys, linkKeys(a.platform, a.username)...)
		keys = append(keys, a.declaredKeys()...)
	}
	// If the account-links are cached, their targets are read in the same round.
	if err := s.ask(ctx, append(keys, s.linkedKeys(accounts)...)...); err != nil {
		return err
	}
	linked := s.linkedKeys(accounts)
	if err := s.ask(ctx, linked...); err != nil {
		return err
	}
	var targets []target
	for _, a := range accounts {
		other := a.platform.other()
		targets = append(targets, candidates(other, s.found[lookupKey{other.declares, a.username}])...)
		for _, k := range a.declaredKeys() {
			targets = append(targets, candidates(other, s.found[k])...)
		}
	}
	for _, k := range linked {
		targets = append(targets, s.candidatesOf(k)...)
	}
	return s.read(ctx, targets)
}

// linkedKeys returns the lookups of the usernames that cached account-links lead to.
func (s *session) linkedKeys(accounts []account) []lookupKey {
	var keys []lookupKey
	for _, a := range accounts {
		other := a.platform.other()
		for _, l := range s.accountLinks(lookupKey{a.platform.link, a.username}) {
			keys = append(keys, lookupKey{other.username, l.Usernames[websetOf(other)]})
		}
	}
	return keys
}

// declaredKeys returns the lookups of the usernames that the account's record declares.
func (a account) declaredKeys() []lookupKey {
	if a.record == nil {
		return nil
	}
	declared := a.record.declared()
	keys := make([]lookupKey, 0, min(len(declared), maxDeclared))
	for _, d := range declared[:min(len(declared), maxDeclared)] {
		keys = append(keys, lookupKey{a.platform.other().username, d})
	}
	return keys
}

// loadDiscovered reads the discovered links of accounts whose stated links lead nowhere, and the links of their
// targets, which decide whether they count. The stated links must be cached.
func (s *session) loadDiscovered(ctx context.Context, accounts ...account) error {
	rows := s.rows()
	accounts = slices.DeleteFunc(slices.Clone(accounts), func(a account) bool {
		return len(resolution.Stated(rows, a.webset(), a.username, recordOf(a.record))) > 0
	})
	if len(accounts) == 0 {
		return nil
	}
	targets, err := s.readDiscovered(ctx, accounts...)
	if err != nil {
		return err
	}
	if err := s.read(ctx, targets); err != nil {
		return err
	}
	var leads []account
	for _, t := range targets {
		if p := s.people[t.key()]; p != nil && len(leads) < maxLeads {
			leads = append(leads, accountOf(p))
		}
	}
	if len(leads) == 0 {
		return nil
	}
	if err := s.loadLinks(ctx, leads...); err != nil {
		return err
	}
	back, err := s.readDiscovered(ctx, leads...)
	if err != nil {
		return err
	}
	return s.read(ctx, back)
}

// readDiscovered reads the discovery results that name accounts, and returns the records that they lead to, most
// confident first.
func (s *session) readDiscovered(ctx context.Context, accounts ...account) ([]target, error) {
	if err := s.askDiscovered(ctx, accounts...); err != nil {
		return nil, err
	}
	var targets []target
	for _, a := range accounts {
		statements := slices.Clone(s.discovered[a.key()])
		slices.SortStableFunc(statements, func(x, y resolution.Discovered) int {
			switch {
			case x.Confidence > y.Confidence:
				return -1
			case x.Confidence < y.Confidence:
				return 1
			}
			return 0
		})
		other := a.webset().Other()
		for _, d := range statements {
			here := d.Accounts[a.webset()]
			id := d.Accounts[other].Identity
			if id != "" && here.Username == a.username && here.Identity == a.record.identityOf() {
				targets = append(targets, target{platformOf(other).name, id})
			}
		}
	}
	return targets, nil
}

// askDiscovered reads the discovery results that name accounts, in one round.
func (s *session) askDiscovered(ctx context.Context, accounts ...account) error {
	var r round
	apply := s.planDiscovered(&r, accounts...)
	if err := s.fetch(ctx, &r); err != nil {
		return err
	}
	apply()
	return nil
}

// planDiscovered adds the discovery results that are not cached to a round. The caller calls apply after the round.
func (s *session) planDiscovered(r *round, accounts ...account) (apply func()) {
	var unknown []account
	for _, a := range accounts {
		if _, known := s.discovered[a.key()]; !known && a.username != "" {
			unknown = append(unknown, a)
			r.discovered.keys = append(r.discovered.keys, readmodel.DiscoveryHash(a.platform.name, a.username))
		}
	}
	return func() {
		for i, a := range unknown {
			s.discovered[a.key()] = s.usable(r.discovered.values[i])
		}
	}
}

// readAccounts looks up keys and the links of accounts, and reads the records that these lead to. In the same round it
// prefetches what following the links is likely to need.
func (s *session) readAccounts(ctx context.Context, keys []lookupKey, accounts ...account) error {
	for _, a := range accounts {
		keys = append(keys, linkKeys(a.platform, a.username)...)
	}
	if err := s.ask(ctx, keys...); err != nil {
		return err
	}
	var targets []target
	for _, k := range keys {
		if k.kind != codehostPlatform().email && k.kind != networkPlatform().email {
			targets = append(targets, s.candidatesOf(k)...)
		}
	}
	var prefetch []lookupKey
	var unlinked []account
	for _, a := range accounts {
		named := s.named[a.key()]
		for _, k := range named {
			targets = append(targets, candidates(k.platform(), s.hints[k])...)
		}
		prefetch = append(prefetch, named...)
		if len(named) == 0 && !slices.ContainsFunc(linkKeys(a.platform, a.username),
			func(k lookupKey) bool { return len(s.found[k]) > 0 }) {
			unlinked = append(unlinked, a)
		}
	}
	var r round
	applies := []func(){
		s.planLookups(&r, prefetch...), s.planDiscovered(&r, unlinked...), s.planRecords(&r, targets),
	}
	if err := s.fetch(ctx, &r); err != nil {
		return err
	}
	for _, apply := range applies {
		apply()
	}
	return nil
}

func (a account) key() target { return target{a.platform.name, a.username} }

// usable returns the statements that link a codehost and a network account, without erased accounts.
func (s *session) usable(statements []discoveredStatement) []resolution.Discovered {
	out := make([]resolution.Discovered, 0, len(statements))
	for _, st := range statements {
		if st.input.Platform == st.found.Platform {
			continue
		}
		d := resolution.Discovered{Confidence: st.confidence, Found: st.version}
		known := true
		for _, social := range []struct{ platform, username, identity string }{
			{st.input.Platform, st.input.Username, st.input.Identity},
			{st.found.Platform, st.found.Username, st.found.Identity},
		} {
			key := identity.NormalizeUsername(social.username)
			_, erased := s.store.suppressed.Account(social.platform, key)
			switch {
			case erased:
				known = false
			case social.platform == identity.Codehost:
				d.Accounts[resolution.Codehost] = resolution.Account{Username: key, Identity: social.identity}
			case social.platform == identity.Network:
				d.Accounts[resolution.Network] = resolution.Account{Username: key, Identity: social.identity}
			default:
				known = false
			}
		}
		if known {
			out = append(out, d)
		}
	}
	return out
}

// accountLinks are the account-links under a key that may be followed. They have been asked for.
func (s *session) accountLinks(k lookupKey) []resolution.AccountLink {
	from := resolution.Codehost
	if k.kind == readmodel.LookupLinkNetwork {
		from = resolution.Network
	}
	other := platformOf(from.Other())
	var out []resolution.AccountLink
	for _, r := range s.found[k] {
		if r.TargetKind != readmodel.TargetAccount {
			continue
		}
		to, ok := strings.CutPrefix(r.Target, other.name+":")
		if _, erased := s.store.suppressed.Account(other.name, to); erased || !ok {
			continue
		}
		l := resolution.AccountLink{Declared: true, Confidence: float64(r.Confidence), Observed: r.Version}
		l.Usernames[from], l.Usernames[from.Other()] = k.value, to
		out = append(out, l)
	}
	return out
}

// rows are the facts that the session has read.
func (s *session) rows() resolution.Rows {
	var rows resolution.Rows
	for _, p := range s.people {
		if p != nil {
			rows.Records = append(rows.Records, *recordOf(p))
		}
	}
	for k := range s.found {
		if k.kind == readmodel.LookupLinkCodehost || k.kind == readmodel.LookupLinkNetwork {
			rows.AccountLinks = append(rows.AccountLinks, s.accountLinks(k)...)
		}
	}
	for _, statements := range s.discovered {
		rows.Discovered = append(rows.Discovered, statements...)
	}
	return rows
}

// recordOf converts a person to a resolution record; nil for nil.
func recordOf(p *person) *resolution.Record {
	if p == nil {
		return nil
	}
	return &resolution.Record{
		Webset: websetOf(p.platform()), Identity: p.identityOf(), Username: p.usernameKey(), Emails: p.emailKeys(),
		Declares: p.declared(), Updated: p.version(),
	}
}

// reached returns the person of a resolved record, with the discovered link that led to it.
func (s *session) reached(r *resolution.Record, link resolution.Link) linked {
	out := linked{person: s.personOf(r)}
	if link.Discovered {
		out.by = &discoveredLink{platformOf(r.Webset.Other()).name, link.Username, link.Confidence}
		if from := s.personOf(link.From); from != nil {
			out.by.username = from.username()
		}
	}
	return out
}

// personOf returns the person that a resolution record was converted from; nil for nil.
func (s *session) personOf(r *resolution.Record) *person {
	if r == nil {
		return nil
	}
	return s.people[target{platformOf(r.Webset).name, r.Identity}.key()]
}

func websetOf(p platform) resolution.Webset {
	if p.name == identity.Network {
		return resolution.Network
	}
	return resolution.Codehost
}

func platformOf(w resolution.Webset) platform {
	if w == resolution.Network {
		return networkPlatform()
	}
	return codehostPlatform()
}
