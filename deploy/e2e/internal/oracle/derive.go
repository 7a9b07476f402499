package oracle

import (
	"slices"
	"strings"

	"muster/schemas/identity"
	"muster/schemas/place"
)

// deriver adds derived values to a copy of a record (MAPPING.md, "Derived values").
type deriver struct {
	rec   Object
	paths []string // in the websets
}

func newDeriver(rec Object) *deriver {
	out := Object{}
	for name, v := range rec {
		out[name] = v
	}
	return &deriver{rec: out}
}

// set sets a field of o if it has no value.
func (d *deriver) set(o Object, name, path, value string) {
	if value != "" && absent(o[name]) {
		o[name] = value
		d.paths = append(d.paths, path)
	}
}

func (d *deriver) names() {
	first, middle, last, full := str(d.rec, "first_name"), str(d.rec, "middle_name"), str(d.rec, "last_name"), str(d.rec, "full_name")
	if full == "" {
		if first == "" || last == "" {
			return
		}
		first, middle, last = strings.TrimSpace(first), strings.TrimSpace(middle), strings.TrimSpace(last)
		whole := strings.Join(presentStrings([]any{first, middle, last}), " ")
		if middle == "" && identity.IsCJK(first+last) {
			whole = last + first
		}
		d.set(d.rec, "full_name", "full_name", whole)
		return
	}
	given, family := identity.DivideName(full)
	if middle != "" && given != "" && strings.HasPrefix(full, given+" "+middle+" ") {
		family = full[len(given+" "+middle+" "):]
	}
	lower := strings.ToLower
	spoken := lower(strings.Join(strings.Fields(full), " "))
	has := func(part, word string) bool { return strings.Contains(" "+lower(part)+" ", " "+lower(word)+" ") }
	if first != "" && (!strings.HasPrefix(spoken, lower(first)) || has(first, family)) {
		family = ""
	}
	if last != "" && (!strings.HasSuffix(spoken, lower(last)) || has(last, given)) {
		given = ""
	}
	d.set(d.rec, "first_name", "first_name", given)
	d.set(d.rec, "last_name", "last_name", family)
}

func (d *deriver) finish() (Object, []string) {
	slices.Sort(d.paths)
	return d.rec, d.paths
}

// deriveNetwork derives the values of a network-person.
func deriveNetwork(rec Object) (Object, []string) {
	d := newDeriver(rec)
	d.set(d.rec, "url", "url", identity.Default().Link(identity.Network, str(rec, "username")))
	d.names()
	if src := object(rec["location"]); src != nil {
		l := Object{}
		for name, v := range src {
			l[name] = v
		}
		full := place.Default().Complete(place.Fields{
			City: str(l, "city"), State: str(l, "state"), Country: str(l, "country"), CountryCode: str(l, "country_code"),
			Continent: str(l, "continent"), RawAddress: str(l, "raw_address"),
		})
		for name, v := range map[string]string{
			"city": full.City, "state": full.State, "country": full.Country, "country_code": full.CountryCode, "continent": full.Continent,
			"raw_address": full.RawAddress,
		} {
			d.set(l, name, "location."+name, v)
		}
		d.rec["location"] = l
	}
	if len((shaper{}).currentPosition(rec["current_position"])) == 0 {
		for _, e := range career(rec["experience"], ongoing, positionPresent) {
			if !ongoing(e) {
				break
			}
			if str(e, "summary") == "" && str(e, "title") == "" && str(object(e["company"]), "name") == "" {
				continue
			}
			position := Object{}
			for name, v := range e {
				position[name] = v
			}
			delete(position, "end")
			position["current"] = true
			if str(e, "summary") == "" {
				put(position, "summary", e["title"])
			}
			d.rec["current_position"] = position
			d.paths = append(d.paths, "current_position")
			break
		}
	}
	return d.finish()
}

// deriveCodehost derives the values of a codehost-person.
func deriveCodehost(rec Object) (Object, []string) {
	d := newDeriver(rec)
	d.set(d.rec, "url", "url", identity.Default().Link(identity.Codehost, str(rec, "codehost_username")))
	if kind := str(rec, "type"); kind == "" || kind == "User" {
		d.names()
	}
	if len((shaper{}).plain(rec["location_canonical"], canonicalNames)) > 0 {
		return d.finish()
	}
	if p := place.Default().Find(str(rec, "location")); p.CountryCode != "" {
		l := Object{"country": p.Country, "country_code": p.CountryCode, "continent": p.Continent}
		put(l, "city", p.City)
		put(l, "state", p.State)
		put(l, "timezone", p.Timezone)
		label := p.Country
		if p.State != "" {
			label = p.State + ", " + label
			if p.State == p.Country {
				label = p.Country
			}
		}
		if p.City != "" && p.City != p.State && (p.State != "" || p.City != p.Country) {
			label = p.City + ", " + label
		}
		put(l, "label", label)
		if p.HasCoordinates {
			l["latitude"], l["longitude"] = numberOf(p.Latitude), numberOf(p.Longitude)
		}
		d.rec["location_canonical"] = l
		d.paths = append(d.paths, "location_canonical")
	}
	return d.finish()
}

// putDerived adds the paths of derived values that a shape has.
func putDerived(dst Object, paths []string, shown func(path string) string) {
	var out []string
	for _, p := range paths {
		if p = shown(p); p != "" {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	if len(out) > 0 {
		dst["derived"] = anys(out)
	}
}

func asIs(path string) string { return path }

// inSearchResult returns the path in a search result of a field of the webset.
func inSearchResult(path string) string {
	switch path {
	case "url":
		return "network_url"
	case "current_position":
		return ""
	}
	return "profile." + path
}
