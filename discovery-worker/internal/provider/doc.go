// Package provider guards calls to external services: with a circuit breaker, a timeout, a
// concurrency limit, a cache and metrics.
//
// [Guard] wraps a [Provider] in a [Guarded] one, which is a Provider too. Its own errors
// ([ErrPaused], breaker.ErrOpen, [ErrBusy]) cost no call. A server that asks for a pause
// ([RetryError]) is not called until then, which does not count against its breaker.
//
// Results are optional hints without a delivery guarantee. Errors never contain a query, a key or a
// response.
package provider
