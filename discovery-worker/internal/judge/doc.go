// Package judge asks a language model how likely it is that profiles are one
// person's (interface.md, Discovery behaviour, rule 4).
//
// Both sides' context and what the evidence model found are given to it as data of
// strangers. Its answer is an opinion: [Blend] lets it lower a confidence and never
// raise it, so that no text in a profile gains anything by persuading it.
package judge
