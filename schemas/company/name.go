package company

import (
	"slices"
	"strings"

	"muster/schemas/place"
)

// legalForms returns words at the end of a company's name that are its legal form, folded.
func legalForms() []string {
	return []string{
		"ab", "ag", "aps", "as", "asa", "bhd", "bv", "bvba", "co", "company", "corp", "corporation", "cv", "ev", "eg",
		"gbr", "gmbh", "inc", "incorporated", "kft", "kg", "kgaa", "kk", "lda", "limited", "llc", "llp", "lp", "ltd",
		"ltda", "nv", "ohg", "oy", "oyj", "plc", "pte", "pty", "pvt", "private", "sa", "sarl", "sas", "sasu", "sca",
		"se", "sl", "slu", "snc", "spa", "sprl", "srl", "sro", "ug", "zrt",
	}
}

// NameKey returns the form of a company's name under which it is looked up: lower case, without accents, punctuation
// and legal form. It is empty for a name without letters and digits.
func NameKey(name string) string {
	key, _ := divideName(name)
	return key
}

// divideName returns the key of a name and its legal form.
func divideName(name string) (key, legalForm string) {
	words := strings.Fields(place.Fold(name))
	end := len(words)
	for end > 1 && (slices.Contains(legalForms(), words[end-1]) || words[end-1] == "and") {
		end--
	}
	return strings.Join(words[:end], " "), strings.Join(words[end:], " ")
}

// Scores of NameScore.
const (
	sameName       = 1.0
	otherLegalForm = 0.6  // both have one
	oneLegalForm   = 0.95 // one of the names has none
	unknownPlace   = 0.9  // factors of the place
	otherPlace     = 0.5
)

// NameScore returns how well the name and headquarters of a company fit a name and an optional place, between 0 and 1.
// It is 0 if the names have different keys. A place that is not found, or headquarters that are unknown, neither
// confirm nor contradict.
func NameScore(name string, at place.Place, company string, headquarters place.Place, placed bool) float64 {
	key, form := divideName(name)
	otherKey, otherForm := divideName(company)
	if key == "" || key != otherKey {
		return 0
	}
	score := sameName
	switch {
	case form == otherForm:
	case form == "" || otherForm == "":
		score = oneLegalForm
	default:
		score = otherLegalForm
	}
	if placed {
		score *= placeFactor(at, headquarters)
	}
	return score
}

// placeFactor returns 1 if the places agree.
func placeFactor(a, b place.Place) float64 {
	switch {
	case a.IsZero() || b.IsZero():
		return unknownPlace
	case a.CountryCode != b.CountryCode,
		a.State != "" && b.State != "" && a.State != b.State,
		a.City != "" && b.City != "" && a.City != b.City:
		return otherPlace
	case a.City != "" && b.City == "":
		return unknownPlace // the country alone does not confirm a city
	}
	return 1
}
