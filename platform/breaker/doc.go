// Package breaker manages one circuit breaker per key, such as a provider, a webhook endpoint or a database.
//
// An open breaker rejects calls immediately with an error that matches [ErrOpen] and includes when to retry. A
// rejected call was not made and is not an attempt: a consumer waits ([Set.Wait], [DoWhenClosed]) or nacks the
// message, and never sends it to a dead-letter topic. [MayDeadLetter] is the filter for that.
//
// The state machine is sony/gobreaker v2. It uses the real clock; tests use testing/synctest.
package breaker
