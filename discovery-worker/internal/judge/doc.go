// Package judge asks a language model how likely it is that profiles belong to one person
// (interface.md, Discovery behaviour, rule 4).
//
// The model gets both contexts and the evidence as untrusted data. [Blend] lets its opinion lower a
// confidence, but never raise it, so prompt injection in a profile gains nothing.
package judge
