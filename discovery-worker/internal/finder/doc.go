// Package finder discovers the accounts of a person on other platforms, given one account.
//
// The stages follow interface.md, Discovery behaviour: look up the input, follow known links in
// both directions, find candidates by name, nickname, transliteration and username, compare all
// (package evidence), and return the best of each platform above the threshold.
//
// A failing stage is named in the result and does not affect the others. A discovery never fails:
// its result has at least the input.
package finder
