// Package derive computes values that a record leaves out and that follow from the record alone: the current position,
// structured locations, names from one another, the profile's URL (schemas/MAPPING.md, section 1, "Derived values").
//
// [Deriver.NetworkPerson] and [Deriver.CodehostPerson] are pure: they return a copy and the set of [Fields] that were
// derived, and change nothing. A value that the record has is never replaced. A value that would be a guess is left
// out.
package derive
