// Package termregexp parses Lucene's regular expressions (RegExp), which match whole terms, and matches them: by an
// equivalent RE2 expression if there is one, or by itself if & or ~ are used, which RE2 lacks.
//
// An expression is safe for concurrent use. Matching a term of n characters takes at most the size of the expression
// times n squared steps.
package termregexp
