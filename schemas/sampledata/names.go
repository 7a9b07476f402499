package sampledata

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// nameForm is one name with its spellings. latin[0] is the usual romanization, the others are alternatives.
// native is empty if the culture uses Latin letters.
type nameForm struct {
	latin  []string
	native string
	nicks  []nickname
}

type nickname struct{ latin, native string }

// culture is a naming tradition: lists ordered by frequency, and the shares (in percent) of its customs.
type culture struct {
	code        string
	weight      int
	countries   []int
	countryW    weights
	familyFirst bool
	native      [3]int // share of native script on network, codehost, microblog
	rate        map[string]int
	given       [2][]nameForm
	givenW      [2]weights
	givenA      []nameForm
	givenB      []nameForm
	family      [2][]nameForm
	familyW     weights
	familyA     []nameForm
	familyB     [2][]nameForm
	middle      [2][]nameForm
}

func (lx *lexicon) readCulture(file string) (*culture, error) {
	sections, err := readSections("names/" + file)
	if err != nil {
		return nil, err
	}
	c := &culture{code: strings.TrimSuffix(file, ".txt"), rate: map[string]int{}}
	q := 3.0
	for _, l := range sections[""] {
		key, value, _ := strings.Cut(l, " ")
		switch key {
		case "countries":
			var ws []float64
			for _, cw := range strings.Fields(value) {
				code, wt, _ := strings.Cut(cw, ":")
				i, ok := lx.byCode[code]
				n, err := strconv.Atoi(wt)
				if !ok || err != nil {
					return nil, fmt.Errorf("names %s: country %q", file, cw)
				}
				c.countries, ws = append(c.countries, i), append(ws, float64(n))
			}
			c.countryW = newWeights(len(ws), func(i int) float64 { return ws[i] })
		case "order":
			c.familyFirst = value == "family"
		case "native":
			if _, err := fmt.Sscan(value, &c.native[0], &c.native[1], &c.native[2]); err != nil {
				return nil, fmt.Errorf("names %s: native: %w", file, err)
			}
		case "q":
			if q, err = strconv.ParseFloat(value, 64); err != nil {
				return nil, fmt.Errorf("names %s: q: %w", file, err)
			}
		default:
			if c.rate[key], err = strconv.Atoi(value); err != nil {
				return nil, fmt.Errorf("names %s: %s: %w", file, key, err)
			}
		}
	}
	c.weight = c.rate["weight"]
	c.given[0], _ = parseForms(sections["male"])
	c.given[1], _ = parseForms(sections["female"])
	c.givenA, _ = parseForms(sections["given.a"])
	c.givenB, _ = parseForms(sections["given.b"])
	c.family[0], c.family[1] = parseForms(sections["family"])
	c.familyA, _ = parseForms(sections["family.a"])
	c.familyB[0], c.familyB[1] = parseForms(sections["family.b"])
	c.middle[0], _ = parseForms(sections["middle.m"])
	c.middle[1], _ = parseForms(sections["middle.f"])
	if c.weight == 0 || len(c.countries) == 0 || len(c.given[0]) == 0 || len(c.given[1]) == 0 || len(c.family[0]) == 0 {
		return nil, fmt.Errorf("names %s: weight, countries, male, female and family are needed", file)
	}
	for g := range c.given {
		c.givenW[g] = zipfMandelbrot(len(c.given[g]), q)
	}
	c.familyW = zipfMandelbrot(len(c.family[0]), q)
	return c, nil
}

// parseForms reads "Latin,Alternative=Native~Nick:Native,Nick" tokens, in which
// "_" is a space; "A|B" gives the male and the female form.
func parseForms(lines []string) (male, female []nameForm) {
	for _, tok := range strings.Fields(strings.Join(lines, " ")) {
		tok = strings.ReplaceAll(tok, "_", " ")
		tok, nicks, _ := strings.Cut(tok, "~")
		latin, native, _ := strings.Cut(tok, "=")
		var f [2]nameForm
		lm, lf := both(latin)
		f[0].latin, f[1].latin = strings.Split(lm, ","), strings.Split(lf, ",")
		f[0].native, f[1].native = both(native)
		if nicks != "" {
			for _, n := range strings.Split(nicks, ",") {
				l, nat, _ := strings.Cut(n, ":")
				f[0].nicks = append(f[0].nicks, nickname{l, nat})
			}
			f[1].nicks = f[0].nicks
		}
		male, female = append(male, f[0]), append(female, f[1])
	}
	return male, female
}

func both(s string) (male, female string) {
	male, female, ok := strings.Cut(s, "|")
	if !ok {
		female = male
	}
	return male, female
}

// compose joins two name parts in both spellings.
func compose(a, b nameForm) nameForm {
	x, y := a.latin[0], b.latin[0]
	if last := x[len(x)-1]; last == '-' || last == ' ' {
		y = strings.TrimPrefix(y, "-")
		y = upperFirst(y)
	} else {
		y = strings.ToLower(y)
	}
	f := nameForm{latin: []string{x + y}, native: a.native + b.native}
	if strings.HasPrefix(y, "-") {
		f.latin = append(f.latin, x+y[1:])
	}
	return f
}

func firstLetter(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return s[:n]
}

func upperFirst(s string) string {
	n := len(firstLetter(s))
	return strings.ToUpper(s[:n]) + s[n:]
}

// fullName is a person's full name, of which every account shows some form.
type fullName struct {
	culture *culture
	female  bool
	given   nameForm
	middle  nameForm // empty latin if there is none
	family  nameForm // empty latin for people with one name
	second  nameForm // second family name
	western string   // adopted given name in Latin letters
}

func (lx *lexicon) makeName(c *culture, seed uint64) fullName {
	r := rng(seed)
	n := fullName{culture: c, female: r.chance(46)}
	g := 0
	if n.female {
		g = 1
	}
	pickGiven := func() nameForm {
		if len(c.givenA) > 0 && r.n(100) < c.rate["given"] {
			return compose(c.givenA[r.n(len(c.givenA))], c.givenB[r.n(len(c.givenB))])
		}
		return c.given[g][c.givenW[g].pick(&r)]
	}
	pickFamily := func() nameForm {
		if r.n(100) < c.rate["tail"] && len(c.familyA) > 0 {
			return compose(c.familyA[r.n(len(c.familyA))], c.familyB[g][r.n(len(c.familyB[g]))])
		}
		return c.family[g][c.familyW.pick(&r)]
	}
	n.given = pickGiven()
	if r.n(100) < c.rate["hyphen"] {
		o := c.given[g][c.givenW[g].pick(&r)]
		n.given = nameForm{latin: []string{n.given.latin[0] + "-" + o.latin[0], n.given.latin[0]}}
	}
	if r.n(100) >= c.rate["mono"] {
		n.family = pickFamily()
	}
	switch {
	case len(c.middle[g]) > 0:
		if r.n(100) < c.rate["vimiddle"] {
			n.middle = c.middle[g][r.n(len(c.middle[g]))]
		}
	case r.n(100) < c.rate["father"]:
		n.middle = c.given[0][c.givenW[0].pick(&r)]
	case r.n(100) < c.rate["middle"]:
		n.middle = pickGiven()
	case r.n(100) < c.rate["patronymic"]:
		f := c.given[0][c.givenW[0].pick(&r)]
		end, nat := "ovich", "ович"
		if n.female {
			end, nat = "ovna", "овна"
		}
		n.middle = nameForm{latin: []string{strings.TrimRight(f.latin[0], "aeiy") + end},
			native: strings.TrimRight(f.native, "аеийья") + nat}
	}
	if r.n(100) < c.rate["second"] {
		n.second = pickFamily()
	}
	if r.n(100) < c.rate["western"] {
		e := lx.english
		n.western = e.given[g][e.givenW[g].pick(&r)].latin[0]
	}
	return n
}

func (f nameForm) spelling(alt int) string {
	if len(f.latin) == 0 {
		return ""
	}
	return f.latin[alt%len(f.latin)]
}

// parts returns first, middle and last name in Latin letters; alt selects the romanization, 0 the usual one.
func (n *fullName) parts(alt int) (first, middle, last string) {
	first, middle, last = n.given.spelling(alt), n.middle.spelling(0), n.family.spelling(alt)
	if s := n.second.spelling(0); s != "" {
		last += " " + s
	}
	return first, middle, strings.TrimSpace(last)
}

// nativeParts returns the parts in the native script; first is empty if there is none.
func (n *fullName) nativeParts() (first, middle, last string) {
	if n.given.native == "" {
		return "", "", ""
	}
	return n.given.native, n.middle.native, n.family.native
}

// latin returns the name as in most documents: "First Last", family name first if the culture keeps that
// order in Latin letters (Vietnamese).
func (n *fullName) latin(alt int, withMiddle bool) string {
	first, middle, last := n.parts(alt)
	if !withMiddle {
		middle = ""
	}
	if n.culture.code == "vi" {
		return join(last, middle, first)
	}
	return join(first, middle, last)
}

// nativeFull returns the name in the native script and order.
func (n *fullName) nativeFull() string {
	first, middle, last := n.nativeParts()
	if first == "" {
		return ""
	}
	switch n.culture.code {
	case "zh", "ko":
		return last + first
	case "ja":
		return join(last, first)
	case "ru", "uk":
		return join(first, middle, last)
	}
	return join(first, last)
}

func join(parts ...string) string {
	out := ""
	for _, p := range parts {
		if p == "" {
			continue
		}
		if out != "" {
			out += " "
		}
		out += p
	}
	return out
}

// plain removes diacritics as people do on a keyboard without them.
func plain(s string) string {
	if isASCII(s) {
		return s
	}
	var b strings.Builder
	for _, c := range norm.NFD.String(s) {
		switch {
		case c < utf8.RuneSelf:
			b.WriteRune(c)
		case unicode.Is(unicode.Mn, c):
		default:
			if t, ok := letterFold(c); ok {
				b.WriteString(t)
			} else {
				b.WriteRune(c)
			}
		}
	}
	return b.String()
}

// letterFold maps the Latin letters that Unicode does not decompose.
func letterFold(c rune) (string, bool) {
	switch c {
	case 'đ':
		return "d", true
	case 'Đ':
		return "D", true
	case 'ø':
		return "o", true
	case 'Ø':
		return "O", true
	case 'ł':
		return "l", true
	case 'Ł':
		return "L", true
	case 'ß':
		return "ss", true
	case 'æ':
		return "ae", true
	case 'ı':
		return "i", true
	}
	return "", false
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// handleWord reduces s to the lower-case ASCII letters and digits of a handle.
func handleWord(s string) string {
	s = plain(s)
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'A' && c <= 'Z':
			b = append(b, c+32)
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			b = append(b, c)
		}
	}
	return string(b)
}

// kebab is handleWord with words joined by hyphens.
func kebab(s string) string {
	words := strings.FieldsFunc(plain(s), func(c rune) bool {
		return c == ' ' || c == '-' || c == '.' || c == ',' || c == '&' || c == '\'' || c == '/'
	})
	out := words[:0]
	for _, w := range words {
		if h := handleWord(w); h != "" {
			out = append(out, h)
		}
	}
	return strings.Join(out, "-")
}
