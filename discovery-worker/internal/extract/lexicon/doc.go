// Package lexicon holds the word lists of the extractor: labels, section headings, titles,
// companies, places.
//
// The lists in data are for recognition; they were written for muster. Names of countries and
// languages come from the Unicode CLDR (golang.org/x/text). Labels map to kinds ([Words.Kind]),
// headings to kinds of sections ([Words.Heading]).
package lexicon
