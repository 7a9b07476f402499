// Package batchload batches concurrent lookups by key into few queries, because a query costs a store more than the
// rows it reads. It is independent of the store: a [Loader] calls a function that reads a list of keys.
//
// A result was visible when it was requested, or later. If the store could not be read, the error matches
// [ErrUnavailable]; other errors are those of the caller's context. A missing key is not an error.
package batchload
