// Package lexicon holds the words by which the extractor recognizes things: labels, section headings, titles,
// companies, places.
//
// The lists in data are words for recognition, not facts about people; they were written for muster. Names of
// countries and languages are
// those of the Unicode CLDR (golang.org/x/text). Labels map to kinds ([Words.Kind]), headings to kinds of sections
// ([Words.Heading]).
package lexicon
