package evidence

import (
	"slices"
	"strings"
	"unicode"

	"github.com/antzucaro/matchr"
	"golang.org/x/text/language"
	regions "golang.org/x/text/language/display"

	"muster/schemas/identity"
)

// place compares the most exact place that a side has with all text of the
// other, and the countries where that gives nothing.
func place(p Pair) string {
	if len(p.A.Places) == 0 || len(p.B.Places) == 0 {
		return Missing
	}
	a, b := placeParts(p.A.Places), placeParts(p.B.Places)
	if len(a) == 0 || len(b) == 0 {
		return Missing
	}
	scripts := latin(p.A.Places) != latin(p.B.Places)
	countries := strings.Join(words(p.A.Country), " ") + "|" + strings.Join(words(p.B.Country), " ")
	country := func(s string) bool { return strings.HasPrefix(countries, s+"|") || strings.HasSuffix(countries, "|"+s) }
	has := func(list []string, s string) bool {
		return slices.ContainsFunc(list, func(t string) bool { return samePlace(s, t) })
	}
	common := slices.IndexFunc(a, func(s string) bool { return has(b, s) && !country(s) })
	switch {
	case common >= 0 && (has(b, a[0]) && !country(a[0]) || has(a, b[0]) && !country(b[0])):
		return "same_city"
	case common >= 0:
		return "same_region"
	case slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) }):
		return "same_country"
	case scripts:
		return Missing
	case p.A.Country != "" && p.B.Country != "":
		return Different + "_country"
	}
	return Different
}

// latin reports whether all of it is in Latin letters.
func latin(list []string) bool {
	return !slices.ContainsFunc(list, func(s string) bool {
		return strings.ContainsFunc(s, func(r rune) bool { return unicode.IsLetter(r) && !unicode.Is(unicode.Latin, r) })
	})
}

// samePlace reports whether two places are spelt alike, as transliterations are.
func samePlace(a, b string) bool {
	a, b = strings.ReplaceAll(a, " ", ""), strings.ReplaceAll(b, " ", "")
	return a == b || min(len(a), len(b)) >= 5 && (identity.Consonants(a) == identity.Consonants(b) || matchr.JaroWinkler(a, b, false) >= 0.93)
}

// placeParts splits places at what people put between city and country.
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

// flagCountry is the country whose flag a text has.
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
