package extract

import (
	"regexp"
	"strings"
	"unicode"

	"muster/discovery-worker/internal/extract/phrase"
	"muster/discovery-worker/internal/extract/view"
)

// Confidences, from the precision on the golden inputs: of a value with a label, in a known form,
// in a sentence, and of likely values.
const (
	certain  = 0.99
	labeled  = 0.97
	formed   = 0.94
	stated   = 0.92
	probable = 0.8
	guessed  = 0.6
)

// Limits of the facts of one input.
const (
	maxIdentifiers = 200
	maxEntries     = 100
)

// textValue is a string value with its confidence and span.
type textValue struct {
	value      string
	confidence float64
	span       view.Span
}

func (f textValue) ok() bool { return f.value != "" }

// keepSurer replaces the value by a more confident one.
func (f *textValue) keepSurer(o textValue) {
	if o.value != "" && o.confidence > f.confidence {
		*f = o
	}
}

// position is a job, with its known parts.
type position struct {
	title, company, companyURL textValue
	start, end                 string
	current                    bool
	past                       bool // if neither is set, the time is unknown
	listed                     bool // from a list of jobs
	span                       view.Span
	confidence                 float64
}

// school is an entry of education.
type school struct {
	name, degree, field string
	start, end          string
	span                view.Span
	confidence          float64
}

// entry is an item of a word list.
type entry struct {
	value      string
	confidence float64
	span       view.Span
}

// facts are the collected facts of an input.
type facts struct {
	identifiers []Identifier
	seen        map[string]int // index of an identifier, by type, platform and key
	sentences   int            // sentences read in the whole input

	name, first, last, headline textValue
	city, state, country        textValue
	codehostID                  textValue

	positions []position
	schools   []school
	skills    []entry
	languages []entry
}

// addName sets the name unless a more confident one is known.
func (f *facts) addName(n phrase.PersonName, confidence float64, span view.Span) {
	if confidence <= f.name.confidence {
		return
	}
	f.name = textValue{n.Full, confidence, span}
	if n.First != "" {
		f.first = textValue{n.First, confidence, span}
		f.last = textValue{n.Last, confidence, span}
	}
}

func (f *facts) addPlace(p phrase.Location, confidence float64) {
	if p.Empty() || f.city.confidence >= confidence || f.country.confidence >= confidence {
		return
	}
	f.city, f.state, f.country = textValue{}, textValue{}, textValue{}
	for _, x := range []struct {
		to   *textValue
		from view.Part
	}{{&f.city, p.City}, {&f.state, p.State}, {&f.country, p.Country}} {
		if x.from.View != nil {
			*x.to = textValue{x.from.Text(), confidence, x.from.Span()}
		}
	}
}

// addPosition adds a job. It drops a title or company that cannot be one.
func (f *facts) addPosition(p position) {
	p.title, p.company = cleanTitle(p.title), cleanCompany(p.company)
	if !p.title.ok() && !p.company.ok() || len(f.positions) == maxEntries*4 {
		return
	}
	f.positions = append(f.positions, p)
}

var (
	// quantity matches a number or a quantity, which is not a name: "12", "12 years", "30+
	// startups", "15 Jahren Erfahrung".
	quantity = regexp.MustCompile(`^(?:[~≈><+±]|ca\.|about` +
		`|over)?\s*\d[\d.,'’]*\s?[+%]?(?:\s*[-–]\s*\d[\d.,]*\+?)?(?:$|\s+\p{Ll}|\s*[-–]\s*\p{Ll}` +
		`|\s*(?i:years?|yrs?|months?|jahren?|monaten?|wochen|tagen?|kunden|mitarbeitern?|teams?|ans|anni|años|anos` +
		`|jaar|lat|лет|года?|年|か月|ヶ月|년|개월)(?:$|[^\p{L}]))`)
	// aboutQuantity matches a number followed by a counter, in scripts without spaces.
	aboutQuantity = regexp.MustCompile(`^約?\d+(?:年|か月|ヶ月|カ月|人|名|社)`)
	// eastAsianUnit matches a department after a company name.
	eastAsianUnit = regexp.MustCompile(`\s+[\p{Han}\p{Hiragana}\p{Katakana}ー]*(?:部|課|室|係|支店|支社|グループ|チーム)$`)
	lastBracket   = regexp.MustCompile(`\s*[(（\[][^()（）\[\]]*[)）\]]\s*$`)
	// titlePraise matches an article or adjectives before a title.
	titlePraise = regexp.MustCompile(`^(?:(?:An?|The|Une?|Eine?|Uma?|Een)\s+)?(?:(?i:passionate|enthusiastic|creative` +
		`|experienced|seasoned|dedicated|motivated|highly motivated|self-taught|self-driven|curious|talented` +
		`|award-winning|results-driven|detail-oriented|hard-?working|leidenschaftlicher?|passionnée?|apasionad[oa]` +
		`|appassionat[oa]|apaixonad[oa])(?:,\s*|\s+(?:and|und|et|y|e)\s+|\s+))*`)
	// yearCount matches a number of years after a title.
	yearCount = regexp.MustCompile(`(?i)\s+(?:with|mit|avec|con|com|met|med|z|ze|с)\s+(?:(?:over|more than|about` +
		`|almost|nearly|some|at least|über|mehr als|rund|etwa|plus de|près de|más de|casi|oltre|più di|mais de` +
		`|ruim|meer dan|över|mer än|over|mere end|mer enn|ponad)\s+)?` +
		`(?:\d|(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|zwei` +
		`|drei|vier|fünf|sechs|sieben|acht|neun|zehn|zwölf|zwanzig|deux|trois|quatre|cinq|six|sept|huit|neuf` +
		`|dix|vingt|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|veinte|decades?|years?|experience)\b).*$`)
)

// isQuantity reports whether a phrase is a number or a quantity rather than a name.
func isQuantity(s string) bool { return quantity.MatchString(s) || aboutQuantity.MatchString(s) }

// cleanCompany removes a remark in brackets after a company name. It returns an empty value if the
// rest is not a name.
func cleanCompany(c textValue) textValue {
	name := c.value
	if m := lastBracket.FindStringIndex(name); m != nil && m[0] > 0 {
		name = name[:m[0]]
	}
	if open := strings.IndexAny(name, "([（"); open > 0 && !balanced(name) {
		name = name[:open]
	}
	for m := eastAsianUnit.FindStringIndex(name); m != nil && m[0] > 0; m = eastAsianUnit.FindStringIndex(name) {
		name = name[:m[0]]
	}
	name = strings.TrimRight(name, " ,;:|")
	if !balanced(name) || isQuantity(name) || !strings.ContainsFunc(name, unicode.IsLetter) ||
		platformNamed(name) != "" && !strings.Contains(name, " ") && name == strings.ToLower(name) {
		return textValue{}
	}
	return c.truncate(name)
}

// cleanTitle removes a number of years after a title. It returns an empty value if the rest is not
// a title.
func cleanTitle(t textValue) textValue {
	if m := titlePraise.FindStringIndex(t.value); m != nil && m[1] < len(t.value) {
		if t.span.End-t.span.Start == len(t.value) {
			t.span.Start += m[1]
		}
		t.value = t.value[m[1]:]
	}
	title := t.value
	if m := yearCount.FindStringIndex(title); m != nil && m[0] > 0 {
		title = title[:m[0]]
	}
	if open := strings.IndexAny(title, "([（"); open > 0 && !balanced(title) {
		title = title[:open]
	}
	title = strings.TrimRight(title, " ,;:|")
	if !balanced(title) || isQuantity(title) || !strings.ContainsFunc(title, unicode.IsLetter) {
		return textValue{}
	}
	return t.truncate(title)
}

// truncate replaces a value by its given prefix and shortens the span.
func (f textValue) truncate(value string) textValue {
	if f.span.End-f.span.Start == len(f.value) {
		f.span.End = f.span.Start + len(value)
	}
	f.value = value
	return f
}

// balanced reports whether all brackets are matched.
func balanced(s string) bool {
	var open []rune
	for _, r := range s {
		switch r {
		case '(', '[', '（':
			open = append(open, r)
		case ')', ']', '）':
			if len(open) == 0 {
				return false
			}
			open = open[:len(open)-1]
		}
	}
	return len(open) == 0
}

func (f *facts) addSchool(s school) {
	if s.name == "" && s.degree == "" || len(f.schools) == maxEntries {
		return
	}
	for _, known := range f.schools {
		if strings.EqualFold(known.name, s.name) && strings.EqualFold(known.degree, s.degree) {
			return
		}
	}
	f.schools = append(f.schools, s)
}

func addEntry(list []entry, e entry) []entry {
	if len(list) == maxEntries {
		return list
	}
	for _, known := range list {
		if strings.EqualFold(known.value, e.value) {
			return list
		}
	}
	return append(list, e)
}

// eachSpan calls visit for the span of every fact.
func (f *facts) eachSpan(visit func(*view.Span)) {
	for i := range f.identifiers {
		visit(&f.identifiers[i].Span)
	}
	for _, v := range []*textValue{&f.name, &f.first, &f.last, &f.headline, &f.city, &f.state, &f.country,
		&f.codehostID} {
		visit(&v.span)
	}
	for i := range f.positions {
		p := &f.positions[i]
		for _, s := range []*view.Span{&p.title.span, &p.company.span, &p.companyURL.span, &p.span} {
			visit(s)
		}
	}
	for i := range f.schools {
		visit(&f.schools[i].span)
	}
	for _, list := range [][]entry{f.skills, f.languages} {
		for i := range list {
			visit(&list[i].span)
		}
	}
}

// hasName reports whether a name with at least this confidence is known.
func (f *facts) hasName(confidence float64) bool { return f.name.confidence >= confidence }

// isSubject reports whether a word or phrase is the known person's name or a part of it.
func (f *facts) isSubject(s string) bool {
	if !f.name.ok() {
		return false
	}
	for _, known := range []string{f.name.value, f.first.value, f.last.value} {
		if known != "" && strings.EqualFold(known, s) {
			return true
		}
	}
	return false
}
