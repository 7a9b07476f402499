package sampledata

import (
	"math"
	"strconv"
	"strings"
)

// claim is a reference from one account to another. Declared claims are in a field for it (a username field,
// social_accounts, an account-link record); the others are mentions in a bio or a website field.
type claim struct {
	from, to platform
	field    string
	entity   int  // the owner of the named account
	wrong    bool // the account belongs to another entity or does not exist
	typo     string
}

// Fields that can contain a claim.
const (
	fieldUsername = "username"
	fieldSocial   = "social_accounts"
	fieldBio      = "bio"
	fieldWebsite  = "website"
)

func (c *claim) declared() bool { return c.field == fieldUsername || c.field == fieldSocial }

// claims returns the claims of an entity's accounts about each other.
func (w *world) claims(e int) []claim {
	s := &w.state[e]
	var out []claim
	r := rng(mix(w.seed, streamLinks, uint64(e)))
	add := func(from, to platform, field string) {
		c := claim{from: from, to: to, field: field, entity: e}
		switch u := r.n(1000); {
		case u < 8: // copied from a namesake, a colleague, a template
			if o := r.n(w.people); o != e && w.state[o].on(to) {
				c.entity, c.wrong = o, true
			}
		case u < 14:
			c.wrong = true
			c.typo = string("aeiourstn"[r.n(9)]) + strconv.Itoa(r.n(100))
		}
		out = append(out, c)
	}
	declare := func(from, to platform) {
		switch u := r.n(100); {
		case u < 48:
			add(from, to, fieldUsername)
		case u < 82:
			add(from, to, fieldSocial)
		default:
			add(from, to, fieldUsername)
			add(from, to, fieldSocial)
		}
	}
	mention := func(from, to platform) {
		if r.chance(70) {
			add(from, to, fieldBio)
		} else {
			add(from, to, fieldWebsite)
		}
	}
	if w.class(e) == classCompany {
		if s.on(onCodehost) && s.on(onMicroblog) && r.chance(40) {
			declare(onCodehost, onMicroblog)
		}
		return out
	}
	if s.on(onNetwork) && s.on(onCodehost) {
		switch u := r.n(100); {
		case u < 13:
			declare(onNetwork, onCodehost)
			declare(onCodehost, onNetwork)
		case u < 24:
			declare(onNetwork, onCodehost)
		case u < 38:
			declare(onCodehost, onNetwork)
		case u < 44:
			mention(onCodehost, onNetwork)
		}
	}
	if s.on(onCodehost) && s.on(onMicroblog) {
		switch u := r.n(100); {
		case u < 11:
			declare(onCodehost, onMicroblog)
			mention(onMicroblog, onCodehost)
		case u < 32:
			declare(onCodehost, onMicroblog)
		case u < 42:
			mention(onMicroblog, onCodehost)
		}
	}
	if s.on(onNetwork) && s.on(onMicroblog) {
		switch u := r.n(100); {
		case u < 6:
			declare(onNetwork, onMicroblog)
			mention(onMicroblog, onNetwork)
		case u < 16:
			declare(onNetwork, onMicroblog)
		case u < 27:
			mention(onMicroblog, onNetwork)
		}
	}
	return out
}

// target returns the handle in a claim at a time.
func (w *world) target(c *claim, at int64) string {
	return w.handleAt(w.account(c.entity, c.to), at) + c.typo
}

func profileURL(p platform, handle string) string {
	switch p {
	case onNetwork:
		return networkURL(handle)
	case onCodehost:
		return "https://codehost.example/" + handle
	}
	return "https://microblog.example/" + handle
}

// urlShape varies a profile URL as users do.
func urlShape(r *rng, u string) string {
	switch r.n(12) {
	case 0:
		return u + "/"
	case 1:
		return strings.TrimPrefix(u, "https://")
	case 2:
		return strings.Replace(u, "https://", "http://", 1)
	case 3:
		return strings.TrimPrefix(strings.TrimPrefix(u, "https://"), "www.")
	case 4:
		return u + "?utm_source=profile"
	case 5:
		if i := strings.Index(u, ".example"); i > 0 {
			return strings.ToUpper(u[:i]) + u[i:]
		}
	}
	return u
}

// statedLinks writes the declared claims of one account's record.
func (w *world) statedLinks(o *object, e int, a *account, at int64) {
	r := rng(mix(w.seed, streamLinks, uint64(e), 40+uint64(a.platform)))
	var social []string
	for _, c := range w.claims(e) {
		if c.from != a.platform {
			continue
		}
		h := w.target(&c, at)
		switch c.field {
		case fieldUsername:
			o.str(c.to.String()+"_username", h)
		case fieldSocial:
			social = append(social, urlShape(&r, profileURL(c.to, h)))
		}
	}
	if r.chance(9) {
		social = append(social, r.pick([]string{"https://video.example/@", "https://photos.example/",
			"https://chat.example/u/", "https://music.example/artist/"})+
			handleWord(w.handleAt(a, at))+digits(&r, 1))
	}
	if len(social) > 0 {
		o.list("social_accounts", social)
	} else if r.chance(10) {
		o.list("social_accounts", nil)
	}
}

// mentions returns the claims of an account in free text, and separately the one in the website field.
func (w *world) mentions(e int, p platform, at int64) (bio []string, website string) {
	r := rng(mix(w.seed, streamLinks, uint64(e), 60+uint64(p)))
	for _, c := range w.claims(e) {
		if c.from != p || c.declared() {
			continue
		}
		h := w.target(&c, at)
		u := profileURL(c.to, h)
		if c.field == fieldWebsite {
			website = u
			continue
		}
		switch r.n(6) {
		case 0:
			bio = append(bio, "@"+h+" on "+c.to.String())
		case 1:
			bio = append(bio, c.to.String()+": "+h)
		case 2:
			bio = append(bio, "👉 "+strings.TrimPrefix(u, "https://"))
		default:
			bio = append(bio, strings.TrimPrefix(urlShape(&r, u), "www."))
		}
	}
	return bio, website
}

// accountLink is one record of that kind.
type accountLink struct {
	a, b       platform
	ha, hb     string
	entity     int
	wrong      bool
	source     string
	observed   int64
	confidence float64
	deleted    bool
}

// accountLinks returns the links that crawlers report between an entity's accounts, with every observation of
// each, and some wrong ones.
func (w *world) accountLinks(e int) []accountLink {
	s := &w.state[e]
	if w.class(e) != classPerson {
		return nil
	}
	var out []accountLink
	r := rng(mix(w.seed, streamLinks, uint64(e), 2))
	claims := w.claims(e)
	stated := func(a, b platform) bool {
		for _, c := range claims {
			if c.declared() && !c.wrong && (c.from == a && c.to == b || c.from == b && c.to == a) {
				return true
			}
		}
		return false
	}
	for _, pair := range [][2]platform{{onNetwork, onCodehost}, {onCodehost, onMicroblog}, {onNetwork, onMicroblog}} {
		a, b := pair[0], pair[1]
		if !s.on(a) || !s.on(b) {
			continue
		}
		percent := 5.0
		if stated(a, b) {
			percent = 24
		}
		if r.chance(percent) {
			out = w.observe(out, &r, e, e, a, b, r.pick([]string{"profile-crawl", "gravatar-like", "homepage-crawl",
				"conference-list", "package-registry"}))
		}
		if r.chance(0.5) { // a wrong match by name
			if o := r.n(w.people); o != e && w.state[o].on(b) {
				out = w.observe(out, &r, e, o, a, b, "name-matcher")
			}
		}
	}
	return w.extraLinks(out, e)
}

func (w *world) observe(out []accountLink, r *rng, e, other int, a, b platform, source string) []accountLink {
	x, y := w.account(e, a), w.account(other, b)
	seen := max(x.created, y.created) + 5*day
	at := w.roundCrawl(r, seen+int64(r.f()*float64(max(w.now-seen, day))))
	l := accountLink{a: a, b: b, ha: w.handleAt(x, at), hb: w.handleAt(y, at), entity: other, wrong: e != other,
		source: source, observed: at}
	l.confidence = float64(60+r.n(41)) / 100
	if l.wrong {
		l.confidence = float64(15+r.n(70)) / 100
	}
	if r.chance(50) {
		l.a, l.b, l.ha, l.hb = l.b, l.a, l.hb, l.ha
	}
	out = append(out, l)
	if r.chance(12) && at+40*day < w.now { // seen again, more certain or taken back
		l.observed = w.roundCrawl(r, at+35*day+int64(r.f()*float64(w.now-at-40*day)))
		l.confidence = math.Min(1, l.confidence+0.05)
		l.deleted = r.chance(20)
		out = append(out, l)
	}
	return out
}

// extraLinks adds links up to Options.AccountLinks and JoinedLinks.
func (w *world) extraLinks(out []accountLink, e int) []accountLink {
	if w.opts.JoinedLinks == 0 && w.opts.AccountLinks == 0 {
		return out
	}
	s := &w.state[e]
	r := rng(mix(w.seed, streamExtraLinks, uint64(e)))
	share := func(wanted, of int) int {
		if of == 0 || wanted <= 0 {
			return 0
		}
		x := 1.01 * float64(wanted) / float64(of)
		n := int(x)
		return n + boolInt(r.f() < x-float64(n))
	}
	if s.on(onNetwork) && s.on(onCodehost) {
		x, y := w.account(e, onNetwork), w.account(e, onCodehost)
		for k := range share(w.opts.JoinedLinks, w.pairs) {
			out = append(out, accountLink{a: onNetwork, b: onCodehost, ha: w.handleAt(x, x.newestContent()),
				hb: w.handleAt(y, y.newestContent()), entity: e,
				source: "crawl-" + strconv.Itoa(100+k), observed: w.roundCrawl(&r, w.now-int64(r.f()*900*day)),
				confidence: float64(50+r.n(51)) / 100})
		}
	}
	for p := onNetwork; p <= onCodehost; p++ {
		if !s.on(p) {
			continue
		}
		x := w.account(e, p)
		to := onCodehost
		if p == onCodehost {
			to = onNetwork
		}
		for k := range share(w.opts.AccountLinks-w.opts.JoinedLinks, w.accounts) {
			out = append(out, accountLink{a: p, b: to, ha: w.handleAt(x, x.newestContent()), hb: w.pseudonym(&r) + "-" +
				hex16(r.next())[:9], entity: e, wrong: true,
				source: "crawl-" + strconv.Itoa(500+k), observed: w.roundCrawl(&r, w.now-int64(r.f()*900*day)),
				confidence: float64(10+r.n(91)) / 100})
		}
	}
	return out
}

func (w *world) renderLink(o *object, l *accountLink) {
	o.open()
	if l.deleted {
		o.boolean("deleted", true)
	}
	for _, end := range []struct {
		key, handle string
		p           platform
	}{{"a", l.ha, l.a}, {"b", l.hb, l.b}} {
		o.openKey(end.key)
		o.str("platform", end.p.String())
		o.str("username", end.handle)
		o.close()
	}
	o.str("source", l.source)
	o.instant("observed_at", l.observed)
	if !l.deleted {
		o.float("confidence", math.Round(l.confidence*100)/100)
	}
	o.close()
}
