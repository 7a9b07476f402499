package extract

import (
	"strings"
)

// Confidences. They are what the golden inputs bear out: a value that the input
// labels, one that stands in a known form, one that a sentence states, one that is
// likely.
const (
	certain  = 0.99
	labelled = 0.97
	formed   = 0.94
	stated   = 0.92
	probable = 0.8
	guessed  = 0.6
)

// Bounds of what is collected from one input.
const (
	maxIdentifiers = 200
	maxEntries     = 100
)

// found is a string value with its ground.
type found struct {
	value      string
	confidence float64
	span       Span
}

func (f found) ok() bool { return f.value != "" }

// better takes the surer of two, the first of equals.
func (f *found) better(o found) {
	if o.value != "" && o.confidence > f.confidence {
		*f = o
	}
}

// position is a job, as far as it is known.
type position struct {
	title, company, companyURL found
	start, end                 string
	current                    bool
	past                       bool // neither: nothing says when
	listed                     bool // an entry of a list of jobs
	span                       Span
	confidence                 float64
}

// school is an entry of education.
type school struct {
	name, degree, field string
	start, end          string
	span                Span
	confidence          float64
}

// entry is one of a list of words.
type entry struct {
	value      string
	confidence float64
	span       Span
}

// facts are what was found in an input, before it is put together.
type facts struct {
	identifiers []Identifier
	seen        map[string]int // type, platform and key of identifiers
	sentences   int            // that were read, of all texts of the input

	name, first, last, headline found
	city, state, country        found
	codehostID                  found

	positions []position
	schools   []school
	skills    []entry
	languages []entry
}

// addName takes a name unless a surer one is known.
func (f *facts) addName(n personName, confidence float64, span Span) {
	if confidence <= f.name.confidence {
		return
	}
	f.name = found{n.full, confidence, span}
	if n.first != "" {
		f.first = found{n.first, confidence, span}
		f.last = found{n.last, confidence, span}
	}
}

func (f *facts) addPlace(p place, confidence float64) {
	if p.empty() || f.city.confidence >= confidence || f.country.confidence >= confidence {
		return
	}
	f.city, f.state, f.country = found{}, found{}, found{}
	for _, x := range []struct {
		to   *found
		from part
	}{{&f.city, p.city}, {&f.state, p.state}, {&f.country, p.country}} {
		if x.from.v != nil {
			*x.to = found{x.from.text(), confidence, x.from.span()}
		}
	}
}

func (f *facts) addPosition(p position) {
	if !p.title.ok() && !p.company.ok() || len(f.positions) == maxEntries*4 {
		return
	}
	f.positions = append(f.positions, p)
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

// has reports whether a name has been found that is at least so sure.
func (f *facts) has(confidence float64) bool { return f.name.confidence >= confidence }

// subject reports whether a word or phrase is the known person's name or a part
// of it.
func (f *facts) subject(s string) bool {
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
