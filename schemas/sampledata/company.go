package sampledata

import (
	"math"
	"strconv"
	"strings"
)

// company is the state kept for each company: careers refer to it often. There is about one per twenty
// people.
type company struct {
	name, domain string
	city         int32
	industry     uint8
	size         int32 // stated number of employees
	founded      int16
}

// companyPower shapes the number of employees of the company of rank x in its country: the rank is drawn as
// u^companyPower.
const companyPower = 2.4

func (w *world) makeCompanies() {
	n := max(300, w.opts.People/20)
	w.companies = make([]company, n)
	w.companiesIn = make([][]int32, len(w.lx.countries))
	for i := range w.companies {
		r := rng(mix(w.seed, streamCompany, uint64(i)))
		cul := w.lx.cultures[w.lx.cultureW.pick(&r)]
		ctry := cul.countries[cul.countryW.pick(&r)]
		c := &w.companies[i]
		cc := &w.lx.countries[ctry]
		c.city = int32(cc.cities[cc.cityWeight.pick(&r)])
		c.industry = uint8(r.n(len(w.lx.industries)))
		c.name = w.companyName(&r, cul, ctry, int(c.city))
		w.companiesIn[ctry] = append(w.companiesIn[ctry], int32(i))
		rank := len(w.companiesIn[ctry])
		scale := float64(w.opts.People) / 20000
		staff := 900 * math.Max(scale, 1) / math.Pow(float64(rank), 0.85) * (0.3 + r.f()*1.4)
		c.size = int32(math.Max(1, math.Min(staff, 400_000)))
		c.founded = int16(w.year - 1 - int(math.Pow(r.f(), 2)*110))
	}
}

func (w *world) companyName(r *rng, cul *culture, ctry, cty int) string {
	wd := w.lx.words
	var base string
	switch u := r.n(100); {
	case u < 52:
		base = r.pick(wd["company.a"]) + r.pick(wd["company.b"])
	case u < 66:
		base = r.pick(wd["company.a"]) + " " + r.pick(wd["company.c"])
	case u < 78:
		base = r.pick(wd["company.a"]) + r.pick(wd["company.b"]) + " " + r.pick(wd["company.c"])
	case u < 86:
		base = cul.family[0][cul.familyW.pick(r)].latin[0] + " " + r.pick(wd["company.c"])
	case u < 91:
		base = cul.family[0][cul.familyW.pick(r)].latin[0] + " & " + cul.family[0][cul.familyW.pick(r)].latin[0]
	case u < 95:
		base = w.lx.cities[cty].name + " " + r.pick(wd["company.c"])
	case u < 97:
		base = strings.ToUpper(r.pick(wd["company.a"])[:2] + r.pick(wd["company.b"])[:1])
	default:
		base = r.pick(wd["company.a"]) + "." + r.pick([]string{"io", "ai", "app", "co"})
	}
	if r.chance(24) {
		base += " " + r.pick(w.lx.countries[ctry].legal)
	}
	return base
}

// shortName returns the name without its legal form, as employees write it.
func (w *world) shortName(i int32) string {
	c := &w.companies[i]
	for _, l := range w.lx.countries[w.lx.cities[c.city].country].legal {
		if s, ok := strings.CutSuffix(c.name, " "+l); ok {
			return s
		}
	}
	return c.name
}

// pickEmployer returns a company for a person of the country who works in the field: mostly a domestic one,
// large ones much more often.
func (w *world) pickEmployer(r *rng, ctry int, fieldName string) int32 {
	best := int32(0)
	for range 3 {
		list := w.companiesIn[ctry]
		if len(list) == 0 || r.chance(9) {
			best = int32(float64(len(w.companies)) * math.Pow(r.f(), companyPower))
		} else {
			best = list[int(float64(len(list))*math.Pow(r.f(), companyPower))]
		}
		if kind := w.lx.industries[w.companies[best].industry].kind; kind == fieldName || kind == "software" &&
			fieldName == "data" {
			break
		}
	}
	return best
}

func sizeRange(n int32) string {
	switch {
	case n <= 1:
		return "1"
	case n <= 10:
		return "2-10"
	case n <= 50:
		return "11-50"
	case n <= 200:
		return "51-200"
	case n <= 500:
		return "201-500"
	case n <= 1000:
		return "501-1,000"
	case n <= 5000:
		return "1,001-5,000"
	case n <= 10000:
		return "5,001-10,000"
	}
	return "10,001+"
}

func (w *world) companyID(i int32) string {
	return "co_" + strconv.FormatUint(w.permCompany.at(uint64(i))+36*36*36*36, 36)
}

func (w *world) companyNetworkID(i int32) string {
	return strconv.FormatUint(w.permCompanyNet.at(uint64(i))+1000, 10)
}

type school struct {
	name, slug, id string
}

// makeSchools gives every city one school of each form.
func (w *world) makeSchools() {
	for c := range w.lx.cities {
		for _, form := range w.lx.words["school"] {
			name := strings.ReplaceAll(form, "{c}", w.lx.cities[c].name)
			id := mix(w.seed, streamSchool, uint64(len(w.schools)))%90_000_000 + 1_000_000
			w.schools = append(w.schools, school{name: name, slug: kebab(name), id: strconv.FormatUint(id, 10)})
		}
	}
}

func (w *world) schoolAt(n int) *school { return &w.schools[n] }

func (w *world) renderCompany(o *object, a *account, v int) {
	i := int32(a.entity - w.firstCompany)
	c := &w.companies[i]
	t := a.content[v]
	r := rng(mix(w.seed, streamCompany, uint64(i), 7))
	city := &w.lx.cities[c.city]
	cc := &w.lx.countries[city.country]
	ind := w.lx.industries[c.industry]
	o.open()
	o.str("company_id", w.companyID(i))
	if w.statesSlug(int(i)) {
		o.str("network_slug", w.handleAt(a, t))
	}
	if w.statesNetworkID(int(i)) {
		o.str("network_id", w.companyNetworkID(i))
	}
	grown := growth(a, t)
	staff := max(int32(float64(c.size)*(0.6+0.4*grown)), 1)
	o.openKey("profile")
	o.str("name", w.dirty(&r, c.name))
	o.loose(&r, "tagline", sometimes(&r, 55, w.expand(&r, r.pick([]string{
		"{skill} for everyone", "The {skill} company", "Making {skill} simple.", "Your partner in {city}",
		"{skill}, delivered", "We ❤ {skill}", "Since day one — quality &amp; trust",
	}), &fillContext{skills: ind.specialties, city: city.name})))
	o.loose(&r, "description", sometimes(&r, 80, w.companyDescription(&r, c, city, ind)))
	o.str("industry", ind.name)
	o.str("company_size", sizeRange(staff))
	o.num("employees", int64(staff))
	if r.chance(82) {
		o.num("founded", int64(c.founded))
	}
	o.loose(&r, "website", sometimes(&r, 86, w.companySite(c)))
	o.loose(&r, "phone", sometimes(&r, 35, cc.dial+strconv.Itoa(10+r.n(90))))
	if r.chance(70) {
		o.list("specialties", sample(&r, ind.specialties, 1+r.n(4)))
	}
	o.close()
	o.openKey("headquarters")
	o.str("city", city.name)
	if city.region != "" {
		o.str("region", city.region)
	} else {
		o.null("region")
	}
	o.str("country", cc.code)
	if city.postal != "" && r.chance(80) {
		o.str("postal_code", city.postal)
	} else {
		o.null("postal_code")
	}
	if r.chance(62) {
		o.str("line1", strconv.Itoa(1+r.n(400))+" "+r.pick(w.lx.words["company.a"])+" "+
			r.pick([]string{"Street", "Road", "Avenue", "Way", "Square", "Park"}))
	} else {
		o.null("line1")
	}
	if r.chance(18) {
		o.str("line2", "Floor "+strconv.Itoa(1+r.n(30)))
	} else {
		o.null("line2")
	}
	o.close()
	o.openKey("images")
	o.text("logo", sometimes(&r, 82, "https://media.network.example/logo/"+
		hex16(mix(w.seed, streamAvatar, uint64(a.entity), 1))+".png"))
	o.loose(&r, "cover", sometimes(&r, 45, "https://media.network.example/cover/"+
		hex16(mix(w.seed, streamAvatar, uint64(a.entity), 2))+".jpg"))
	o.close()
	if r.chance(12) {
		o.num("follower_count", int64(float64(staff)*(2+r.f()*30)))
	}
	o.instant("last_updated", a.versions[v].at)
	o.close()
}

// statesSlug reports whether a company's records have its slug; a few do not.
func (w *world) statesSlug(i int) bool { return mix(w.seed, streamCompany, uint64(i), 8)%70 != 0 }

func (w *world) statesNetworkID(i int) bool { return mix(w.seed, streamCompany, uint64(i), 9)%17 != 0 }

func (w *world) companySite(c *company) string { return "https://www." + c.domain }

func (w *world) companyDescription(r *rng, c *company, city *city, ind industry) string {
	s := r.pick([]string{
		"{company} is a {title} company based in {city}.", "Founded in {city}, {company} works on {skill} and {skill}.",
		"At {company} we believe in {skill}.", "{company} – {skill} from {city}.",
	}) + " " + r.pick([]string{
		"We serve customers in {n} countries.", "Our team of engineers, analysts and designers cares about {skill}.",
		"<p>Join us!</p>", "We are hiring 🚀", "Part of a family-owned group.", "",
	})
	return w.expand(r, strings.TrimSpace(s), &fillContext{skills: ind.specialties, city: city.name,
		title: strings.ToLower(ind.name), company: c.name})
}
