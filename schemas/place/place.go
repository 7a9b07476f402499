package place

import (
	"cmp"
	"strings"
)

// Place is a resolved location. Unknown fields are empty.
type Place struct {
	City, State, Country, CountryCode, Continent string
	// Timezone, Latitude and Longitude are those of the city; HasCoordinates reports whether they are known.
	Timezone            string
	Latitude, Longitude float64
	HasCoordinates      bool
}

// IsZero reports whether no place was found.
func (p Place) IsZero() bool { return p.CountryCode == "" }

// Label returns the place in the usual form: city, state and country, without repetition.
func (p Place) Label() string {
	parts := make([]string, 0, 3)
	for _, s := range []string{p.City, p.State, p.Country} {
		if s != "" && (len(parts) == 0 || parts[len(parts)-1] != s) {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ", ")
}

// spot is a place as indices of the table; -1 means unknown.
type spot struct{ country, state, city int }

func unknownSpot() spot { return spot{-1, -1, -1} }

// spotOf returns the spot of a reference.
func (g *Gazetteer) spotOf(r reference) spot {
	switch r.kind {
	case countryName, countryCode:
		return spot{r.index, -1, -1}
	case stateName, stateCode, regionName:
		return spot{int(g.states[r.index].country), r.index, -1}
	}
	c := &g.cities[r.index]
	return spot{int(c.country), int(c.state), r.index}
}

// merge returns what both spots state; ok is false if they contradict each other.
func (s spot) merge(t spot) (both spot, ok bool) {
	for _, pair := range [3][2]int{{s.country, t.country}, {s.state, t.state}, {s.city, t.city}} {
		if pair[0] >= 0 && pair[1] >= 0 && pair[0] != pair[1] {
			return s, false
		}
	}
	return spot{max(s.country, t.country), max(s.state, t.state), max(s.city, t.city)}, true
}

// common returns the part on which both spots agree.
func (s spot) common(t spot) spot {
	switch {
	case s.country != t.country:
		return unknownSpot()
	case s.state != t.state:
		return spot{s.country, -1, -1}
	case s.city != t.city:
		return spot{s.country, s.state, -1}
	}
	return s
}

// within reports whether s is inside t, which is less precise.
func (s spot) within(t spot) bool {
	return (t.country < 0 || s.country == t.country) && (t.state < 0 || s.state == t.state) && (t.city < 0 ||
		s.city == t.city)
}

// place returns the fields of a spot. sure reports whether the city is distinguished from its namesakes in
// the country.
func (g *Gazetteer) place(s spot, sure bool) Place {
	var p Place
	if s.country < 0 {
		return p
	}
	c := &g.countries[s.country]
	p.Country, p.CountryCode, p.Continent = c.name, c.code, c.continent
	if s.city >= 0 {
		p.City = g.cities[s.city].name
		if !sure {
			return p
		}
		c := &g.cities[s.city]
		p.Timezone = g.zones[c.zone]
		p.Latitude, p.Longitude, p.HasCoordinates = float64(c.latitude)/Degree, float64(c.longitude)/Degree, true
	}
	if s.state >= 0 {
		p.State = g.states[s.state].name
	}
	return p
}

// country returns the country of a name or code, or -1. In a country field a name has no other meaning.
func (g *Gazetteer) country(name string) int {
	for _, r := range g.lookup(appendFolded(make([]byte, 0, 64), name)) {
		if r.kind.level() == 0 {
			return r.index
		}
	}
	return -1
}

// Fields is a structured location as in a record.
type Fields struct {
	City, State, Country, CountryCode, Continent, RawAddress string
}

// Complete fills in missing fields of a structured location. Existing fields are unchanged. It adds nothing
// if the fields contradict each other.
func (g *Gazetteer) Complete(f Fields) Fields {
	out := f
	s := unknownSpot()
	if f.CountryCode != "" {
		s.country = g.country(f.CountryCode)
	}
	if f.Country != "" {
		named := g.country(f.Country)
		if named < 0 || f.CountryCode != "" && named != s.country {
			return f // an unknown country, or two
		}
		s.country = named
	}
	if f.CountryCode != "" && s.country < 0 {
		return f
	}
	found, sure := g.inside(f, s)
	if found.country < 0 && s.country >= 0 {
		found = s
	}
	p := g.place(found, sure)
	if f.Continent != "" && p.Continent != "" && Fold(f.Continent) != Fold(p.Continent) {
		return f
	}
	out.City = cmp.Or(f.City, p.City)
	out.State = cmp.Or(f.State, p.State)
	out.Country = cmp.Or(f.Country, p.Country)
	out.CountryCode = cmp.Or(f.CountryCode, p.CountryCode)
	out.Continent = cmp.Or(f.Continent, p.Continent)
	if f.RawAddress == "" {
		parts := make([]string, 0, 3)
		for _, part := range []string{f.City, f.State, out.Country} {
			if part != "" && (len(parts) == 0 || parts[len(parts)-1] != part) {
				parts = append(parts, part)
			}
		}
		out.RawAddress = strings.Join(parts, ", ")
	}
	return out
}

// inside finds the city and state of a structured location in the country s.country, or -1 if unknown.
func (g *Gazetteer) inside(f Fields, s spot) (found spot, sure bool) {
	fields, known := solver{g: g}, 0
	for _, field := range [2]struct {
		name  string
		level int
	}{{f.City, 2}, {f.State, 1}} {
		if field.name != "" && fields.add(field.name, field.level) {
			known++
		}
	}
	hasFields := f.City != "" || f.State != ""
	found, sure = s, true
	if known > 0 && (known == 2 || f.City == "" || f.State == "" || s.country >= 0) {
		if s.country >= 0 {
			fields.parts = append(fields.parts, part{refs: []reference{{kind: countryName, index: s.country}},
				named: true})
		}
		if found, sure = fields.solve(); found.country < 0 {
			return found, false
		}
	}
	if f.RawAddress == "" {
		return found, sure
	}
	raw, rawSure := g.find(f.RawAddress)
	if raw.country < 0 {
		return found, sure
	}
	if hasFields && found.city < 0 {
		raw.city = -1 // the text names another city, or the field is unknown
		if f.State != "" && found.state < 0 {
			raw.state = -1
		}
	}
	both, ok := raw.merge(found)
	if !ok {
		if s.country >= 0 {
			return s, true
		}
		return unknownSpot(), false
	}
	if found.city < 0 {
		sure = rawSure
	}
	return both, sure
}

// Find returns the place that a free text names, or the zero Place if there are none or several.
func (g *Gazetteer) Find(text string) Place {
	s, sure := g.find(text)
	return g.place(s, sure)
}
