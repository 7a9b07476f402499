// Package idempotency stores the responses of calls with an Idempotency-Key, so that a repeated
// call gets the same response for free (rulings.md, Accounts, limits and charges).
//
// [Answers] belong to an organization, method, path and key. Their names in a [Store] are keyed
// hashes, and their contents are encrypted: a store reveals neither keys nor personal data. [Disk]
// is the store of a single replica, [Redis] that of several; both pass the conformance suite in
// idempotencytest. When Disk is full it evicts the oldest responses; a call repeated after that is
// a new one.
package idempotency
