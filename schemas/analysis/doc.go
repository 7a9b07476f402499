// Package analysis analyses strings for search: it turns a text into the tokens that the projector stores and that a
// query is compared with. Both sides call this package, so that they can never disagree.
//
// Contract:
//   - [Analyse] gives the tokens of Elasticsearch's standard analyzer (Lucene's StandardTokenizer and LowerCaseFilter):
//     words by UAX#29, ideographs and hiragana one by one, runs of South-East Asian scripts whole, emoji sequences,
//     nothing else; lower case by code point; tokens over 255 UTF-16 units are cut. The word boundaries are those of
//     github.com/clipperhouse/uax29, whose Unicode is newer than Lucene's: characters that Unicode gained after
//     version 9 are letters here and nothing there. A differential test compares both.
//   - [Named] gives the other analyzers that a query may name, as far as they are exact here.
//   - Everything is a pure function of its arguments, for any string: bytes that are not UTF-8 count as U+FFFD.
//     Tokens share the memory of the text where no letter changes its case.
package analysis
