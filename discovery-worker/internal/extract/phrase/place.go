package phrase

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"muster/discovery-worker/internal/extract/view"
)

// Location is a place as written in the input.
type Location struct {
	City, State, Country view.Part
}

// Empty reports whether the place has no part.
func (p Location) Empty() bool {
	return p.City.View == nil && p.State.View == nil && p.Country.View == nil
}

var (
	// Comma separates the items of a list.
	Comma = regexp.MustCompile(`\s*[,،、]\s*`)
	// PlaceSplit separates the parts of an address: a comma, bar, dash or bracket.
	PlaceSplit = regexp.MustCompile(`\s*[,،、|·•\n]\s*|\s+[–—/-]+\s+|\s*[()]\s*`)
	zip        = regexp.MustCompile(`^([A-Z]{2})\s+(?:\d{5}(?:-\d{4})?|[A-Z]\d[A-Z]\s?\d[A-Z]\d)$`)
	// postcode matches a postal code before or after a town: "24837 Schleswig", "1012 AB
	// Amsterdam", "31-001 Kraków", "London SW1A 1AA".
	postcode = regexp.MustCompile(`^(?:[A-Z]{1,3}[- ])?(?:\d{5}-\d{3}|\d{4}\s?[A-Z]{2}|\d{2}-\d{3}|\d{3}\s\d{2}` +
		`|\d{4}-\d{3}|\d{3,6})\s+` +
		`|\s+(?:[A-Z]{1,2}\d[A-Z\d]?\s?\d[A-Z]{2}|[A-Z]\d[A-Z]\s?\d[A-Z]\d|(?:[A-Z]{1,3}-?\s?)?\d{4,6}(?:-\d{3,4})?)$`)
	// district matches a numbered district after a town: "Dublin 2".
	district = regexp.MustCompile(`^(\p{Lu}[\p{L} '’-]{2,40}?)\s+(?:\d{1,2}|CEDEX(?:\s\d{1,2})?|Cedex(?:\s\d{1,2})?)$`)
	// notPlace matches values of location fields that are not places.
	notPlace = regexp.MustCompile(`(?i)^(?:(?:fully |100% |mostly |currently )?remote(?:ly)?(?: only| first| ok)?` +
		`|hybrid|on-?site|worldwide|anywhere|everywhere|earth|planet earth|the (?:internet|world|moon|cloud)` +
		`|internet|global|europe|eu|european union|emea|apac|latam` +
		`|asia|africa|north america|south america|latin america|americas|oceania|home ?office|wfh|work from home` +
		`|open to relocat\w+|willing to relocate|relocat\w+|yes|no|only|utc.*|gmt.*|cet|est|pst|n/a|various` +
		`|multiple|international|nomad|digital nomad|home|here)$`)
	pinned = regexp.MustCompile(`^[^\p{L}\p{N}(]+` +
		`|[\x{1f1e6}-\x{1f1ff}\x{2190}-\x{27bf}\x{1f300}-\x{1faff}\x{fe0f}\x{200d}\s]+$`)
)

// Place parses a phrase as a place. Unless labeled is true, its last part must be a known country
// or state, or the whole phrase a known city.
func (e *Reader) Place(p view.Part, labeled bool) (Location, bool) {
	p = p.Trim(".;:")
	if p.Start == p.End || p.End-p.Start > 200 {
		return Location{}, false
	}
	for m := pinned.FindStringIndex(p.Text()); m != nil; m = pinned.FindStringIndex(p.Text()) { // "📍 Lyon, France 🇫🇷"
		if m[0] == 0 {
			p = p.Sub(m[1], p.End-p.Start)
		} else {
			p = p.Sub(0, m[0])
		}
	}
	if pl, ok := e.eastAsianPlace(p); ok {
		return pl, true
	}
	var found Location
	var parts []view.Part
	for _, x := range p.Split(PlaceSplit) {
		if x.Start < x.End && !notPlace.MatchString(x.Text()) {
			parts = append(parts, x)
		}
	}
	if len(parts) == 0 {
		return Location{}, false
	}
	isKnown := false
	if last := parts[len(parts)-1]; len(parts) > 1 { // "Tacoma, WA 98402"
		if m := zip.FindStringSubmatchIndex(last.Text()); m != nil {
			parts[len(parts)-1] = last.Sub(m[2], m[3])
		}
	}
	if first := parts[0].Text(); !labeled && len(parts) > 1 && !HasDigit(first) && e.words.IsTitle(first) &&
		!e.words.Cities[strings.ToLower(first)] &&
		!(e.words.IsTown(first) && e.words.States[strings.ToLower(parts[1].Text())]) {
		return Location{}, false // "Data Engineer, Ulm, Germany"
	}
	if last := parts[len(parts)-1].Trim("."); e.words.Countries[strings.ToLower(last.Text())] ||
		labeled && len(parts) > 1 && IsCode(last.Text()) && !e.words.States[strings.ToLower(last.Text())] {
		found.Country, isKnown = last, true
		parts = parts[:len(parts)-1]
	}
	if len(parts) > 0 {
		last := parts[len(parts)-1].Trim("")
		isState := e.words.States[strings.ToLower(last.Text())]
		if isState && (len(parts) > 1 || isKnown) && (!IsCode(last.Text()) || len(parts) > 1) &&
			(len(last.Text()) > 3 || last.Text() == strings.ToUpper(last.Text())) {
			found.State, isKnown = last, true
			parts = parts[:len(parts)-1]
		}
	}
	if len(parts) == 0 {
		return found, isKnown
	}
	city := parts[len(parts)-1].Trim("")
	if !labeled && e.words.IsUnit(city.Text()) && !e.words.Cities[strings.ToLower(city.Text())] {
		return Location{}, false // "Acme Group, Germany"
	}
	if m := postcode.FindStringIndex(city.Text()); m != nil {
		isKnown = isKnown || len(parts) > 1 // a street and a postal code precede it
		if m[0] == 0 {
			city = city.Sub(m[1], city.End-city.Start).Trim("")
		} else {
			city = city.Sub(0, m[0]).Trim("")
		}
	}
	if m := district.FindStringSubmatchIndex(city.Text()); m != nil &&
		(isKnown || e.words.Cities[strings.ToLower(city.Text()[m[2]:m[3]])]) {
		city = city.Sub(m[2], m[3])
	}
	if e.words.Cities[strings.ToLower(city.Text())] {
		isKnown = isKnown || len(parts) == 1
	}
	if !IsPlaceName(city.Text(), labeled) {
		// An address with an ambiguous town.
		if isKnown && (labeled || HasDigit(p.Text())) && (found.Country.View != nil || found.State.View != nil) {
			return found, true
		}
		return Location{}, false
	}
	if !labeled && (!isKnown || len(parts) > 2 && !HasDigit(p.Text())) {
		return Location{}, false
	}
	found.City = city
	return found, true
}

// East Asian addresses go from the largest to the smallest part: 〒231-0005 神奈川県横浜市中区本町1-2-3.
var (
	eastAsianAddress = regexp.MustCompile(`^(?:〒?\s?\d{3}-?\d{4}\s*|\d{5,6}\s+)?(北海道|東京都|(?:京都|大阪)府` +
		`|[\p{Han}]{2,3}県|[\p{Han}]{2,6}(?:省|自治区|自治區))?\s*` +
		`([\p{Han}\p{Hiragana}\p{Katakana}ヶケー]{1,7}?[市区區町村]` +
		`|[\p{Han}\p{Hiragana}]{1,4}郡[\p{Han}\p{Hiragana}]{1,5}[町村])?`)
	koreanAddress = regexp.MustCompile(`^(?:\(?\d{5}\)?\s+)?([\p{Hangul}]{2,5}(?:도` +
		`|특별자치도)\s+)?([\p{Hangul}]{1,5}(?:특별시|광역시|특별자치시|시))(?:\s|$)`)
)

// eastAsianPlace parses an address in Chinese, Japanese or Korean.
func (e *Reader) eastAsianPlace(p view.Part) (Location, bool) {
	r, _ := utf8.DecodeRuneInString(strings.TrimLeft(p.Text(), "〒0123456789- ()"))
	form := eastAsianAddress
	switch {
	case unicode.Is(unicode.Hangul, r):
		form = koreanAddress
	case !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
		return Location{}, false
	}
	m := form.FindStringSubmatchIndex(p.Text())
	if m == nil || m[2] < 0 && m[4] < 0 {
		return Location{}, false
	}
	var found Location
	if m[2] >= 0 {
		found.State = p.Sub(m[2], m[3]).Trim("")
	}
	if m[4] >= 0 {
		found.City = p.Sub(m[4], m[5])
	}
	return found, true
}

var (
	// inCity separates a title from a place.
	inCity = regexp.MustCompile(`\s+(?:in|aus|à|en|em|i|w)\s+`)
	// residence separates a title from the person's place or origin.
	residence = regexp.MustCompile(`\s+(?:from|based in|living in|located in|aus|out of)\s+`)
	// workTitle matches a title with the name of a work, which may contain a city: "Author of
	// Midnight in Vienna".
	workTitle = regexp.MustCompile(`(?i)\b(?:author|auteure?|autore?|autora|autorin|autrice|writer|creator|composer` +
		`|translator|illustrator) (?:of|von|de|di)\s`)
)

// SplitPlace splits a place off the end of a title: "Data Engineer, München", "Developer in Beirut,
// Lebanon". A place without a city may belong to the title, as in "Country Manager, Japan". After
// "in", only a known city counts ("Lecturer in Law, Ireland").
func (e *Reader) SplitPlace(p view.Part) (title view.Part, at Location, ok bool) {
	t := p.Text()
	for _, sep := range []*regexp.Regexp{residence, Comma, inCity} {
		for _, m := range sep.FindAllStringIndex(t, 4) {
			title = p.Sub(0, m[0])
			if !e.words.IsTitle(title.Text()) {
				continue
			}
			at, ok = e.Place(p.Sub(m[1], len(t)), false)
			if ok && sep == residence {
				return title, at, true
			}
			if !ok || at.City.View == nil {
				continue
			}
			if sep == Comma || e.words.Cities[strings.ToLower(at.City.Text())] && !workTitle.MatchString(title.Text()) {
				return title, at, true
			}
		}
	}
	return p, Location{}, false
}

// Number matches digits.
var Number = regexp.MustCompile(`\d+`)

// IsCode reports whether a phrase is a code of two capitals.
func IsCode(s string) bool { return len(s) == 2 && s == strings.ToUpper(s) }

// HasDigit reports whether a phrase has a digit.
func HasDigit(s string) bool { return strings.ContainsFunc(s, unicode.IsDigit) }

// IsPlaceName reports whether a phrase is written like the name of a place.
func IsPlaceName(s string, labeled bool) bool {
	words := strings.Fields(s)
	if len(words) == 0 || len(words) > 4 || HasDigit(s) || strings.ContainsAny(s, "@/:|<>{}") {
		return false
	}
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLetter(r) && (labeled || !unicode.IsLower(r) && AllCapitalized(s))
}
