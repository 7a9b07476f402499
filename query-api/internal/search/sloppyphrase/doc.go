// Package sloppyphrase counts how often a phrase with slop occurs in a text, as
// Lucene's SloppyPhraseMatcher does: every term of the phrase moves through its
// places in the text, two terms never stand at one place, and each time that
// the words are close enough counts 1/(1+distance).
//
// It is a pure function of the phrase and the places.
package sloppyphrase
