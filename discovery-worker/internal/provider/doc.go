// Package provider puts what every call to somebody else's service needs around
// it: a circuit breaker, a timeout, a bound of concurrent calls, a cache, and
// metrics.
//
// A [Provider] asks; a [Guarded] one, which [Guard] makes, is a Provider too.
// Refusals of the guard ([ErrPaused], breaker.ErrOpen, [ErrBusy]) come at once
// and cost no call. A server that says when it wants to be asked again
// ([RetryError]) is left alone until then, and that does not count against its
// breaker.
//
// Nothing is delivered: an answer is a hint that may be missing. Errors never
// hold a query, a key or what a server wrote.
package provider
