package evidence

import (
	"cmp"
	"math"
	"strings"

	"muster/schemas/readmodel"
)

// Population describes the people of the store: the prior probability that a person has a profile
// in it, and how many people have a name by chance. It is immutable. Nil means that nothing is
// known.
type Population struct {
	prior     Prior
	people    map[string]float64 // by platform
	coverage  map[string]float64 // by platform, estimated
	everybody float64            // on all platforms
	parts     map[string]float64 // people by part of their names
	initials  map[byte]float64   // people by initial of a part
	sampled   float64            // share of the names that was counted

	base       float64 // namesakes of a rare name
	dependence float64 // how much more frequent combinations are than independent parts
}

// Prior configures the prior probability. Zero fields mean their defaults.
type Prior struct {
	// Prevalence is the probability that a person with an account has a profile on another platform
	// at all. Default 0.5.
	Prevalence float64
	// Coverage is the probability that an existing profile is in the store, by platform. By default
	// it is estimated: the share of the declared accounts that are.
	Coverage map[string]float64
	// Population is the number of people for each one in the store, at least 1. Names have as many namesakes as in a
	// population of that size: links must be right among people whom the store does not have, too. Default 16.
	Population float64
}

// Defaults of [Prior].
const (
	DefaultPrevalence = 0.5
	DefaultPopulation = 16
)

// Assumptions about what has been seen rarely or never.
const (
	// unseenCoverage is the mean of the coverage before the first declared account is counted, with
	// the weight of two accounts.
	unseenCoverage = 0.5
	// unseenHolders is the number of further people with a name part that no other has.
	unseenHolders = 0.5
	// unseenNamesakes is the number of namesakes of a rare name before the first name is counted,
	// with the weight of 100 names.
	unseenNamesakes = 0.01
	// rare is the expected number of namesakes below which a name counts as rare.
	rare = 0.01
	// dispersion is the shape of the gamma distribution of the frequency of a name around its
	// estimate: one observed namesake weighs 1/dispersion times as much as the estimate.
	dispersion = 0.5
	// background is the number of further people with other names: in a small store every name is rare.
	background = 1000
	// maxRarity limits the weight of a name, in bits.
	maxRarity = 16
)

// OfStore returns the population of the store alone: that of [Prior.Population] 1.
func (p *Population) OfStore() *Population {
	if p == nil {
		return nil
	}
	store := *p
	store.prior.Population = 1
	return &store
}

// NewPopulation estimates a population from counts.
func NewPopulation(counts *readmodel.Population, prior Prior) *Population {
	p := &Population{prior: prior, people: make(map[string]float64), coverage: make(map[string]float64),
		parts: make(map[string]float64), initials: make(map[byte]float64), sampled: counts.Share}
	for _, u := range counts.Usernames {
		p.people[u.Platform] = float64(u.Held) / counts.Share
		p.everybody += p.people[u.Platform]
		p.coverage[u.Platform] = (float64(u.NamedHeld) + 2*unseenCoverage) / (float64(u.Named) + 2)
	}
	for _, n := range counts.Names {
		for part := range strings.FieldsSeq(n.Key) {
			p.parts[part] += float64(n.Holders) / counts.Share
			p.initials[part[0]] += float64(n.Holders) / counts.Share
		}
	}
	p.countNamesakes(counts.Names)
	return p
}

// countNamesakes compares how many namesakes the counted names have with how many are expected if
// parts are combined independently. The expectation is base for rare names, and grows in proportion
// to the product of the shares of the parts.
func (p *Population) countNamesakes(names []readmodel.NameCount) {
	const weight = 100
	rareSeen, rareNames := unseenNamesakes*weight, float64(weight)
	p.base, p.dependence = 0, 1
	var seen, expected float64
	for _, n := range names {
		a, b, _ := strings.Cut(n.Key, " ")
		k := float64(n.Holders)
		if e := p.people[n.Platform] * p.share(a, 1) * p.share(b, 1); e < rare {
			rareSeen += k * (k - 1)
			rareNames += k
		} else {
			seen += k * (k - 1)
			expected += k * e
		}
	}
	p.base = rareSeen / rareNames
	if expected > 0 {
		p.dependence = min(max(seen/expected, 1), 100)
	}
}

// share returns the share of people with a part in their name, without some that are known to have
// it.
func (p *Population) share(part string, known float64) float64 {
	holders := max(p.parts[part]-known, 0) + unseenHolders/p.sampled
	return min(holders/(p.everybody+background), 1)
}

// Prevalence returns the prevalence in use.
func (p *Population) Prevalence() float64 {
	if p == nil || p.prior.Prevalence == 0 {
		return DefaultPrevalence
	}
	return p.prior.Prevalence
}

// Coverage returns the coverage of a platform in use.
func (p *Population) Coverage(platform string) float64 {
	if p == nil {
		return unseenCoverage
	}
	if c, ok := p.prior.Coverage[platform]; ok {
		return c
	}
	if c, ok := p.coverage[platform]; ok {
		return c
	}
	return unseenCoverage
}

// PriorBits returns the base-2 logarithm of the prior odds that a person has a profile of a
// platform in the store.
func (p *Population) PriorBits(platform string) float64 {
	probability := min(max(p.Coverage(platform)*p.Prevalence(), 0.001), 0.999)
	return math.Log2(probability / (1 - probability))
}

// size returns the number of people of a platform among whom namesakes are expected.
func (p *Population) size(platform string) float64 {
	return max(p.people[platform], background) * cmp.Or(p.prior.Population, DefaultPopulation)
}

// matchedPart is a part of a name that both sides have, in the spelling of each. A single letter
// matches every part that begins with it.
type matchedPart [2]string

// namesakes returns how many people of a platform are expected to have matched parts by chance, given how many others
// in the store have the name.
func (p *Population) namesakes(platform string, parts []matchedPart, observed int) float64 {
	if p == nil {
		return 1
	}
	chance := 1.0
	for _, m := range parts {
		chance *= p.partChance(m)
	}
	people := p.size(platform)
	expected := people*chance + p.base
	if len(parts) > 1 {
		expected = people*chance*p.dependence + p.base
		// The observed namesakes are of all platforms, and only of the store.
		expected = people * (dispersion + float64(observed)) / (dispersion*people/expected + max(p.everybody-2, 0))
	}
	return expected
}

// partChance returns the share of people whose name has the part in either spelling.
func (p *Population) partChance(m matchedPart) float64 {
	for i := range m {
		if len(m[i]) == 1 {
			full := m[1-i]
			return min((p.initials[full[0]]+background/26)/(p.everybody+background), 1)
		}
	}
	return max(p.share(m[0], 2), p.share(m[1], 2))
}

// rarityBits returns the weight of matched parts: the fewer people have them by chance, the more.
func (p *Population) rarityBits(platform string, parts []matchedPart, observed int) float64 {
	if len(parts) == 0 {
		return 0
	}
	return min(max(-math.Log2(p.namesakes(platform, parts, observed)), -maxRarity), maxRarity)
}
