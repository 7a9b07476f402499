package sampledata

import (
	"slices"
	"strings"
)

// addresses are the e-mail addresses of a person at a time, in lower case; empty if there is none.
type addresses struct{ personal, work, school, shared string }

func (w *world) addresses(p *person, month int) addresses {
	r := rng(mix(w.seed, streamEmail, uint64(p.e)))
	nm := w.naming(p.e)
	g, f := nm.given, nm.family
	if g == "" {
		g = "mail"
	}
	var out addresses
	host := "@" + r.pick(w.lx.words["freemail"])
	switch u := r.n(100); {
	case u < 42 && w.state[p.e].has&(1<<onCodehost|1<<onMicroblog) != 0:
		q := onCodehost
		if !w.state[p.e].on(q) {
			q = onMicroblog
		}
		out.personal = w.handleWith(nm, p.e, q, 0)
		out.personal = strings.ToLower(out.personal) + host
	case u < 70:
		out.personal = join2(g, f, ".") + digits(&r, 2+r.n(3)) + host
	case u < 82:
		out.personal = nm.nick + f + digits(&r, 2+r.n(3)) + host
	case u < 88 && p.site != "":
		out.personal = "me@" + strings.TrimPrefix(p.site, "https://")
	case u < 97:
		out.personal = initial(g) + f + digits(&r, 3+r.n(2)) + host
	default:
		out.personal = join2(g, f, ".") + host // preferred, and contested among namesakes
	}
	if j := p.jobAt(month); j != nil {
		c := &w.companies[j.company]
		local := join2(g, f, ".")
		switch u := r.n(100); {
		case c.size < 25 && u < 50:
			local = g
		case u < 30:
			local = initial(g) + f
		case u < 36:
			local = g + initial(f)
		}
		out.work = local + "@" + c.domain
		if r.chance(5) {
			out.shared = []string{"info", "hello", "team", "contact", "office", "jobs"}[min(r.n(6), r.n(6))] + "@" +
				c.domain
		}
	} else {
		r.n(100)
	}
	if len(p.studies) > 0 && r.chance(45) {
		s := w.schoolAt(p.studies[len(p.studies)-1].school)
		out.school = initial(g) + f + digits(&r, 2) + "@" + s.slug + ".example"
	}
	// Couples and flatmates: neighbors in the index share a household address.
	if h := rng(mix(w.seed, streamEmail, uint64(p.e/2), 1)); out.shared == "" && h.chance(1.6) {
		out.shared = "the" + h.pick([]string{"house", "family", "flat", "home"}) + "." +
			h.pick(w.lx.words["handle.a"]) + digits(&h, 4) + "@mailbox.example"
	}
	return out
}

// emailsOn returns the addresses in a version of an account's record, in order and lower case, and the
// person's addresses.
func (w *world) emailsOn(a *account, v int) (list []string, addr addresses) {
	if a.versions[v].deleted || a.platform != onNetwork && a.platform != onCodehost {
		return nil, addr
	}
	r := rng(mix(w.seed, streamEmail, uint64(a.entity), 2+uint64(a.platform)))
	states, personal, work, school := 46.0, 74.0, 50.0, 8.0
	if a.platform == onCodehost {
		states, personal, work, school = 60, 72, 26, 16
	}
	if !r.chance(states) {
		return nil, addr
	}
	all := w.addresses(w.person(a.entity), monthOf(a.content[v]))
	if r.chance(personal) {
		addr.personal = all.personal
	}
	if r.chance(work) {
		addr.work = all.work
	}
	if r.chance(school) {
		addr.school = all.school
	}
	if all.shared != "" && r.chance(70) {
		addr.shared = all.shared
	}
	for _, s := range []string{addr.personal, addr.work, addr.school, addr.shared} {
		if s != "" && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list, addr
}

// brandEmails returns the addresses of an organization's code-hosting account.
func (w *world) brandEmails(a *account) []string {
	if w.class(a.entity) != classCompany || a.platform != onCodehost {
		return nil
	}
	r := rng(mix(w.seed, streamEmail, uint64(a.entity), 2))
	if !r.chance(45) {
		return nil
	}
	return []string{r.pick([]string{"info", "hello", "team", "contact", "oss"}) + "@" +
		w.companies[a.entity-w.firstCompany].domain}
}

// mixCase varies the case of an address as some users do.
func mixCase(r *rng, s string) string {
	if !r.chance(12) {
		return s
	}
	switch r.n(3) {
	case 0:
		return strings.ToUpper(s)
	case 1:
		return strings.ToUpper(s[:1]) + s[1:]
	}
	at := strings.IndexByte(s, '@')
	return strings.ToUpper(s[:1]) + s[1:at+1] + strings.ToUpper(s[at+1:at+2]) + s[at+2:]
}
