// Package gather turns many concurrent lookups by key into few queries, because a
// query costs a store more than what it looks for. It knows nothing of stores: a
// [Gatherer] is given a function that reads a list of keys.
//
// An answer is what was visible when it was asked for, or later. What could not be
// read is an error matching [ErrUnavailable]; otherwise errors are those of the
// caller's context. A miss is no error.
package gather
