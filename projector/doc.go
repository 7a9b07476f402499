// Package projector keeps the read models: it consumes every record topic, and the
// events of discoveries, contexts, usage and webhooks, in batches and writes what
// they become (schemas/readmodel) to ClickHouse ([Projector]). It also owns the
// migrations of those tables ([Migrate]), makes them anew from the topics while the
// API answers ([Replay]), and removes who was erased from them ([Eraser]).
//
// # Delivery
//
// At least once, idempotent by key. A batch is decoded, inserted with one
// insert a table, and only then are its offsets committed. A process that
// dies in between repeats the batch; rows are keyed by identity and versioned,
// so a repeated, late or out-of-order record changes no answer. A retried
// batch carries the same insert tokens, which saves the server work and
// carries no correctness.
//
// # What cannot be projected
//
// A message that is no record (undecodable, under another key than its
// identity, of a kind that is not its topic's) goes to the topic of rejected
// records with its place and its reason, and never stops the stream. So does a
// record that ClickHouse refuses for its data: a refused batch is halved until
// the record stands alone. Everything else ClickHouse may answer, an outage,
// overload, a missing table, a full disk, is waited out: a healthy record is
// never rejected for it.
package projector
