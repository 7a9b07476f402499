// Package phrase reads single phrases: names of people, places, titles and organizations.
//
// Each method of [Reader] takes a phrase and reports whether it is one; "surely" says that the input calls it one.
// A Reader is immutable
// and safe for concurrent use.
package phrase
