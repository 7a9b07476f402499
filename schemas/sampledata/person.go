package sampledata

import (
	"slices"
	"strconv"
	"strings"
)

// job is one position of a person. Months count from year 0; end 0 means ongoing.
type job struct {
	company    int32
	title      string
	city       int
	start, end int
	skills     []string
	noise      uint64
}

type study struct {
	school     int
	degree     string
	major      string
	start, end int // years
}

// person has the attributes of a person that do not depend on a platform. It is derived from (seed, index)
// whenever one of its records is written.
type person struct {
	e       int
	name    fullName
	born    int
	city    int
	origin  int // where they grew up
	field   int
	lang    string // language they write in
	jobs    []job  // oldest first
	studies []study
	skills  []string
	tongues []string
	tech    []int // indexes into techNames, most used first
	hobbies []string
	site    string // personal website, often none
	avatar  uint64 // shared picture, 0 when every account has its own
}

// nameSeed returns the seed of a person's name. A few people deliberately share a name and live or work near
// each other: namesakes that make record linkage hard in small samples, too.
func (w *world) nameSeed(e int) uint64 { return mix(w.seed, streamName, uint64(w.namesake(e))) }

func (w *world) namesake(e int) int {
	r := rng(mix(w.seed, streamTwin, uint64(e)))
	if r.chance(1.6) {
		return r.n(w.people)
	}
	return e
}

func (w *world) fieldOf(e int) int {
	r := rng(mix(w.seed, streamPerson, uint64(e), 2))
	return w.lx.fieldW.pick(&r)
}

func (w *world) personName(e int) fullName {
	seed := w.nameSeed(e)
	r := rng(seed)
	return w.lx.makeName(w.lx.cultures[w.lx.cultureW.pick(&r)], r.next())
}

// homeOf returns where a person grew up and lives.
func (w *world) homeOf(e int, c *culture) (origin, home int) {
	n := w.namesake(e)
	if r := rng(mix(w.seed, streamPerson, uint64(e), 3)); n != e && r.chance(55) {
		e = n
	}
	r := rng(mix(w.seed, streamPerson, uint64(e), 4))
	ctry := c.countries[c.countryW.pick(&r)]
	cc := &w.lx.countries[ctry]
	origin = cc.cities[cc.cityWeight.pick(&r)]
	home = origin
	switch u := r.n(100); {
	case u < 38:
		home = cc.cities[cc.cityWeight.pick(&r)]
	case u < 48:
		other := w.lx.cultures[w.lx.cultureW.pick(&r)]
		cc = &w.lx.countries[other.countries[other.countryW.pick(&r)]]
		home = cc.cities[cc.cityWeight.pick(&r)]
	}
	return origin, home
}

func (w *world) person(e int) *person {
	slot := &w.recentPeople[e%len(w.recentPeople)]
	if *slot == nil || (*slot).e != e {
		*slot = w.derivePerson(e)
	}
	return *slot
}

func (w *world) derivePerson(e int) *person {
	p := &person{e: e, name: w.personName(e), field: w.fieldOf(e)}
	c := p.name.culture
	p.origin, p.city = w.homeOf(e, c)
	origin := p.origin
	r := rng(mix(w.seed, streamPerson, uint64(e), 5))
	p.born = w.year - 21 - int(r.f()*r.f()*34) - r.n(12)
	p.lang = "en"
	if native := w.lx.countries[w.lx.cities[origin].country].lang; r.chance(42) {
		p.lang = native
	}
	f := &w.lx.fields[p.field]
	p.studies = w.studiesOf(&r, f, p.born, origin, p.city)
	p.skills = sample(&r, f.skills, 3+r.n(10))
	if r.chance(30) {
		p.skills = append(p.skills, sample(&r, w.lx.fields[r.n(len(w.lx.fields))].skills, 1+r.n(3))...)
		p.skills = dedupe(p.skills)
	}
	p.jobs = w.careerOf(&r, p, f, origin)
	p.tongues = []string{c.code}
	if c.code != "en" && r.chance(85) {
		p.tongues = append(p.tongues, "en")
	}
	for r.chance(24) {
		p.tongues = append(p.tongues, w.lx.cultures[r.n(len(w.lx.cultures))].code)
	}
	p.tongues = dedupe(p.tongues)
	p.tech = w.techOf(&r, p.skills)
	p.hobbies = sample(&r, w.lx.words["hobbies"], 3)
	if r.chance(16) {
		first, _, last := p.name.parts(0)
		p.site = "https://" + siteName(&r, handleWord(first), handleWord(last)) + "." + r.pick(w.lx.words["websites"])
	}
	if r.chance(17) {
		p.avatar = mix(w.seed, streamAvatar, uint64(e), 77) | 1
	}
	return p
}

func siteName(r *rng, first, last string) string {
	if first == "" {
		first = "home"
	}
	n := strconv.Itoa(r.n(900) + 10)
	switch r.n(4) {
	case 0:
		return first + last
	case 1:
		return first + "-" + last + n
	case 2:
		return first + n
	}
	return last + first[:1] + n
}

func (w *world) studiesOf(r *rng, f *field, born, origin, home int) []study {
	if r.chance(9) {
		return nil
	}
	at := func() int {
		c := origin
		if r.chance(40) {
			cc := &w.lx.countries[w.lx.cities[origin].country]
			c = cc.cities[cc.cityWeight.pick(r)]
		} else if r.chance(20) {
			c = home
		}
		return c*len(w.lx.words["school"]) + min(r.n(8), r.n(8))
	}
	start := born + 18 + r.n(3)
	out := []study{{school: at(), degree: r.pick(w.lx.words["degrees"]), major: r.pick(f.majors), start: start,
		end: start + 3 + r.n(2)}}
	if r.chance(36) {
		s := out[0].end + r.n(4)
		out = append(out, study{school: at(), degree: r.pick(w.lx.words["degrees.higher"]), major: r.pick(f.majors),
			start: s, end: s + 1 + r.n(4)})
	}
	kept := out[:0]
	for _, s := range out {
		if s.start < w.year {
			kept = append(kept, s)
		}
	}
	return kept
}

func (w *world) careerOf(r *rng, p *person, f *field, origin int) []job {
	now := w.opts.Now.Year()*12 + int(w.opts.Now.Month()) - 1
	month := (p.born+21+r.n(4))*12 + r.n(12)
	if len(p.studies) > 0 {
		month = p.studies[0].end*12 + 6 + r.n(18)
	}
	var out []job
	twin := w.namesake(p.e)
	for month < now && len(out) < 14 {
		place := p.city
		if len(out) == 0 && r.chance(55) {
			place = origin
		}
		j := job{title: f.titles[min(r.n(len(f.titles)), r.n(len(f.titles)))], city: place, start: month,
			noise: r.next()}
		j.company = w.pickEmployer(r, w.lx.cities[place].country, f.name)
		if twin != p.e && len(out) == 0 && r.chance(35) { // a namesake in the same company
			o := rng(mix(w.seed, streamTwin, uint64(twin), 1))
			j.company = w.pickEmployer(&o, w.lx.cities[p.city].country, f.name)
		}
		if len(p.skills) > 0 {
			j.skills = sample(r, p.skills, 1+r.n(3))
		}
		span := 5 + int(r.f()*r.f()*110)
		month += span
		if month < now {
			j.end = month
		} else if r.chance(9) {
			j.end = now - r.n(min(span, 8))
			if j.end <= j.start {
				j.end = 0
			}
		}
		out = append(out, j)
		month += r.n(3) * r.n(4)
		if r.chance(6) { // a second, concurrent position
			side := job{title: r.pick([]string{"Board Member", "Volunteer", "Mentor", "Founder", "Advisor",
				"Freelancer", "Speaker"}), city: place,
				start: j.start + r.n(span), company: w.pickEmployer(r, w.lx.cities[place].country, f.name),
				noise: r.next(), skills: j.skills}
			if side.start < now {
				if r.chance(60) {
					side.end = min(side.start+6+r.n(48), now)
				}
				out = append(out, side)
			}
		}
	}
	return out
}

func (w *world) techOf(r *rng, skills []string) []int {
	var out []int
	for _, s := range skills {
		if i := slices.Index(w.lx.techNames, s); i >= 0 {
			out = append(out, i)
		}
	}
	for len(out) < 2 {
		out = append(out, min(r.n(len(w.lx.techNames)), r.n(len(w.lx.techNames))))
	}
	return out
}

// placeOn returns the city on an account: the home, or a former one.
func (w *world) placeOn(p *person, a *account) int {
	r := rng(mix(w.seed, streamPerson, uint64(p.e), 20+uint64(a.platform)))
	switch u := r.n(100); {
	case u < 14:
		return p.origin
	case u < 19 && len(p.jobs) > 0:
		return p.jobs[r.n(len(p.jobs))].city
	}
	return p.city
}

// jobAt returns the main position at a time, nil if there is none.
func (p *person) jobAt(month int) *job {
	var best *job
	for i := range p.jobs {
		j := &p.jobs[i]
		if j.start <= month && (j.end == 0 || j.end > month) && (best == nil || j.start >= best.start) &&
			!side(j.title) {
			best = j
		}
	}
	return best
}

func side(title string) bool {
	switch title {
	case "Board Member", "Volunteer", "Mentor", "Advisor", "Freelancer", "Speaker":
		return true
	}
	return false
}

func (p *person) pastJob(month int) *job {
	for i := len(p.jobs) - 1; i >= 0; i-- {
		if j := &p.jobs[i]; j.end != 0 && j.end <= month {
			return j
		}
	}
	return nil
}

// monthOf returns the month, counted from year 0, of a time in Unix milliseconds.
func monthOf(ms int64) int {
	days := int(ms / day)
	// Exact to a day: records have months, and the border of a month is arbitrary here.
	return 1970*12 + days*12*400/146097
}

func sample(r *rng, list []string, n int) []string {
	if n >= len(list) {
		n = len(list)
	}
	out := slices.Clone(list)
	for i := range n {
		j := i + r.n(len(out)-i)
		out[i], out[j] = out[j], out[i]
	}
	return out[:n:n]
}

func dedupe(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func sometimes(r *rng, percent float64, s string) string {
	if r.chance(percent) {
		return s
	}
	return ""
}

// fillContext has the values of the sentence templates.
type fillContext struct {
	title, company, past, city, school, major string
	skills, hobbies                           []string
	years                                     int
	female                                    bool
}

func (w *world) fillFor(p *person, month int) *fillContext {
	c := &fillContext{city: w.lx.cities[p.city].name, skills: p.skills, hobbies: p.hobbies, female: p.name.female,
		title: w.lx.fields[p.field].titles[0]}
	if n := w.lx.cities[p.city].native; n != "" && p.lang != "en" &&
		p.lang == w.lx.countries[w.lx.cities[p.city].country].lang {
		c.city = n
	}
	if j := p.jobAt(month); j != nil {
		c.title, c.company = j.title, w.shortName(j.company)
	}
	if j := p.pastJob(month); j != nil {
		c.past = w.shortName(j.company)
	}
	if len(p.jobs) > 0 {
		c.years = max(1, (month-p.jobs[0].start)/12)
	}
	if len(p.studies) > 0 {
		s := p.studies[len(p.studies)-1]
		c.school, c.major = w.schoolAt(s.school).name, s.major
	}
	return c
}

// expand fills a template. It returns "" if a value is missing.
func (w *world) expand(r *rng, tmpl string, c *fillContext) string {
	if !strings.Contains(tmpl, "{") {
		return tmpl
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(tmpl, '{')
		if i < 0 {
			b.WriteString(tmpl)
			return b.String()
		}
		end := i + strings.IndexByte(tmpl[i:], '}')
		b.WriteString(tmpl[:i])
		v := ""
		switch tmpl[i+1 : end] {
		case "title":
			v = c.title
		case "company":
			v = c.company
		case "past":
			v = c.past
		case "city":
			v = c.city
		case "school":
			v = c.school
		case "major":
			v = c.major
		case "skill":
			v = r.pick(c.skills)
		case "hobby":
			v = r.pick(c.hobbies)
		case "emoji":
			v = r.pick(w.lx.words["emoji"])
		case "n":
			v = strconv.Itoa(2 + r.n(48))
		case "years":
			if c.years > 0 {
				v = strconv.Itoa(c.years)
			}
		}
		if v == "" {
			return ""
		}
		b.WriteString(v)
		tmpl = tmpl[end+1:]
	}
}

// sentence expands one of the templates, trying a few until one can be filled.
func (w *world) sentence(r *rng, list []string, c *fillContext) string {
	for range 4 {
		tmpl := r.pick(list)
		if female := strings.HasPrefix(tmpl, "she/") || strings.HasPrefix(tmpl, "Mum "); female && !c.female {
			continue
		}
		if male := strings.HasPrefix(tmpl, "he/") || strings.HasPrefix(tmpl, "Dad,"); male && c.female {
			continue
		}
		if s := w.expand(r, tmpl, c); s != "" {
			return s
		}
	}
	return ""
}
