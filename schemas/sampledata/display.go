package sampledata

import (
	"strings"

	"golang.org/x/text/unicode/norm"
)

// shownName is the display name of an account, with its parts if the platform has fields for them. full may
// be empty.
type shownName struct{ first, middle, last, full string }

func (w *world) networkName(p *person) shownName {
	r := rng(mix(w.seed, streamRender, uint64(p.e), 11))
	n := &p.name
	c := n.culture
	if n.given.native != "" && r.n(100) < c.native[0] {
		f, m, l := n.nativeParts()
		s := shownName{first: f, last: l, full: n.nativeFull()}
		if strings.Contains(s.full, m) && m != "" {
			s.middle = m
		}
		return s
	}
	alt := 0
	if r.chance(16) {
		alt = 1 + r.n(2)
	}
	f, m, l := n.parts(alt)
	if n.western != "" && r.chance(45) {
		f = n.western
	} else if len(n.given.nicks) > 0 && r.chance(9) {
		f = n.given.nicks[r.n(len(n.given.nicks))].latin
	}
	if n.second.latin != nil && r.chance(35) {
		l = n.family.spelling(alt)
	}
	if c.rate["initialfirst"] > 0 && r.n(100) < c.rate["initialfirst"] && l != "" {
		m, l = "", firstLetter(l)
	}
	if c.rate["vimiddle"] == 0 && m != "" && !r.chance(30) {
		m = ""
	} else if c.rate["initial"] > 0 && m != "" && r.chance(50) {
		m = firstLetter(m) + "."
	}
	s := shownName{first: f, middle: m, last: l}
	s.full = join(f, m, l)
	if c.code == "vi" && r.chance(70) {
		s.full = join(l, m, f)
	}
	if c.rate["accents"] > 0 && r.chance(16) || c.rate["accents"] == 0 && r.chance(10) {
		s = shownName{plain(s.first), plain(s.middle), plain(s.last), plain(s.full)}
	}
	switch u := r.n(1000); {
	case u < 14:
		s.full, s.last = s.full+", PhD", s.last+", PhD"
	case u < 24:
		s.full, s.last = s.full+" MBA", join(s.last, "MBA")
	case u < 32:
		s.full += " " + r.pick(w.lx.words["emoji"])
	case u < 40 && len(n.given.nicks) > 0:
		s.full = join(f, `"`+n.given.nicks[0].latin+`"`, l)
	case u < 48:
		s.full = strings.ToUpper(s.full)
	case u < 56:
		s.full = strings.ToLower(s.full)
	case u < 62:
		s.full = join("Dr.", s.full)
	}
	return s
}

// codehostName returns a developer's name field: often empty, a first name, a nickname or the handle.
func (w *world) codehostName(p *person, handle string) string {
	r := rng(mix(w.seed, streamRender, uint64(p.e), 12))
	n := &p.name
	if n.given.native != "" && r.n(100) < n.culture.native[1] {
		return n.nativeFull()
	}
	f, _, l := n.parts(0)
	switch u := r.n(100); {
	case u < 18:
		return ""
	case u < 43:
		return n.latin(0, false)
	case u < 51:
		return n.latin(1, true)
	case u < 57:
		return plain(n.latin(0, false))
	case u < 67:
		if len(n.given.nicks) > 0 {
			return join(n.given.nicks[r.n(len(n.given.nicks))].latin, l)
		}
		if n.western != "" {
			return join(n.western, l)
		}
		return join(f, n.family.spelling(1))
	case u < 78:
		return f
	case u < 83 && f != "" && l != "":
		return firstLetter(f) + ". " + l
	case u < 86:
		return strings.ToLower(n.latin(0, false))
	case u < 90:
		return join(l, f)
	case u < 96:
		return handle
	}
	return w.titleWords(&r)
}

func (w *world) microblogName(p *person, handle string) string {
	r := rng(mix(w.seed, streamRender, uint64(p.e), 13))
	n := &p.name
	if n.given.native != "" && r.n(100) < n.culture.native[2] {
		if r.chance(30) {
			return n.given.native
		}
		return n.nativeFull()
	}
	f, _, l := n.parts(r.n(2))
	switch u := r.n(100); {
	case u < 32:
		return n.latin(0, false)
	case u < 40:
		return plain(n.latin(0, true))
	case u < 54:
		return f
	case u < 64:
		if len(n.given.nicks) > 0 {
			k := n.given.nicks[r.n(len(n.given.nicks))]
			return join(k.latin, sometimes(&r, 55, l))
		}
		return join(n.western, l)
	case u < 71:
		return join(f, l, r.pick(w.lx.words["emoji"]))
	case u < 80:
		return handle
	case u < 86:
		return strings.ToLower(f)
	case u < 90:
		return join(r.pick(w.lx.words["emoji"]), f)
	}
	return w.titleWords(&r)
}

func (w *world) titleWords(r *rng) string {
	a, b := r.pick(w.lx.words["handle.a"]), r.pick(w.lx.words["handle.b"])
	return strings.ToUpper(a[:1]) + a[1:] + " " + strings.ToUpper(b[:1]) + b[1:]
}

// dirty returns most text unchanged, and the rest with artifacts of crawls.
func (w *world) dirty(r *rng, s string) string {
	if s == "" || !r.chance(4) {
		return s
	}
	switch r.n(13) {
	case 0:
		return s + " "
	case 1:
		return "  " + s
	case 2:
		return strings.ReplaceAll(s, " ", "  ")
	case 3:
		return strings.ToUpper(s)
	case 4:
		return strings.ToLower(s)
	case 5:
		return strings.NewReplacer("&", "&amp;", "'", "&#39;", "é", "&eacute;", " ", "&nbsp;").Replace(s)
	case 6:
		return s + " " + r.pick(w.lx.words["emoji"])
	case 7:
		return "\u200f" + s + "\u200e"
	case 8:
		return strings.ReplaceAll(s, " ", "\u00a0")
	case 9:
		return norm.NFD.String(s)
	case 10:
		return s + "\u200b"
	case 11:
		return "\t" + s + "\r\n"
	}
	return "\u202b" + s + "\u202c"
}

// placeText returns a free-text location in one of the usual forms.
func (w *world) placeText(r *rng, cty int, lang string) string {
	c := &w.lx.cities[cty]
	cc := &w.lx.countries[c.country]
	if c.native != "" && lang == cc.lang && r.chance(50) {
		return c.native
	}
	switch u := r.n(100); {
	case u < 34:
		return c.name + ", " + cc.name
	case u < 54:
		return c.name
	case u < 60 && c.region != "":
		return c.name + ", " + c.region
	case u < 66 && c.state != "":
		return c.name + ", " + c.state
	case u < 72:
		return cc.name
	case u < 78:
		return strings.ToLower(plain(c.name))
	case u < 83:
		return c.name + " " + flagEmoji(cc.code)
	case u < 88:
		return plain(c.name) + " - " + cc.code
	case u < 92:
		return flagEmoji(cc.code)
	case u < 95:
		other := &w.lx.cities[r.n(len(w.lx.cities))]
		return c.name + " ✈ " + other.name
	}
	return r.pick(w.lx.words["timezonewords"])
}

// flagEmoji returns the emoji of a country code: two regional indicators.
func flagEmoji(code string) string {
	return string([]rune{0x1F1E6 + rune(code[0]-'A'), 0x1F1E6 + rune(code[1]-'A')})
}
