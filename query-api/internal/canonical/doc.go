// Package canonical writes JSON that is equal in the same way, so that it can be compared and hashed.
//
// It is bounded: JSON that is nested deeper than [MaxDepth] stays as it is written, since ordering the members of an
// object copies all of it, once for each level.
package canonical
