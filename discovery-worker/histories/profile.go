package histories

import (
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"strings"

	"muster/schemas/identity"
)

// What histories do not have is drawn from these tables, independently of the account, so that it
// is evidence neither for nor against. Every headline and place is equally likely.

// headlines are the headlines and titles of profiles. A fifth of the profiles has none.
func headlines() []string {
	return []string{
		"Software Engineer", "Senior Software Engineer", "Staff Engineer", "Software Developer", "Engineer", "Student",
		"Researcher", "PhD Student", "Data Scientist", "Machine Learning Engineer", "Web Developer",
		"Frontend Developer", "Backend Developer", "Full Stack Developer", "DevOps Engineer", "Consultant", "Founder",
		"CTO", "Engineering Manager", "Product Manager", "Project Manager", "Technical Writer", "Teacher",
		"Professor", "Designer", "Analyst", "Accountant", "Marketing Manager", "Sales Manager", "Freelancer",
	}
}

type place struct{ city, country string }

// places are the places of profiles. Accounts have none.
func places() []place {
	return []place{
		{"Berlin", "Germany"}, {"Munich", "Germany"}, {"Paris", "France"}, {"Lyon", "France"}, {"London",
			"United Kingdom"}, {"Manchester", "United Kingdom"}, {"Amsterdam", "Netherlands"}, {"Madrid", "Spain"},
		{"Lisbon", "Portugal"}, {"Rome", "Italy"}, {"Warsaw", "Poland"}, {"Prague", "Czechia"}, {"Vienna", "Austria"},
		{"Stockholm", "Sweden"}, {"Oslo", "Norway"}, {"Helsinki", "Finland"}, {"Kyiv", "Ukraine"}, {"Istanbul",
			"Turkey"}, {"Tel Aviv", "Israel"}, {"Lagos", "Nigeria"}, {"Nairobi", "Kenya"}, {"Cape Town",
			"South Africa"}, {"Bengaluru", "India"}, {"Hyderabad", "India"}, {"Pune", "India"}, {"Beijing", "China"},
		{"Shanghai", "China"}, {"Shenzhen", "China"}, {"Seoul", "South Korea"}, {"Tokyo", "Japan"}, {"Singapore",
			"Singapore"}, {"Jakarta", "Indonesia"}, {"Hanoi", "Vietnam"}, {"Sydney", "Australia"}, {"Toronto",
			"Canada"}, {"New York", "United States"}, {"San Francisco", "United States"}, {"Seattle",
			"United States"}, {"Austin", "United States"}, {"São Paulo", "Brazil"}, {"Buenos Aires", "Argentina"},
		{"Mexico City", "Mexico"},
	}
}

// profile is a profile of the professional network.
type profile struct {
	id, slug, name     string
	headline, employer string
	at                 place
	codehost           string // username of the declared account, or ""
}

// newProfile returns a profile of a name, with what is drawn.
func (b *builder) newProfile(r *rand.Rand, name, employer, handle string) profile {
	p := profile{id: "history-" + strconv.Itoa(len(b.slugs)), name: name, employer: employer,
		at: places()[r.IntN(len(places()))]}
	if r.IntN(5) > 0 {
		p.headline = headlines()[r.IntN(len(headlines()))]
	}
	p.slug = b.newSlug(r, name, handle)
	return p
}

// newSlug returns a free slug. Platforms make it from the name, with a random suffix if it is taken
// and for most newer profiles. A tenth is custom: the parts of the name joined, or the person's
// handle if it is given, half of the time each.
func (b *builder) newSlug(r *rand.Rand, name, handle string) string {
	base := slugOf(name)
	if r.IntN(10) == 0 {
		base = strings.ReplaceAll(base, "-", "")
		if handle != "" && r.IntN(2) == 0 {
			base = identity.NormalizeUsername(handle)
		}
	} else if r.IntN(2) == 0 {
		base += "-" + suffix(r)
	}
	slug := base
	for b.slugs[slug] || identity.NormalizeUsername(slug) == "" {
		slug = base + "-" + suffix(r)
	}
	b.slugs[slug] = true
	return slug
}

func suffix(r *rand.Rand) string {
	raw := make([]byte, 4)
	for i := range raw {
		raw[i] = byte(r.UintN(256)) //nolint:gosec // at most 255
	}
	return hex.EncodeToString(raw) + strconv.Itoa(r.IntN(10))
}

// slugOf returns the words of a name in lower case, joined by hyphens.
func slugOf(name string) string {
	if tokens := identity.NameTokens(name); len(tokens) > 0 {
		return strings.Join(tokens, "-")
	}
	return "member"
}
