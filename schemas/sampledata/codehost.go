package sampledata

import (
	"math"
	"strings"
)

func (w *world) renderCodehost(o *object, a *account, v int, p *person) {
	t := a.content[v]
	r := rng(mix(w.seed, streamRender, uint64(a.entity), 2))
	handle := w.handleAt(a, t)
	o.open()
	o.num("user_id", w.userID(a.entity))
	o.str("codehost_username", handle)
	kind := "User"
	switch w.class(a.entity) {
	case classCompany, classCommunity:
		kind = "Organization"
	case classBot:
		kind = "Bot"
	}
	if kind != "User" || r.chance(93) {
		o.str("type", kind)
	}
	o.str("avatar_url", w.avatarURL(p, a))
	if r.chance(88) {
		o.str("url", profileURL(onCodehost, handle))
	}
	if p != nil {
		w.developer(o, a, v, p, &r, handle)
	} else {
		w.organization(o, a, &r)
	}
	act := w.activity(a.entity)
	grown := growth(a, t)
	o.num("followers", int64(float64(skewed(&r, 3+act.repos, 90_000))*grown))
	o.num("following", int64(float64(skewed(&r, 4, 5000))*grown))
	if p != nil {
		w.statedEmails(o, a, v)
	} else if list := w.brandEmails(a); len(list) > 0 {
		o.list("emails", list)
	}
	w.statedLinks(o, a.entity, a, t)
	shown := w.repoCount(a, act, t)
	o.num("public_repos", int64(shown))
	if r.chance(80) {
		o.num("public_gists", int64(skewed(&r, 1, 300)))
	}
	o.instant("created_at", a.created/1000*1000)
	o.instant("updated_at", max(a.created, t-int64(r.n(60))*day)/1000*1000)
	w.embedded(o, a, act, v)
	if r.chance(4) {
		o.str("node_id", "MDQ6"+strings.ToUpper(hex16(r.next())[:10]))
		o.boolean("site_admin", false)
	}
	o.instant("last_updated", a.versions[v].at)
	o.close()
}

func (w *world) developer(o *object, a *account, v int, p *person, r *rng, handle string) {
	t := a.content[v]
	month := monthOf(t)
	ctx := w.fillFor(p, month)
	name := w.codehostName(p, handle)
	o.loose(r, "full_name", w.dirty(r, name))
	if first, last, ok := strings.Cut(name, " "); ok && isASCII(name) && r.chance(55) {
		o.str("first_name", first)
		o.str("last_name", last)
	}
	mention, website := w.mentions(a.entity, onCodehost, t)
	bio := sometimes(r, 44, w.sentence(r, w.lx.text[p.lang].bio, ctx))
	bio = strings.Join(append(nonEmpty(bio), mention...), r.pick([]string{" | ", "\n", " · "}))
	o.loose(r, "bio", w.dirty(r, bio))
	blog := website
	if blog == "" && p.site != "" && r.chance(62) {
		blog = p.site
		if r.chance(30) {
			blog = strings.TrimPrefix(blog, "https://")
		}
	}
	o.loose(r, "blog", blog)
	if p.site != "" && r.chance(12) {
		o.str("personal_website", p.site)
	}
	if r.chance(62) {
		place := w.placeOn(p, a)
		o.str("location", w.dirty(r, w.placeText(r, place, p.lang)))
		if r.chance(72) {
			w.canonical(o, place)
		}
	} else {
		o.loose(r, "location", "")
	}
	if j := p.jobAt(month); j != nil && r.chance(52) {
		s := w.shortName(j.company)
		switch u := r.n(100); {
		case u < 22 && w.state[w.firstCompany+int(j.company)].on(onCodehost):
			s = "@" + w.handleAt(w.account(w.firstCompany+int(j.company), onCodehost), w.now)
		case u < 32:
			s = w.companies[j.company].name
		case u < 40:
			s = strings.ToLower(s)
		case u < 46:
			s = j.title + " @ " + s
		}
		o.str("company", w.dirty(r, s))
	} else {
		o.loose(r, "company", sometimes(r, 10, ctx.school))
	}
	if r.chance(35) {
		o.boolean("hireable", r.chance(60))
	} else if r.chance(30) {
		o.null("hireable")
	}
	for _, list := range []string{"starred_repos", "follower_accounts", "followed_accounts"} {
		if !r.chance(5) {
			continue
		}
		o.openListKey(list)
		for range 1 + r.n(6) {
			other := w.someCodehost(r)
			o.open()
			h := w.handleAt(w.account(other, onCodehost), w.now)
			if list == "starred_repos" {
				o.str("full_name", h+"/"+w.repoName(other, r.n(3)))
			} else {
				o.str("login", h)
				o.num("id", w.userID(other))
			}
			o.close()
		}
		o.closeList()
	}
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// someCodehost picks any entity with a code-hosting account.
func (w *world) someCodehost(r *rng) int {
	for {
		if e := r.n(w.entities); w.state[e].on(onCodehost) {
			return e
		}
	}
}

func (w *world) canonical(o *object, cty int) {
	c := &w.lx.cities[cty]
	cc := &w.lx.countries[c.country]
	o.openKey("location_canonical")
	o.str("city", c.name)
	o.text("state", c.state)
	o.str("country", cc.name)
	o.str("country_code", cc.code)
	o.str("continent", cc.continent)
	o.float("latitude", c.lat)
	o.float("longitude", c.lon)
	o.text("postal_code", c.postal)
	o.str("label", join3(c.name, c.state, cc.name))
	o.str("timezone", c.timezone)
	o.close()
}

func (w *world) organization(o *object, a *account, r *rng) {
	name, bio, site, cty := w.officialName(a.entity), "", "", -1
	switch w.class(a.entity) {
	case classCompany:
		i := int32(a.entity - w.firstCompany)
		c := &w.companies[i]
		cty = int(c.city)
		name = w.shortName(i)
		if r.chance(35) {
			name = c.name
		}
		ind := w.lx.industries[c.industry]
		bio = w.expand(r, r.pick([]string{"{skill} at {company}", "Open source from {company}", "We build {skill}.",
			"The code behind {company}"}),
			&fillContext{company: name, skills: ind.specialties})
		site = w.companySite(c)
	case classCommunity:
		bio = r.pick([]string{"Community-run.", "Open source for everyone", "Meetups every month 🍕",
			"We love contributors!"})
	case classBot:
		bio = r.pick([]string{"Beep boop. I open pull requests.", "Automated account", "I am a bot 🤖", ""})
	}
	if r.chance(14) {
		name = ""
	}
	o.loose(r, "full_name", w.dirty(r, name))
	o.loose(r, "bio", sometimes(r, 72, bio))
	o.loose(r, "blog", sometimes(r, 74, site))
	if cty >= 0 && r.chance(60) {
		o.str("location", w.placeText(r, cty, "en"))
		if r.chance(60) {
			w.canonical(o, cty)
		}
	}
}

// power is a heavy-tailed count: most small, a few very large.
func power(r *rng, scale, exponent float64, limit int) int {
	return min(int(scale*(math.Pow(1-r.f(), -exponent)-1)), limit)
}
