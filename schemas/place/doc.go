// Package place finds the city, state and country that a location text or a structured location names.
//
// [Default] decodes the embedded gazetteer: countries, first-level administrative divisions (called states) and
// cities
// of at least 15,000 people, with names in many languages. [Gazetteer.Find] reads free text, [Gazetteer.Complete]
// fills in what a structured location leaves out.
//
// The package never guesses, because a wrong place is worse than none:
//   - All parts of a text must agree. "Paris, Germany" and "Berlin | Paris" name no place.
//   - Of cities with the same name the most populous one is meant that the other parts allow. Its state and
//     coordinates are left out when a namesake in the same country has more than half its population.
//   - A name that is an ordinary word ("Nice", "Reading"), or short, is accepted only with a country or state. A code
//     of two letters is accepted only with a city of its country or state, or if it is unambiguous.
//   - A name of a country and of a state of another one ("Georgia") means neither without more context.
//   - A region around a city ("Greater Boston Area") has the city's state and country, not the city.
//   - Unknown words are ignored only with a country or state, or before a large city.
//
// The table gazetteer.bin.gz contains data of GeoNames (https://www.geonames.org, CC BY 4.0), adapted: reduced to the
// fields above, names folded. Names of countries and states in other languages are from Unicode CLDR (Unicode License
// V3), state codes from the package iso-3166 (MIT). internal/generate creates the table.
//
// A Gazetteer is immutable and safe for concurrent use.
package place
