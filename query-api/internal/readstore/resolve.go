package readstore

import (
	"context"

	"muster/schemas/identity"
	"muster/schemas/resolution"
)

// maxHolders is the maximum number of owners of an email address, per webset, whose links are read.
const maxHolders = 10

// resolver reads the rows that resolution.Resolve needs for a query.
type resolver struct {
	session *session
	query   resolution.Query // without the email address until readEmail
	emails  []string         // forms of the email address
	match   [2]resolution.Match
}

// resolve returns the records that answer a query. It reads the rows of each step in order, and stops once every
// requested webset has a record.
func (s *session) resolve(ctx context.Context, q PersonQuery) (codehost, network linked, err error) {
	r := resolver{session: s, query: resolution.Query{
		Usernames: [2]string{q.CodehostUsername, q.NetworkUsername}, Requested: [2]bool{q.Codehost, q.Network},
	}}
	steps := []func(context.Context) error{r.readNamed, r.readDiscovered}
	if q.Email != "" {
		r.emails = append([]string{q.Email}, identity.EmailForms(q.Email)...)
		steps = append(steps, r.readEmail, r.readEmailLinks, r.readDiscovered)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return linked{}, linked{}, err
		}
		if r.resolve() {
			break
		}
	}
	c, n := r.match[resolution.Codehost], r.match[resolution.Network]
	return s.reached(c.Record, c.Link), s.reached(n.Record, n.Link), nil
}

// resolve applies the steps to the rows read so far, and reports whether every requested webset has a record.
func (r *resolver) resolve() bool {
	r.match = resolution.Resolve(r.query, r.session.rows())
	return len(r.missing()) == 0
}

// missing returns the requested websets without a record.
func (r *resolver) missing() []resolution.Webset {
	var out []resolution.Webset
	for w, requested := range r.query.Requested {
		if requested && r.match[w].Record == nil {
			out = append(out, resolution.Webset(w))
		}
	}
	return out
}

// combines reports whether both websets are requested, so that the links of two records decide whether they are
// combined.
func (r *resolver) combines() bool { return r.query.Requested[0] && r.query.Requested[1] }

// readNamed reads the accounts named by the specific identifiers, and their links if needed. It looks up the email
// address in the same round.
func (r *resolver) readNamed(ctx context.Context) error {
	s := r.session
	var keys []lookupKey
	var accounts []account
	for _, w := range []resolution.Webset{resolution.Codehost, resolution.Network} {
		p, username := platformOf(w), r.query.Usernames[w]
		if username != "" {
			keys = append(keys, lookupKey{p.username, username})
			if r.query.Requested[w.Other()] {
				accounts = append(accounts, account{platform: p, username: username})
			}
		}
		for _, e := range r.emails {
			keys = append(keys, lookupKey{p.email, e})
		}
	}
	// A record that a link leads to counts only when all links are read: another one may be better.
	if err := s.readAccounts(ctx, keys, accounts...); err != nil || !r.combines() && r.isHeld() {
		return err
	}
	var named []account
	for _, w := range r.missingOrCombined() {
		if a, ok := r.named(w.Other()); ok {
			named = append(named, a)
		}
	}
	return s.loadLinks(ctx, named...)
}

// isHeld reports whether every requested webset has a holder of the username that the query names in it.
func (r *resolver) isHeld() bool {
	rows := r.session.rows()
	for w, requested := range r.query.Requested {
		if requested && resolution.Holder(rows, resolution.Webset(w), r.query.Usernames[w]) == nil {
			return false
		}
	}
	return true
}

// missingOrCombined returns the websets for which the links of the other webset's accounts are needed.
func (r *resolver) missingOrCombined() []resolution.Webset {
	if r.combines() {
		return []resolution.Webset{resolution.Codehost, resolution.Network}
	}
	return r.missing()
}

// named returns the account named by a specific identifier.
func (r *resolver) named(w resolution.Webset) (account, bool) {
	username := r.query.Usernames[w]
	a := account{platform: platformOf(w), username: username}
	if username == "" {
		return a, false
	}
	a.record = r.session.personOf(resolution.Holder(r.session.rows(), w, username))
	return a, true
}

// readDiscovered reads the discovered links of accounts that may lead to a missing record.
func (r *resolver) readDiscovered(ctx context.Context) error {
	var sources []account
	rows := r.session.rows()
	for _, w := range r.missing() {
		if a, ok := r.named(w.Other()); ok {
			sources = append(sources, a)
		}
		if holders := resolution.EmailHolders(rows, w.Other(), r.query.Emails); len(holders) > 0 {
			sources = append(sources, accountOf(r.session.personOf(holders[0])))
		}
	}
	return r.session.loadDiscovered(ctx, sources...)
}

// readEmail reads the owners of the address in the websets without a record, and the links by which they may contradict
// the record of the other webset.
func (r *resolver) readEmail(ctx context.Context) error {
	r.query.Emails = r.emails
	missing := r.missing()
	if err := r.readHolders(ctx, missing...); err != nil || !r.combines() {
		return err
	}
	return r.session.loadLinks(ctx, r.holders(missing...)...)
}

// readEmailLinks reads the owners of the address in the other websets, and their links.
func (r *resolver) readEmailLinks(ctx context.Context) error {
	var others []resolution.Webset
	for _, w := range r.missing() {
		others = append(others, w.Other())
	}
	if err := r.readHolders(ctx, others...); err != nil {
		return err
	}
	return r.session.loadLinks(ctx, r.holders(others...)...)
}

func (r *resolver) readHolders(ctx context.Context, websets ...resolution.Webset) error {
	var targets []target
	for _, w := range websets {
		for _, e := range r.emails {
			targets = append(targets, r.session.candidatesOf(lookupKey{platformOf(w).email, e})...)
		}
	}
	return r.session.read(ctx, targets)
}

// holders returns the accounts with the address, at most maxHolders per webset.
func (r *resolver) holders(websets ...resolution.Webset) []account {
	var out []account
	rows := r.session.rows()
	for _, w := range websets {
		holders := resolution.EmailHolders(rows, w, r.emails)
		for _, h := range holders[:min(len(holders), maxHolders)] {
			out = append(out, accountOf(r.session.personOf(h)))
		}
	}
	return out
}
