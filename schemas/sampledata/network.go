package sampledata

import (
	"fmt"
	"strconv"
	"strings"
)

func (w *world) renderWithdrawal(o *object, a *account, v int) {
	o.open()
	o.boolean("deleted", true)
	switch a.platform {
	case onNetwork:
		o.str("profile_id", w.identity(a.entity, a.platform))
	case onCodehost:
		o.num("user_id", w.userID(a.entity))
	case onMicroblog:
		o.str("user_id", w.identity(a.entity, a.platform))
	case onCompany:
		o.str("company_id", w.identity(a.entity, a.platform))
	}
	o.instant("last_updated", a.versions[v].at)
	o.close()
}

func networkURL(slug string) string { return "https://www.network.example/in/" + escapePath(slug) }

// escapePath percent-encodes what a crawler would have encoded in a profile URL.
func escapePath(s string) string {
	if isASCII(s) {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < 0x80 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func (w *world) renderNetwork(o *object, a *account, v int, p *person) {
	t := a.content[v]
	month := monthOf(t)
	r := rng(mix(w.seed, streamRender, uint64(a.entity), 1))
	handle := w.handleAt(a, t)
	ctx := w.fillFor(p, month)
	tx := w.lx.text[p.lang]
	grown := growth(a, t)
	name := w.networkName(p)
	dates := r.n(10)

	o.open()
	o.str("profile_id", w.identity(a.entity, onNetwork))
	o.str("username", handle)
	if r.chance(93) {
		o.str("url", networkURL(handle))
	}
	o.loose(&r, "first_name", w.dirty(&r, name.first))
	o.loose(&r, "middle_name", name.middle)
	o.loose(&r, "last_name", w.dirty(&r, name.last))
	o.str("full_name", w.dirty(&r, name.full))
	o.loose(&r, "photo", sometimes(&r, 74, w.avatarURL(p, a)))
	headline := w.dirty(&r, w.sentence(&r, tx.headline, ctx))
	o.loose(&r, "headline", headline)
	o.loose(&r, "summary", sometimes(&r, 58, w.dirty(&r, w.summary(&r, tx, ctx))))
	if r.chance(94) {
		w.location(o, "location", p.city, &r, true)
	} else if r.chance(50) {
		o.null("location")
	}
	reach := skewed(&r, 320, 30_000)
	o.num("connections", int64(float64(min(reach, 9000))*(0.5+0.5*grown)))
	if r.chance(85) {
		o.num("followers", int64(float64(reach+skewed(&r, 40, 400_000))*(0.5+0.5*grown)))
	}
	if r.chance(30) {
		o.num("following", int64(r.n(600)))
	}
	w.experience(o, p, month, dates, tx, ctx, &r)
	w.education(o, p, month, &r)
	w.certifications(o, p, month)
	o.openListKey("languages")
	if r.chance(52) {
		levels := []string{"Native or bilingual", "Full professional", "Professional working", "Limited working",
			"Elementary"}
		for i, l := range p.tongues {
			o.open()
			o.str("language", w.lx.languageName[l])
			level := levels[0]
			if i > 0 {
				level = levels[1+r.n(4)]
			}
			o.loose(&r, "proficiency", sometimes(&r, 82, level))
			o.close()
		}
	}
	o.closeList()
	if r.chance(83) {
		o.openListKey("skills")
		for _, s := range p.skills {
			o.open()
			o.str("skill", w.dirty(&r, s))
			o.close()
		}
		o.closeList()
	}
	w.statedEmails(o, a, v)
	w.statedLinks(o, p.e, a, t)
	if p.site != "" && r.chance(30) {
		o.list("websites", []string{p.site})
	}
	if r.chance(7) {
		o.boolean("open_to_work", r.chance(50))
	}
	if r.chance(5) {
		o.openKey("_crawl")
		o.str("shard", hex16(r.next())[:4])
		o.num("attempt", int64(1+r.n(3)))
		o.close()
	}
	o.instant("last_updated", a.versions[v].at)
	o.close()
}

// skewed returns a long-tailed count with the given median: one in k exceeds k times the median.
func skewed(r *rng, median, limit int) int {
	u := r.f()
	return min(int(float64(median)*u/(1-u)), limit)
}

func (w *world) summary(r *rng, tx *texts, ctx *fillContext) string {
	n := 1 + r.n(4)
	var parts []string
	for range n {
		if s := w.sentence(r, tx.summary, ctx); s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(dedupe(parts), r.pick([]string{" ", " ", "\n\n"}))
}

func (w *world) location(o *object, key string, cty int, r *rng, long bool) {
	c := &w.lx.cities[cty]
	cc := &w.lx.countries[c.country]
	o.openKey(key)
	o.loose(r, "city", sometimes(r, 92, c.name))
	o.loose(r, "state", sometimes(r, 80, c.state))
	o.str("country", cc.name)
	o.str("continent", cc.continent)
	if long {
		if r.chance(60) {
			o.str("raw_address", w.dirty(r, join3(c.name, c.state, cc.name)))
		}
		if r.chance(70) {
			o.str("country_code", cc.code)
		}
	}
	o.close()
}

func join3(a, b, c string) string {
	return join2(join2(a, b, ", "), c, ", ")
}

// date formats a month in the style of the record's crawler: a day, a month or only a year.
func date(month, style int) string {
	y, m := month/12, month%12+1
	switch {
	case style < 5:
		return fmt.Sprintf("%04d-%02d-01", y, m)
	case style < 8:
		return fmt.Sprintf("%04d-%02d", y, m)
	}
	return strconv.Itoa(y)
}

func (w *world) companyRef(o *object, i int32, r *rng) {
	c := &w.companies[i]
	o.openKey("company")
	o.str("name", w.dirty(r, c.name))
	if !r.chance(11) {
		o.str("network_url", "https://www.network.example/company/"+w.companySlug[i])
	} else {
		o.loose(r, "network_url", "")
	}
	if r.chance(64) {
		o.str("company_id", w.companyID(i))
	}
	o.close()
}

func (w *world) experience(o *object, p *person, month, dates int, tx *texts, ctx *fillContext, r *rng) {
	if cur := p.jobAt(month); cur != nil && r.chance(90) {
		q := rng(cur.noise)
		o.openKey("current_position")
		o.str("summary", cur.title)
		o.str("start", fmt.Sprintf("%04d-%02d-01", cur.start/12, cur.start%12+1))
		if q.chance(60) {
			w.location(o, "location", cur.city, &q, false)
		}
		w.companyRef(o, cur.company, &q)
		o.close()
	} else if r.chance(20) {
		o.null("current_position")
	}
	o.openListKey("experience")
	for i := len(p.jobs) - 1; i >= 0; i-- {
		j := &p.jobs[i]
		if j.start > month {
			continue
		}
		q := rng(j.noise + 1)
		style := dates
		if q.chance(10) {
			style = q.n(10)
		}
		current := j.end == 0 || j.end > month
		o.open()
		if !q.chance(8) {
			o.str("title", w.dirty(&q, j.title))
		}
		line := w.sentence(&q, tx.job, &fillContext{title: j.title, skills: j.skills, company: w.shortName(j.company),
			city: ctx.city, hobbies: ctx.hobbies})
		o.loose(&q, "summary", sometimes(&q, 76, line))
		if q.chance(16) {
			o.str("description", w.dirty(&q, line+"\n"+w.sentence(&q, tx.job, &fillContext{skills: j.skills})))
		}
		o.str("start", date(j.start, style))
		if current {
			o.null("end")
		} else {
			o.str("end", date(j.end, style))
		}
		o.boolean("current", current)
		if q.chance(55) {
			w.location(o, "location", j.city, &q, false)
		}
		w.companyRef(o, j.company, &q)
		o.close()
	}
	o.closeList()
}

func (w *world) education(o *object, p *person, month int, r *rng) {
	if len(p.studies) == 0 && r.chance(60) {
		return
	}
	o.openListKey("education")
	for i := len(p.studies) - 1; i >= 0; i-- {
		s := p.studies[i]
		if s.start*12+8 > month {
			continue
		}
		q := rng(mix(w.seed, streamSchool, uint64(p.e), uint64(i)))
		sc := w.schoolAt(s.school)
		o.open()
		o.loose(&q, "summary", sometimes(&q, 10, "Grade: "+strconv.Itoa(1+q.n(4))+"."+strconv.Itoa(q.n(10))))
		dates := q.n(10)
		o.str("start", date(s.start*12+8, dates))
		current := s.end*12+6 > month
		if current {
			o.null("end")
		} else {
			o.str("end", date(s.end*12+6, dates))
		}
		o.boolean("current", current)
		o.list("degrees", []string{s.degree})
		o.list("majors", []string{s.major})
		if q.chance(9) {
			o.list("minors", []string{q.pick(w.lx.fields[q.n(len(w.lx.fields))].majors)})
		} else {
			o.list("minors", nil)
		}
		if q.chance(60) {
			o.str("field_of_study", s.major)
		}
		if q.chance(35) {
			w.location(o, "location", s.school/len(w.lx.words["school"]), &q, false)
		}
		o.openKey("school")
		o.str("name", w.dirty(&q, sc.name))
		o.loose(&q, "network_url", sometimes(&q, 85, "https://www.network.example/school/"+sc.slug))
		if q.chance(55) {
			o.str("school_id", sc.id)
		}
		o.close()
		o.close()
	}
	o.closeList()
}

func (w *world) certifications(o *object, p *person, month int) {
	r := rng(mix(w.seed, streamSchool, uint64(p.e), 99))
	if !r.chance(30) {
		return
	}
	o.openListKey("certifications")
	for range 1 + r.n(3) {
		name, issuer, _ := strings.Cut(r.pick(w.lx.words["certs"]), "|")
		issued := p.born*12 + 22*12 + r.n(max(1, month-p.born*12-22*12))
		style, id := r.n(10), strings.ToUpper(hex16(r.next())[:8+r.n(5)])
		withID, withURL := r.chance(48), r.chance(40)
		if issued > month {
			continue
		}
		o.open()
		o.str("name", w.dirty(&r, name))
		o.str("issuer", issuer)
		if withID {
			o.str("credential_id", id)
		}
		if withURL {
			o.str("credential_url", "https://credentials.example/"+strings.ToLower(id))
		}
		o.str("issue_date", date(issued, style))
		o.close()
	}
	o.closeList()
}

// avatarURL returns the picture of an account, shared by people who use the same picture everywhere.
func (w *world) avatarURL(p *person, a *account) string {
	r := rng(mix(w.seed, streamAvatar, uint64(a.entity), uint64(a.platform)))
	if p != nil && p.avatar != 0 && r.chance(85) {
		return "https://pictures.example/avatar/" + hex16(p.avatar)
	}
	switch a.platform {
	case onNetwork:
		return "https://media.network.example/p/" + hex16(r.next()) + ".jpg"
	case onCodehost:
		return "https://avatars.codehost.example/u/" + strconv.FormatInt(w.userID(a.entity), 10) + "?v=4"
	}
	return "https://pbs.microblog.example/profile_images/" + hex16(r.next()) + "_normal.jpg"
}

func (w *world) statedEmails(o *object, a *account, v int) {
	list, addr := w.emailsOn(a, v)
	r := rng(mix(w.seed, streamEmail, uint64(a.entity), 10+uint64(a.platform)))
	if len(list) == 0 {
		if r.chance(12) {
			o.list("emails", nil)
		} else {
			o.loose(&r, "personal_email", "")
		}
		return
	}
	o.openListKey("emails")
	for _, s := range list {
		o.item(mixCase(&r, s))
	}
	o.closeList()
	if addr.personal != "" && r.chance(60) {
		o.str("personal_email", mixCase(&r, addr.personal))
	}
	if a.platform == onCodehost {
		if addr.school != "" && r.chance(80) {
			o.str("school_email", addr.school)
		}
		if len(list) > 1 && r.chance(30) {
			o.list("additional_emails", list[1:])
		}
	}
}
