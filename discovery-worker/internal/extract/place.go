package extract

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// place is where somebody is, as the input writes it.
type place struct {
	city, state, country part
}

func (p place) empty() bool { return p.city.v == nil && p.state.v == nil && p.country.v == nil }

var (
	comma    = regexp.MustCompile(`\s*[,،、]\s*`)
	zip      = regexp.MustCompile(`^([A-Z]{2})\s+\d{5}(?:-\d{4})?$`)
	postcode = regexp.MustCompile(`^(?:[A-Z]{1,2}-)?\d{4,6}\s+|\s+\d{4,6}(?:-\d{3,4})?$`)
)

// place reads a phrase as a place. surely says that the input calls it one; else
// its last part must be a known country or state, or all of it a known city.
func (e *Extractor) place(p part, surely bool) (place, bool) {
	p = p.trim(".;")
	if p.start == p.end || p.end-p.start > 200 {
		return place{}, false
	}
	var found place
	parts := p.split(comma)
	known := false
	if last := parts[len(parts)-1]; len(parts) > 1 { // "Tacoma, WA 98402"
		if m := zip.FindStringSubmatchIndex(last.text()); m != nil {
			parts[len(parts)-1] = last.sub(m[2], m[3])
		}
	}
	if first := parts[0].text(); !surely && len(parts) > 1 && e.words.isTitle(first) && !e.words.cities[strings.ToLower(first)] &&
		!(e.words.isTown(first) && e.words.states[strings.ToLower(parts[1].text())]) {
		return place{}, false // "Data Engineer, Ulm, Germany"
	}
	if last := parts[len(parts)-1].trim("."); e.words.countries[strings.ToLower(last.text())] || surely && len(parts) > 1 && isCode(last.text()) && !e.words.states[strings.ToLower(last.text())] {
		found.country, known = last, true
		parts = parts[:len(parts)-1]
	}
	if len(parts) > 0 {
		if last := parts[len(parts)-1].trim(""); e.words.states[strings.ToLower(last.text())] && (len(parts) > 1 || known) && (!isCode(last.text()) || len(parts) > 1) {
			if !isCode(last.text()) || last.text() == strings.ToUpper(last.text()) {
				found.state, known = last, true
				parts = parts[:len(parts)-1]
			}
		}
	}
	if len(parts) == 0 {
		return found, known
	}
	city := parts[len(parts)-1].trim("")
	if !surely && e.words.isUnit(city.text()) && !e.words.cities[strings.ToLower(city.text())] {
		return place{}, false // "Acme Group, Germany"
	}
	if m := postcode.FindStringIndex(city.text()); m != nil {
		known = known || len(parts) > 1 // a street and a postal code before it
		if m[0] == 0 {
			city = city.sub(m[1], city.end-city.start).trim("")
		} else {
			city = city.sub(0, m[0]).trim("")
		}
	}
	if e.words.cities[strings.ToLower(city.text())] {
		known = known || len(parts) == 1
	}
	if !isPlaceName(city.text(), surely) || len(parts) > 1 && !surely && !known {
		return place{}, false
	}
	if !known && !surely {
		return place{}, false
	}
	if len(parts) > 2 && !surely && !hasDigit(p.text()) {
		return place{}, false
	}
	found.city = city
	return found, true
}

var (
	// inCity stands before a place that a title has behind it.
	inCity = regexp.MustCompile(`\s+(?:in|aus|à|en|em|i|w)\s+`)
	// workOf is a title that names what was made, to which a city belongs: "Author of Midnight in Vienna".
	workOf = regexp.MustCompile(`(?i)\b(?:author|auteure?|autore?|autora|autorin|autrice|writer|creator|composer|translator|illustrator) (?:of|von|de|di)\s`)
)

// placed cuts a place off the end of a title: "Data Engineer, München", "Developer in Beirut, Lebanon". One that names no
// city may be what the post is for, as in "Country Manager, Japan". Behind "in" only a known city is one ("Lecturer in Law, Ireland").
func (e *Extractor) placed(p part) (title part, at place, ok bool) {
	t := p.text()
	for _, sep := range []*regexp.Regexp{comma, inCity} {
		for _, m := range sep.FindAllStringIndex(t, 4) {
			title = p.sub(0, m[0])
			if !e.words.isTitle(title.text()) {
				continue
			}
			at, ok = e.place(p.sub(m[1], len(t)), false)
			if !ok || at.city.v == nil {
				continue
			}
			if sep == comma || e.words.cities[strings.ToLower(at.city.text())] && !workOf.MatchString(title.text()) {
				return title, at, true
			}
		}
	}
	return p, place{}, false
}

func isCode(s string) bool { return len(s) == 2 && s == strings.ToUpper(s) }

func hasDigit(s string) bool { return strings.ContainsFunc(s, unicode.IsDigit) }

// isPlaceName reports whether a phrase is written as a place's name.
func isPlaceName(s string, surely bool) bool {
	words := strings.Fields(s)
	if len(words) == 0 || len(words) > 4 || hasDigit(s) || strings.ContainsAny(s, "@/:|<>{}") {
		return false
	}
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLetter(r) && (surely || !unicode.IsLower(r) && allCapitalised(s))
}
