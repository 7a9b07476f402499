// Package limits holds the rate of each API key: so many requests a minute,
// which may also come at once (interface.md, Authentication, rule 5).
//
// Calls that read addresses by counting are bounded more strictly, by those of the last minute.
//
// A [Limiter] runs the generic cell rate algorithm. In memory it is throttled's. In
// Redis it is a script of ours: throttled's takes two round trips or more, between which
// requests of one key overtake each other and begin again. The state has throttled's
// form. Both pass the conformance suite in limitstest. An error
// of Take means that the state cannot be reached: its caller lets the request
// pass, because a rate protects the service and not what the caller has paid
// for.
package limits
