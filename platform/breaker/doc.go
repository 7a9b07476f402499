// Package breaker keeps one circuit breaker per key: a provider, a webhook endpoint, a database.
//
// A breaker that is open refuses calls at once with an error that is [ErrOpen] and says when to try again. What was
// refused has not been tried, so it costs no attempt: a consumer waits ([Set.Wait], [DoWhenClosed]) or
// gives the message back unacknowledged, and never sends it to a dead-letter topic. [MayDeadLetter] is the filter for
// that.
//
// The state machine is sony/gobreaker v2. Its clock is the process's; tests use testing/synctest.
package breaker
