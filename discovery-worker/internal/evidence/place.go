package evidence

import (
	"slices"
	"strings"
	"unicode"

	"github.com/antzucaro/matchr"
	"golang.org/x/text/language"
	regions "golang.org/x/text/language/display"
)

// comparePlace compares the most specific place of each side with all places of the other, then the
// countries.
func comparePlace(p Pair) string {
	if len(p.A.Places) == 0 || len(p.B.Places) == 0 {
		return Missing
	}
	na, nb := p.features()
	a, b := na.placeParts(), nb.placeParts()
	if len(a) == 0 || len(b) == 0 {
		return Missing
	}
	scripts := na.latinPlaces() != nb.latinPlaces()
	country := func(s placePart) bool { return s.text == na.countryWords() || s.text == nb.countryWords() }
	contains := func(list []placePart, s placePart) bool {
		return slices.ContainsFunc(list, func(t placePart) bool { return isSamePlace(s, t) })
	}
	common := slices.IndexFunc(a, func(s placePart) bool { return contains(b, s) && !country(s) })
	switch {
	case common >= 0 && (contains(b, a[0]) && !country(a[0]) || contains(a, b[0]) && !country(b[0])):
		return "same_city"
	case common >= 0:
		return "same_region"
	case slices.ContainsFunc(a, func(s placePart) bool { return slices.Contains(b, s) }):
		return "same_country"
	case scripts:
		return Missing
	case p.A.Country != "" && p.B.Country != "":
		return Different + "_country"
	}
	return Different
}

// isLatin reports whether all letters are Latin.
func isLatin(list []string) bool {
	return !slices.ContainsFunc(list, func(s string) bool {
		return strings.ContainsFunc(s, func(r rune) bool {
			return unicode.IsLetter(r) && !unicode.Is(unicode.Latin, r)
		})
	})
}

// isSamePlace reports whether two places are spelled alike, as transliterations are.
func isSamePlace(a, b placePart) bool {
	return a.joined == b.joined ||
		min(len(a.joined), len(b.joined)) >= 5 &&
			(a.consonants == b.consonants || matchr.JaroWinkler(a.joined, b.joined, false) >= 0.93)
}

// placeParts splits places at the separators between city and country.
func placeParts(places []string) []string {
	var out []string
	for _, s := range places {
		if c := flagCountry(s); c != "" && !slices.Contains(out, c) {
			out = append(out, c)
		}
		for _, part := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(",-/|;·✈→", r) }) {
			if w := strings.Join(words(part), " "); w != "" && !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	return out
}

// flagCountry returns the country of a flag emoji in s, or "".
func flagCountry(s string) string {
	const first, last = 0x1F1E6, 0x1F1FF
	var code []byte
	for _, r := range s {
		if r >= first && r <= last && len(code) < 2 {
			code = append(code, byte('A'+r-first))
		}
	}
	if len(code) != 2 {
		return ""
	}
	region, err := language.ParseRegion(string(code))
	if err != nil {
		return ""
	}
	return strings.Join(words(regions.English.Regions().Name(region)), " ")
}
