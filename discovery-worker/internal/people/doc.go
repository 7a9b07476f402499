// Package people reads who is on record on each platform, in the form in which
// discovery compares people.
//
// A [Reader] turns rows of the read models into a [Profile]. Every hit of a
// lookup is checked against the main row as it is now, so that a username that
// has moved leads to who holds it now. Profiles hold no e-mail address in a
// readable form: addresses are compared, never shown.
//
// Errors are those of the store; a miss is no error.
package people
