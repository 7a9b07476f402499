// Package termregexp reads Lucene's regular expressions (RegExp), which match
// whole terms, and tells which terms they match: by an expression for RE2
// where there is one, by itself where & and ~ are used, which RE2 lacks.
//
// An expression is safe for concurrent use. Matching a term of n characters
// takes at most the size of the expression times n squared steps.
package termregexp
