// Package limits holds the rate of each API key: so many requests a minute,
// which may also come at once (interface.md, Authentication, rule 5).
//
// The generic cell rate algorithm is throttled's. A [Limiter] keeps its state
// in memory or in Redis; both pass the conformance suite in limitstest. An error
// of Take means that the state cannot be reached: its caller lets the request
// pass, because a rate protects the service and not what the caller has paid
// for.
package limits
