package sampledata

import (
	"strconv"
	"strings"
)

// naming is the source of handle candidates.
type naming struct {
	class               entityClass
	given, family, nick string // handle words; may be empty for native spellings
	native              string // native full name, for the few slugs in another script
	born                int
	brand               string // companies, bots, communities, public bodies: the name as a slug
	first               platform
	likes               [2]int // relation of the second and third account's handle to the person, see likeness
	city                string
	tech                string
	hobby               string
}

// Relation of the handle of a person's second and third account to the person. A pseudonym is unlike the
// name; shared pseudonyms link an account only to another pseudonymous one.
const (
	likeName = iota
	likeFirst
	pseudonymOwn
	pseudonymShared
)

func (w *world) naming(e int) *naming {
	slot := &w.recentNaming[e%len(w.recentNaming)]
	if slot.nm == nil || slot.e != e {
		*slot = namingEntry{e, w.deriveNaming(e)}
	}
	return slot.nm
}

func (w *world) deriveNaming(e int) *naming {
	nm := &naming{class: w.class(e)}
	r := rng(mix(w.seed, streamHandle, uint64(e)))
	switch nm.class {
	case classPerson:
		n := w.personName(e)
		alt := 0
		if r.chance(25) {
			alt = 1
		}
		first, _, last := n.parts(alt)
		nm.given, nm.family = handleWord(first), handleWord(last)
		if words := strings.Fields(plain(first)); len(words) > 1 && r.chance(40) {
			nm.given = handleWord(words[0])
		}
		if words := strings.Fields(plain(last)); len(words) > 1 && r.chance(70) {
			nm.family = handleWord(words[0])
		}
		nm.nick = nm.given
		if len(n.given.nicks) > 0 {
			nm.nick = handleWord(n.given.nicks[r.n(len(n.given.nicks))].latin)
		}
		if n.western != "" && r.chance(60) {
			nm.nick = handleWord(n.western)
		}
		nm.native = n.nativeFull()
		q := rng(mix(w.seed, streamPerson, uint64(e), 5))
		nm.born = w.year - 21 - int(q.f()*q.f()*34) - q.n(12)
		_, home := w.homeOf(e, n.culture)
		nm.city = handleWord(w.lx.cities[home].name)
		nm.tech = handleWord(r.pick(w.lx.techNames))
		nm.hobby = handleWord(r.pick(w.lx.words["hobbies"]))
		has := w.state[e].has
		for p := onNetwork; p < onCompany; p++ {
			if has&(1<<p) != 0 {
				nm.first = p
				break
			}
		}
		for i := range nm.likes {
			switch u := r.n(100); {
			case u < 27:
				nm.likes[i] = pseudonymOwn + boolInt(r.chance(45))
			case u < 47:
				nm.likes[i] = likeFirst
			}
		}
	case classCompany:
		nm.brand = kebab(w.companies[e-w.firstCompany].name)
		if s := w.companySlug[e-w.firstCompany]; s != "" && r.chance(45) {
			nm.brand = s
		}
	default:
		nm.brand = kebab(w.officialName(e))
	}
	return nm
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// officialName is the display name of a bot, a community or a public body.
func (w *world) officialName(e int) string {
	r := rng(mix(w.seed, streamPerson, uint64(e), 6))
	list := map[entityClass]string{classBot: "bots", classCommunity: "communities",
		classGovernment: "government"}[w.class(e)]
	c := w.lx.cities[r.n(len(w.lx.cities))]
	s := r.pick(w.lx.words[list])
	x := strings.ToLower(r.pick(w.lx.words["company.a"]))
	if r.chance(50) {
		x = kebab(w.shortName(int32(r.n(len(w.companies)))))
	}
	name := c.name
	if w.class(e) != classGovernment {
		name = c.slug
	}
	return strings.NewReplacer("{c}", name, "{x}", x, "{n}", w.lx.countries[c.country].name).Replace(s)
}

// candidate returns the k-th handle that an entity requests on a platform, before (era 0) or after (era 1)
// its rename; "" if it is invalid.
func (w *world) candidate(nm *naming, e int, p platform, era, k int) string {
	r := rng(mix(w.seed, streamHandle, uint64(e), uint64(p), uint64(era), uint64(k)))
	switch {
	case p == onCompany:
		return w.companyCandidate(&r, e, era, k)
	case nm.class != classPerson:
		return brandCandidate(&r, nm, p, era, k)
	}
	style := rng(mix(w.seed, streamHandle, uint64(e), uint64(p), uint64(era)+8))
	if p == onCodehost && k == 0 && mix(w.seed, streamHandle, uint64(e), 0xd161)%900 == 0 {
		return strconv.FormatInt(w.userID(r.n(w.entities)), 10) // a name that equals another account's user id
	}
	var s string
	switch like := nm.relation(p); {
	case like == pseudonymShared && style.chance(80):
		shared := rng(mix(w.seed, streamPseudonym, uint64(e)))
		s = w.pseudonym(&shared)
		if k > 0 {
			s += digits(&r, 1+k)
		}
	case like >= pseudonymOwn && (p != onNetwork || style.chance(70)):
		s = w.pseudonym(&style)
		if k > 0 {
			s += digits(&r, 1+min(k, 6))
		}
	case p == onNetwork:
		return networkSlug(&style, &r, nm, k)
	case like == likeFirst && nm.first != p && k == 0:
		if s = withoutSuffix(w.handleWith(nm, e, nm.first, 0)); !isASCII(s) || len(s) < 3 {
			s = nameHandle(&style, &r, nm, k)
		}
		if style.chance(75) {
			s = strings.ReplaceAll(s, "-", "")
		}
		s = strings.ToLower(s)
	default:
		s = nameHandle(&style, &r, nm, k)
	}
	return fit(&style, s, p)
}

// withoutSuffix removes the suffix that the platform added to a slug: people do not use it on other
// platforms.
func withoutSuffix(slug string) string {
	words := strings.Split(slug, "-")
	kept := words[:1]
	for _, s := range words[1:] {
		if !strings.ContainsAny(s, "0123456789") {
			kept = append(kept, s)
		}
	}
	return strings.Join(kept, "-")
}

func (nm *naming) relation(p platform) int {
	if p == nm.first {
		if p != onNetwork && nm.likes[0] >= pseudonymOwn && nm.born%3 == 0 {
			return pseudonymOwn
		}
		return likeName
	}
	return nm.likes[int(p)%2]
}

func digits(r *rng, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('0' + r.n(10))
	}
	return string(b)
}

// networkSlug returns a profile slug: a name, usually with the platform's suffix for taken names.
func networkSlug(style, r *rng, nm *naming, k int) string {
	g, f := nm.given, nm.family
	base := join2(g, f, "-")
	suffix := style.chance(50)
	switch u := style.n(100); {
	case u < 3 && nm.native != "":
		base = strings.ReplaceAll(strings.ToLower(nm.native), " ", "-")
	case u < 11:
		base = g + f
	case u < 17:
		base = initial(g) + f
	case u < 21:
		base = join2(f, g, "-")
	case u < 24:
		base = join2(nm.nick, f, "-")
	case u < 27:
		base = join2(g, initial(f), "-")
	case u < 30:
		base = join2(base, style.pick([]string{"phd", "mba", "pmp", "dev", "md", "cpa", "eng"}), "-")
	}
	if base == "" {
		base = "user"
	}
	if k == 0 && !suffix {
		return base
	}
	switch u := r.n(100); {
	case u < 20:
		return base + "-" + digits(r, 2+r.n(3)+k/8)
	case u < 26:
		return base + strconv.Itoa(nm.born)
	default:
		return base + "-" + hex16(r.next())[:7+r.n(3)]
	}
}

func join2(a, b, sep string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	}
	return a + sep + b
}

func initial(s string) string {
	if s == "" {
		return ""
	}
	return s[:1]
}

// nameHandle returns a handle derived from the name in one of the usual ways.
func nameHandle(style, r *rng, nm *naming, k int) string {
	g, f, n := nm.given, nm.family, nm.nick
	if g == "" {
		g, n = f, f
	}
	form := style.n(100)
	if k > 0 {
		form = r.n(100)
	}
	yy := strconv.Itoa(nm.born)
	var s string
	switch {
	case form < 16:
		s = g + f
	case form < 26:
		s = join2(g, f, "-")
	case form < 37:
		s = initial(g) + f
	case form < 43:
		s = g + initial(f)
	case form < 48:
		s = f + g
	case form < 52:
		s = f + initial(g)
	case form < 57:
		s = join2(f, g, "-")
	case form < 63:
		s = n + f
	case form < 67:
		s = g + yy[2:]
	case form < 70:
		s = n + yy
	case form < 73:
		s = initial(g) + initial(f) + yy
	case form < 76:
		s = g + f + yy[2:]
	case form < 79:
		s = n + "-" + nm.tech
	case form < 82:
		s = g + r.pick([]string{"dev", "codes", "hq", "builds", "makes", "io", "x", "tech", "lab"})
	case form < 85:
		s = r.pick([]string{"the", "real", "iam", "its", "hey", "mr", "dr", "just"}) + n
	case form < 88:
		s = n + nm.hobby
	case form < 90:
		s = n + "-" + nm.city
	case form < 92:
		s = consonants(f) + initial(g)
	case form < 94:
		s = g
	case form < 96:
		s = f
	default:
		s = n + digits(r, 2)
	}
	if s == "" {
		s = "user"
	}
	if k >= 3 {
		s += digits(r, min(1+k/3, 5))
	}
	return s
}

func consonants(s string) string {
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune("aeiou", c) {
			return -1
		}
		return c
	}, s)
}

func (w *world) pseudonym(r *rng) string {
	wd := w.lx.words
	switch u := r.n(100); {
	case u < 34:
		return r.pick(wd["handle.a"]) + r.pick([]string{"", "", "-"}) + r.pick(wd["handle.b"])
	case u < 48:
		return r.pick(wd["handle.a"]) + r.pick(wd["handle.b"]) + digits(r, 2)
	case u < 60:
		return r.pick(wd["handle.word"])
	case u < 74:
		return r.pick(wd["handle.word"]) + digits(r, 1+r.n(3))
	case u < 80:
		return r.pick(wd["handle.word"]) + r.pick(wd["handle.b"])
	case u < 86:
		return strings.NewReplacer("o", "0", "e", "3", "i", "1").Replace(r.pick(wd["handle.b"])) + digits(r, 2)
	case u < 92:
		b := make([]byte, 4+r.n(4))
		for i := range b {
			b[i] = "bcdfghjklmnpqrstvwxz"[r.n(20)]
		}
		return string(b)
	case u < 96:
		return r.pick([]string{"x", "xx", "not", "no", "the", "real"}) + r.pick(wd["handle.word"])
	case u < 97:
		return digits(r, 5+r.n(4))
	}
	return r.pick(wd["handle.b"]) + "of" + r.pick(wd["handle.word"])
}

// fit converts a candidate to a valid handle of the platform, in the owner's preferred case.
func fit(r *rng, s string, p platform) string {
	if p == onMicroblog {
		s = strings.ReplaceAll(s, "-", r.pick([]string{"_", ""}))
		if len(s) > 15 { // digits that make it unique stay
			end := len(s)
			for end > 0 && len(s)-end < 8 && s[end-1] >= '0' && s[end-1] <= '9' {
				end--
			}
			s = s[:15-(len(s)-end)] + s[end:]
		}
	} else {
		s = strings.Trim(s, "-")
		if len(s) > 39 {
			s = strings.Trim(s[:39], "-")
		}
	}
	if len(s) < 2 {
		return ""
	}
	rate := 14.0
	if p == onMicroblog {
		rate = 30
	}
	if p != onNetwork && r.chance(rate) && s[0] >= 'a' && s[0] <= 'z' {
		b := []byte(s)
		b[0] -= 32
		for i := 1; i < len(b); i++ {
			if (b[i-1] == '-' || b[i-1] == '_') && b[i] >= 'a' && b[i] <= 'z' {
				b[i] -= 32
			}
		}
		s = string(b)
	}
	return s
}

func (w *world) companyCandidate(r *rng, e, era, k int) string {
	c := &w.companies[e-w.firstCompany]
	base := kebab(c.name)
	if era == 1 && r.chance(50) {
		base = kebab(w.shortName(int32(e-w.firstCompany))) + "-" +
			r.pick([]string{"group", "global", "hq", "io", "now"})
	}
	city := &w.lx.cities[c.city]
	switch k {
	case 0:
		return base
	case 1:
		return base + "-" + strings.ToLower(w.lx.countries[city.country].code)
	case 2:
		return base + "-" + city.slug
	}
	return base + "-" + digits(r, 1+min(k/2, 5))
}

func brandCandidate(r *rng, nm *naming, p platform, era, k int) string {
	s := nm.brand
	if s == "" {
		s = "org"
	}
	if k > 0 || era > 0 {
		s += r.pick([]string{"-hq", "-io", "-labs", "-team", "-official", "-oss", "-app", "-dev"})
	}
	if k > 2 {
		s += digits(r, min(k-1, 5))
	}
	if p == onMicroblog {
		s = strings.ReplaceAll(s, "-", "")
		if over := len(s) - 15; over > 0 {
			s = s[:12] + s[len(s)-3:]
		}
		return s
	}
	if r.chance(35) {
		s = strings.ReplaceAll(s, "-", "")
	}
	if len(s) > 39 {
		s = s[:30] + s[len(s)-8:]
	}
	return strings.Trim(s, "-")
}
