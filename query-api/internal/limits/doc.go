// Package limits implements the rate limit of API keys: a number of requests per minute, which may
// come as a burst (interface.md, Authentication, rule 5).
//
// Calls that can reveal email addresses by counting have a stricter limit, with a sliding window of
// a minute.
//
// A [Limiter] uses the generic cell rate algorithm (GCRA): in memory that of package throttled, in
// Redis a script with the same state format. The Redis store of throttled needs two round trips or
// more, between which concurrent requests of one key conflict and retry. Both pass the conformance
// suite in limitstest.
//
// If Allow returns an error, the state is unavailable, and the caller allows the request: the rate
// limit protects the service, not what the client has paid for.
package limits
