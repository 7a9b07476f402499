// Package sloppyphrase computes the frequency of a phrase with slop in a text, as Lucene's SloppyPhraseMatcher: each
// term of the phrase advances through its positions in the text, two terms are never at one position, and each match
// within the slop adds 1/(1+distance).
//
// It is a pure function of the phrase and the positions.
package sloppyphrase
