// Package analysis converts text to the tokens that the projector stores and that queries match. Both use this package,
// so they cannot differ.
//
//   - [Analyze] returns the tokens of Elasticsearch's standard analyzer (Lucene's StandardTokenizer and
//     LowerCaseFilter): words by UAX#29, single ideographs and hiragana, whole runs of South-East Asian scripts, and
//     emoji sequences, in lower case by code point. Tokens over 255 UTF-16 units are cut. Word boundaries are those of
//     github.com/clipperhouse/uax29, whose Unicode is newer than Lucene's: characters added after version 9 are letters
//     here, but not in Lucene. A differential test compares both.
//   - [Named] returns the other analyzers that a query may name, as far as they are implemented exactly.
//
// All functions are pure and accept any string: bytes that are not UTF-8 count as U+FFFD. Tokens share the memory of
// the text if no letter changes its case.
package analysis
