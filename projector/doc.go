// Package projector maintains the read models in ClickHouse.
//
// [Projector] consumes the record topics and the events of discovery, contexts, usage and webhooks, and
// writes the rows that schemas/readmodel renders from them. [Migrate] applies the schema migrations, [Replay]
// rebuilds tables from the topics while the API keeps serving, and [Eraser] deletes erased people.
//
// # Delivery
//
// At least once, idempotent by key. A batch is decoded, inserted with one insert per table, and only then are
// its offsets committed. A crash in between repeats the batch. Rows are keyed by identity and versioned, so
// repeated, late or reordered records do not change any result. A retried batch carries the same
// deduplication tokens; they save server work, correctness does not depend on them.
//
// # Rejected messages
//
// A message that is not a valid record (undecodable, keyed by another identity, of the wrong kind for its
// topic) goes to the topic of rejected records with its position and the reason. It never stops the stream.
// The same applies to a record whose data ClickHouse rejects: the batch is bisected until the record is
// isolated. All other ClickHouse errors (outage, overload, missing table, full disk) are retried until they
// clear; a valid record is never rejected because of them.
package projector
