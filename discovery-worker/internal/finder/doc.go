// Package finder does one discovery: from an account to the same person's
// accounts on the other platforms.
//
// Its stages are those of interface.md, Discovery behaviour: the input is looked
// up, known links are followed both ways, candidates are searched for by name,
// nickname, transliteration and username, all are compared (package evidence),
// and the best of each platform above the threshold is returned.
//
// A stage that fails is named in the result and takes nothing from the others. A
// result is never an error: at least it holds the input.
package finder
