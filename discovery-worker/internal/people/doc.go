// Package people reads the profiles of each platform from the read models, for comparison.
//
// A [Reader] turns rows into [Profile] values. It verifies every lookup hit against the current
// main row, so that a moved username leads to its current owner. Profiles contain no readable
// e-mail addresses, only their comparison keys.
//
// Errors are those of the store; a miss is not an error.
package people
