package main

import (
	_ "embed" // tables
	"strings"
)

// Handwritten tables with one "place=name|name" per line. A place may have several lines.
var (
	// betterCountries are usual names of countries that GeoNames has under another name.
	//go:embed data/better-countries.txt
	betterCountries string
	// betterStates are the same for states, by GeoNames code.
	//go:embed data/better-states.txt
	betterStates string
	// countryNames are names of countries that the sources lack.
	//go:embed data/country-names.txt
	countryNames string
	// stateNames are names of states that the sources lack. Those of up to three capital letters are codes.
	//go:embed data/state-names.txt
	stateNames string
	// regionNames are regions of states.
	//go:embed data/region-names.txt
	regionNames string
	// cityNames are names of cities that count as much as the main ones, by city and country.
	//go:embed data/city-names.txt
	cityNames string
	// languages are those in which countries are also written.
	//go:embed data/languages.txt
	languages string
	// weakNames are accepted only with a country or state, although they are not in the list of words, or are large
	// cities.
	//go:embed data/weak-names.txt
	weakNames string
	// strongNames are accepted alone although they are words.
	//go:embed data/strong-names.txt
	strongNames string
)

// entries calls do with each name of a table.
func entries(table string, do func(place, name string)) {
	for line := range strings.Lines(table) {
		where, names, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			continue
		}
		for name := range strings.SplitSeq(names, "|") {
			do(where, name)
		}
	}
}

// lookup returns the name of a place in a table, "" for none.
func lookup(table, wanted string) (found string) {
	entries(table, func(place, name string) {
		if place == wanted {
			found = name
		}
	})
	return found
}

// contains reports whether a list of names has a name.
func contains(list, name string) bool {
	return strings.Contains("|"+strings.ReplaceAll(list, "\n", "|")+"|", "|"+name+"|")
}

// addByHand adds the names of the tables.
func (b *builder) addByHand() {
	entries(countryNames, func(code, name string) {
		if i, ok := b.country[code]; ok {
			b.add(name, countryName, i)
		}
	})
	entries(stateNames, func(code, name string) {
		i, ok := b.state[code]
		switch {
		case !ok:
		case len(name) <= 3 && strings.ToUpper(name) == name:
			b.add(name, stateCode, i)
		default:
			b.add(name, stateName, i)
		}
	})
	entries(regionNames, func(code, name string) {
		if i, ok := b.state[code]; ok {
			b.add(name, regionName, i)
		}
	})
	entries(cityNames, func(where, name string) {
		city, code, _ := strings.Cut(where, ", ")
		for i := range b.cities {
			if b.cities[i].Name == city && b.cities[i].Country == code {
				b.add(name, cityName, i)
				return
			}
		}
	})
}
