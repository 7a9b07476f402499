// Package redisbreaker is a circuit breaker for the Redis server that replicas share.
//
// A [Guard] is a hook of a client, so all users of the client share one breaker. While Redis is
// unavailable, commands fail immediately with [ErrUnavailable]; once per second one command is let
// through to probe the server. Callers decide what a failure means: rate limits allow the request,
// charges fail.
//
// Redis is unavailable if it is unreachable, silent, or answers that it cannot serve: it is loading
// its data, full, a replica, or requires another password. An outage is logged once, and so is its
// end.
package redisbreaker
