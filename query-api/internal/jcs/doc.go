// Package jcs writes JSON in canonical form (RFC 8785), for comparing and hashing.
//
// JSON nested deeper than [MaxDepth] is rejected, because sorting the members of an object copies
// it once per level.
package jcs
