// Package redisguard stands before the Redis server that replicas share.
//
// A [Guard] is a hook of a client, so that everybody who uses it is behind the same
// circuit breaker. While Redis is away, a command fails at once with [ErrAway]; once a
// second one of them is let through and finds out whether that has changed. What the
// failure means is the user's matter: a rate lets the request pass, nothing is charged.
//
// Away is a server that cannot be reached, that is silent, and one that answers that it
// serves nobody at present: it is loading its data, is full, is a replica, or takes
// another password. The log tells of an outage once, and of its end.
package redisguard
