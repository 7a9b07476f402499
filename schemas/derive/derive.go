package derive

import (
	"muster/schemas/identity"
	"muster/schemas/place"
	"muster/schemas/record"
)

// Deriver derives values. It is immutable and safe for concurrent use.
type Deriver struct {
	platforms *identity.Platforms
	places    *place.Gazetteer
}

// New returns a Deriver that builds profile URLs with platforms and resolves locations with the embedded
// gazetteer.
func New(platforms *identity.Platforms) *Deriver {
	return &Deriver{platforms: platforms, places: place.Default()}
}

// NetworkPerson returns a copy of p with derived values, and the set of them. The copy shares unchanged
// values with p.
func (d *Deriver) NetworkPerson(p *record.NetworkPerson) (record.NetworkPerson, Fields) {
	out := *p
	fields := d.url(&out.URL, identity.Network, p.Username)
	fields |= names(&out.FirstName, p.MiddleName, &out.LastName, &out.FullName)
	fields |= d.location(&out)
	if p.CurrentPosition == nil || isEmptyPosition(p.CurrentPosition) {
		if position := currentPosition(p.Experience); position != nil {
			out.CurrentPosition = position
			fields |= CurrentPosition
		}
	}
	return out, fields
}

// CodehostPerson returns a copy of p with derived values, and the set of them. Names of organizations and
// bots are not divided. An existing location_canonical is not completed: it is one result of a geocoder.
func (d *Deriver) CodehostPerson(p *record.CodehostPerson) (record.CodehostPerson, Fields) {
	out := *p
	fields := d.url(&out.URL, identity.Codehost, p.CodehostUsername)
	if p.Type == "" || p.Type == "User" {
		fields |= names(&out.FirstName, "", &out.LastName, &out.FullName)
	}
	if p.LocationCanon != nil && !isEmptyCanonical(p.LocationCanon) {
		return out, fields
	}
	found := d.places.Find(p.Location)
	if found.IsZero() {
		return out, fields
	}
	canonical := &record.CanonicalLocation{
		City: found.City, State: found.State, Country: found.Country, CountryCode: found.CountryCode,
		Continent: found.Continent,
		Timezone:  found.Timezone, Label: found.Label(),
	}
	if found.HasCoordinates {
		canonical.Latitude, canonical.Longitude = &found.Latitude, &found.Longitude
	}
	out.LocationCanon = canonical
	return out, fields | LocationCanonical
}

// url derives the URL of a person's account from its username.
func (d *Deriver) url(url *string, platform, username string) Fields {
	if *url != "" || username == "" {
		return 0
	}
	if *url = d.platforms.Link(platform, username); *url == "" {
		return 0
	}
	return URL
}

// location derives the fields of a location from one another.
func (d *Deriver) location(p *record.NetworkPerson) Fields {
	l := p.Location
	if l == nil {
		return 0
	}
	have := place.Fields{
		City: l.City, State: l.State, Country: l.Country, CountryCode: l.CountryCode, Continent: l.Continent,
		RawAddress: l.RawAddress,
	}
	full := d.places.Complete(have)
	if full == have {
		return 0
	}
	out := *l
	var fields Fields
	set := func(dst *string, value string, field Fields) {
		if *dst == "" && value != "" {
			*dst = value
			fields |= field
		}
	}
	set(&out.City, full.City, City)
	set(&out.State, full.State, State)
	set(&out.Country, full.Country, Country)
	set(&out.CountryCode, full.CountryCode, CountryCode)
	set(&out.Continent, full.Continent, Continent)
	set(&out.RawAddress, full.RawAddress, RawAddress)
	p.Location = &out
	return fields
}

// currentPosition returns the ongoing position that started last as a current position, or nil. Among
// positions with the same start, or without one, the first wins.
func currentPosition(list []record.Position) *record.Position {
	best := -1
	var began record.Version
	for i := range list {
		p := &list[i]
		if !p.IsOngoing() || p.Summary == "" && p.Title == "" && (p.Company == nil || p.Company.Name == "") {
			continue
		}
		start, dated := p.Start.Version()
		if !dated {
			start = -1 // no date is older
		}
		if best < 0 || start > began {
			best, began = i, start
		}
	}
	if best < 0 {
		return nil
	}
	out := list[best]
	out.End = ""
	current := true
	out.Current = &current
	if out.Summary == "" {
		out.Summary = out.Title
	}
	return &out
}

func isEmptyPosition(p *record.Position) bool {
	return p.Summary == "" && p.Title == "" && p.Description == "" && p.Start == "" && p.End == "" &&
		p.Current == nil &&
		p.Location == nil && p.Company == nil && len(p.Unknown) == 0
}

func isEmptyCanonical(l *record.CanonicalLocation) bool {
	return l.City == "" && l.State == "" && l.Country == "" && l.CountryCode == "" && l.Latitude == nil &&
		l.Longitude == nil &&
		l.PostalCode == "" && l.Continent == "" && l.Label == "" && l.Timezone == "" && len(l.Unknown) == 0
}
