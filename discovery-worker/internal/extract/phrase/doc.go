// Package phrase parses single phrases: names of people, places, titles and organizations.
//
// Each method of [Reader] takes a phrase and reports whether it is of that kind. labeled means that
// the input says so. A Reader is immutable and safe for concurrent use.
package phrase
