package sampledata

import "strings"

func (w *world) renderMicroblog(o *object, a *account, v int, p *person) {
	t := a.content[v]
	r := rng(mix(w.seed, streamRender, uint64(a.entity), 3))
	handle := w.handleAt(a, t)
	var name, bio, location, website, kind string
	switch {
	case p != nil:
		ctx := w.fillFor(p, monthOf(t))
		name = w.microblogName(p, handle)
		mention, site := w.mentions(a.entity, onMicroblog, t)
		bio = sometimes(&r, 66, w.sentence(&r, w.lx.text[p.lang].bio, ctx))
		if j := p.jobAt(monthOf(t)); j != nil && r.chance(9) {
			bio = join2(bio, j.title+", "+w.shortName(j.company), " / ")
		}
		if r.chance(7) {
			bio = join2(bio, "#"+r.pick([]string{"opensource", "BuildInPublic", "nofilter", "football", "climate",
				"リモートワーク"}), " ")
		}
		bio = strings.Join(append(nonEmpty(bio), mention...), " ")
		if r.chance(58) {
			location = w.placeText(&r, w.placeOn(p, a), p.lang)
		}
		website = site
		if website == "" && p.site != "" && r.chance(50) {
			website = p.site
		}
		kind = "personal"
		if r.chance(8) {
			kind = ""
		}
	case w.class(a.entity) == classCompany:
		i := int32(a.entity - w.firstCompany)
		c := &w.companies[i]
		name, website, kind = w.shortName(i), w.companySite(c), "business"
		location = w.placeText(&r, int(c.city), "en")
		bio = w.expand(&r, r.pick([]string{"The official account of {company}.", "{skill} · {skill} · {city}",
			"News from {company}. Support: see website", "Making {skill} better since {n}"}),
			&fillContext{company: name, skills: w.lx.industries[c.industry].specialties,
				city: w.lx.cities[c.city].name})
		if r.chance(12) {
			kind = "" // not every firm is verified
		}
	default:
		name, kind = w.officialName(a.entity), "government"
		bio = r.pick([]string{"Official account. Not monitored 24/7.", "Updates and alerts",
			"In an emergency call the emergency number.", ""})
		website = "https://gov.example/" + kebab(name)
	}
	grown := growth(a, t)
	o.open()
	o.str("user_id", w.identity(a.entity, onMicroblog))
	o.str("username", handle)
	o.loose(&r, "name", w.dirty(&r, name))
	o.loose(&r, "bio", w.dirty(&r, bio))
	o.loose(&r, "location", w.dirty(&r, location))
	o.loose(&r, "website", website)
	o.loose(&r, "avatar_url", sometimes(&r, 86, w.avatarURL(p, a)))
	o.num("followers", int64(float64(skewed(&r, 90, 3_000_000))*grown))
	o.num("following", int64(float64(skewed(&r, 150, 8000))*grown))
	if r.chance(20) {
		o.num("posts_count", int64(skewed(&r, 400, 200_000)))
	}
	if r.chance(96) {
		o.instant("created_at", a.created/1000*1000)
	}
	o.text("account_type", kind)
	o.instant("last_updated", a.versions[v].at)
	o.close()
}
