// Package idempotency keeps the answers of calls that carried an
// Idempotency-Key, so that sending the call again gives the same answer and
// costs nothing (rulings.md, Accounts, limits and charges).
//
// [Answers] belong to an organization, method, path and key. Their names in a
// [Store] are keyed hashes, and what is stored is encrypted: a store gives away
// neither keys nor personal data. There are two stores, [Disk] for one replica
// and [Redis] for several; both pass the conformance suite in idempotencytest.
// Disk forgets the oldest answers first when it is full: a call that is repeated
// then is a new one.
package idempotency
