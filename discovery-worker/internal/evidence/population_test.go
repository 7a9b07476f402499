package evidence_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/discovery-worker/internal/evidence"
	"muster/discovery-worker/internal/people"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// crowd is a store of 1,000 people on each of two platforms: every fifth is called Juno, every 50th Juno Abara, and
// all others have a name of their own.
func crowd(prior evidence.Prior) *evidence.Population {
	counts := &readmodel.Population{Share: 1, Usernames: []readmodel.UsernameCount{
		{Platform: "network", Held: 1000, Named: 98, NamedHeld: 69},
		{Platform: "codehost", Held: 1000},
	}}
	for _, platform := range []string{"network", "codehost"} {
		counts.Names = append(counts.Names, readmodel.NameCount{Platform: platform, Key: "abara juno", Holders: 20})
		for i := range 980 {
			key := fmt.Sprintf("a%d b%d", i, i)
			if i < 180 {
				key = fmt.Sprintf("b%d juno", i)
			}
			counts.Names = append(counts.Names, readmodel.NameCount{Platform: platform, Key: key, Holders: 1})
		}
	}
	return evidence.NewPopulation(counts, prior)
}

func TestPopulation_PriorIsCoverageTimesPrevalence(t *testing.T) {
	for _, c := range []struct {
		prior    evidence.Prior
		platform string
		want     float64 // probability
	}{
		{evidence.Prior{}, "network", 0.7 * 0.5},
		{evidence.Prior{Prevalence: 0.2}, "network", 0.7 * 0.2},
		{evidence.Prior{Coverage: map[string]float64{"network": 0.1}}, "network", 0.1 * 0.5},
		{evidence.Prior{}, "codehost", 0.5 * 0.5},
		{evidence.Prior{}, "microblog", 0.5 * 0.5},
	} {
		bits := crowd(c.prior).PriorBits(c.platform)
		require.InDelta(t, c.want, 1/(1+math.Exp2(-bits)), 1e-9, "%+v", c)
	}
	require.InDelta(t, math.Log2(0.25/0.75), (*evidence.Population)(nil).PriorBits("network"), 1e-9)
}

// rarity returns the bits and the field of the rarity of a pair on different platforms.
func rarity(p *evidence.Population, a, b *people.Profile, others int) evidence.Comparison {
	for _, c := range evidence.Compare(evidence.Pair{A: a, B: b, Population: p, SameName: others}) {
		if c.Field == evidence.FieldRarity {
			return c
		}
	}
	return evidence.Comparison{}
}

func TestCompareRarity_CountsWhatTheShorterNameSays(t *testing.T) {
	p := crowd(evidence.Prior{})
	bits := func(nameA, nameB string, others int) float64 {
		return rarity(p, profile("codehost", "x1", nameA), profile("network", "y1", nameB), others).Bits
	}
	require.Greater(t, bits("Zeno Quarn", "Zeno Quarn", 0), bits("Juno Quarn", "Juno Quarn", 0)+3)
	require.Greater(t, bits("Juno Quarn", "Juno Quarn", 0), bits("Juno Abara", "Juno Abara", 38)+3)
	require.Greater(t, bits("Zeno Quarn", "Zeno Quarn", 0), bits("Zeno Quarn", "Zeno Quarn", 2)+2,
		"observed namesakes count")
	require.Greater(t, bits("Juno Borat", "Juno Borat", 0), bits("Juno Borat", "Juno B", 0)+1)
	require.Greater(t, bits("Juno Borat", "Juno B", 0), bits("Juno Borat", "Juno", 0))
	require.Negative(t, bits("Juno Quarn", "Juno", 0), "200 people on the platform are called Juno")
	require.Zero(t, bits("Juno Quarn", "Zeno Lind", 0))
}

// The larger the population, the more people have a name by chance. Other people of the name in the store count as
// part of it, and names that repeat in the store do not repeat more often outside.
func TestPopulation_NamesakesAreOfPeopleOutsideTheStoreToo(t *testing.T) {
	bits := func(size float64, name string, others int) float64 {
		return rarity(crowd(evidence.Prior{Population: size}), profile("codehost", "x1", name),
			profile("network", "y1", name), others).Bits
	}
	for _, c := range []struct {
		name       string
		others     int
		lost, most float64 // bits
	}{
		{"Juno Quarn", 0, 3.5, 5},
		{"Juno Abara", 38, 4.5, 5},
		{"Zeno Quarn", 2, 3, 5},
		{"Zeno Quarn", 0, 3, 4},
	} {
		lost := bits(1, c.name, c.others) - bits(32, c.name, c.others)
		require.Greater(t, lost, c.lost, c)
		require.Less(t, lost, c.most+1e-9, c)
		require.Less(t, bits(32, c.name, c.others), bits(0, c.name, c.others), "the default is 16")
	}
	a, b := profile("codehost", "x1", "Juno Quarn"), profile("network", "y1", "Juno Quarn")
	// Nothing is counted in an empty store: most namesakes expected are those of names that repeat.
	empty := func(size float64) float64 {
		store := &readmodel.Population{Share: 1}
		return rarity(evidence.NewPopulation(store, evidence.Prior{Population: size}), a, b, 0).Bits
	}
	require.InDelta(t, math.Log2((0.01+32*0.00025)/(0.01+0.00025)), empty(1)-empty(32), 1e-3)
	p := crowd(evidence.Prior{})
	require.InDelta(t, bits(1, "Juno Quarn", 0), rarity(p.OfStore(), a, b, 0).Bits, 1e-9)
	require.InDelta(t, bits(evidence.DefaultPopulation, "Juno Quarn", 0), rarity(p, a, b, 0).Bits, 1e-9,
		"OfStore leaves the population as it is")
	require.Nil(t, (*evidence.Population)(nil).OfStore())
}

// Name and username are one fact: the rarity of the name counts once, in a linked pair not at all.
func TestCompareRarity_CountsOnce(t *testing.T) {
	p := crowd(evidence.Prior{})
	a, b := profile("codehost", "zenoquarn", "Zeno Quarn"), profile("network", "zeno-quarn", "Zeno Quarn")
	named := rarity(p, a, b, 0)
	require.Equal(t, evidence.FieldName, named.Level)
	a.Names = nil
	byUsername := rarity(p, a, b, 0)
	require.Equal(t, evidence.FieldUsername, byUsername.Level)
	require.InDelta(t, named.Bits, byUsername.Bits, 1e-9)
	a.Declared = []event.Account{b.Account()}
	require.Equal(t, evidence.Comparison{Field: evidence.FieldRarity, Level: evidence.Missing}, rarity(p, a, b, 0))
}

// Different surnames, different given names, and an initial for the surname, are never confident without a link or a
// common address, whatever else agrees.
func TestModel_ContradictingNamesStayBelowTheThreshold(t *testing.T) {
	m, err := evidence.Default()
	require.NoError(t, err)
	for _, names := range [][2]string{{"Morvin Styk", "Morvin Zaťko"}, {"Nikhal Wadri", "Nehal J Wadri"},
		{"Karlon Goezbacht", "Karlon G"}, {"Karlon Van Grissom", "Karlon G"}} {
		rank := func(change func(a, b *people.Profile)) float64 {
			a, b := profile("codehost", "quietotter", names[0]), profile("network", "quietotter", names[1])
			a.Places, b.Places = []string{"Enugu, Nigeria"}, []string{"Enugu, Nigeria"}
			a.Employers, b.Employers = []string{"Quenlix"}, []string{"Quenlix"}
			a.Current, b.Current = 1, 1
			change(a, b)
			c := &evidence.Candidate{Pair: evidence.Pair{A: a, B: b, Population: crowd(evidence.Prior{})}}
			m.Rank([]*evidence.Candidate{c})
			return c.Confidence
		}
		require.Less(t, rank(func(_, _ *people.Profile) {}), event.DiscoveryThreshold, names)
		require.Greater(t, rank(func(a, b *people.Profile) {
			a.Declared, b.Declared = []event.Account{b.Account()}, []event.Account{a.Account()}
		}), 0.9, names)
		require.Greater(t, rank(func(a, b *people.Profile) {
			a.Emails, b.Emails = []string{"a@x.example"}, []string{"a@x.example"}
		}), event.DiscoveryThreshold, names)
	}
}
