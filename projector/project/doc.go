// Package project writes the rows of the read models in ClickHouse from the topics of records and events.
//
// [Records] projects records and version bumps into the tables that schemas/readmodel renders. [NewEvents] projects
// the events of usage, webhooks, discovery and context calls.
//
// # Delivery
//
// At least once, idempotent by key. A batch is decoded, inserted with one insert per table, and only then are
// its offsets committed. A crash in between repeats the batch. Rows are keyed by identity and versioned, so
// repeated, late or reordered records do not change any result. A retried batch carries the same
// deduplication tokens; they save server work, correctness does not depend on them.
//
// Between the insert and the commit, tombstones of erased records, touches of accounts whose answers must be rebuilt
// and rejected messages are published, in this order.
//
// # Rejected messages
//
// A message that is not a valid record (undecodable, keyed by another identity, of the wrong kind for its
// topic) goes to the topic of rejected records with its position and the reason. It never stops the stream.
// The same applies to a record whose data ClickHouse rejects: the batch is bisected until the record is
// isolated. All other ClickHouse errors (outage, overload, missing table, full disk) are retried until they
// clear; a valid record is never rejected because of them.
package project
