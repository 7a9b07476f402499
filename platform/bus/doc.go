// Package bus is everything muster does with Kafka, over kafka-go.
//
// Two ways to consume, for two kinds of work:
//
//   - [BatchConsumer]: bulk projection. One batch spans all partitions of this
//     process; the handler's nil return means its effect is durable, and only then
//     are offsets committed.
//   - [Subscriber]: tasks and events, one message at a time, for Watermill's router.
//     Acked messages are committed up to the first one that is not finished.
//
// [Follow] reads whole (compacted) topics into memory, without a group.
// [Publisher] is Watermill's, [NewWriter] and [WriteAll] are for bulk ingest.
//
// # Delivery
//
// At least once everywhere. A write is acknowledged by all in-sync replicas; a
// write that is retried may be stored twice. A consumer that dies, or loses a
// partition, between the effect and the commit sees the messages again. Messages of
// one key are delivered in the order in which they were acknowledged, except
// with Subscriber.MaxInFlight above one.
//
// A record batch that cannot be read (its checksum or its records are wrong, or it
// inflates to more than 64 MiB) is fetched again a few times, and then stepped over: an
// error in the log, with the offsets, and for a BatchConsumer in the
// lost_records_total metric. Where its header is damaged too, the log may tell of one
// such batch in parts; a damaged length that cuts it off is not stepped over. No batch is believed before that.
//
// # Memory
//
// A reader decodes what it fetched in chunks of about 1 MiB, counted with what a message takes beside its bytes. While
// a chunk waits for room its partition holds that chunk, and the fetched and the inflated bytes of the following ones,
// 4 MiB at most. If these would take more they are fetched again, and a chunk has up to 16 MiB. A reader takes some
// 100 MiB for a partition while it decodes, however small what it fetched.
//
// Only committed messages are delivered, by everything in this package that reads. Messages of a transaction that its
// producer aborted, and the markers that end transactions, are passed over: offsets advance over them. What is behind
// an open transaction is delivered when that ends; lag counts it meanwhile.
//
// # What this package does not do
//
// Batches of formats before Kafka 0.11 are not read, and not stepped over either: their
// partition stands still, with an error in the log.
// kafka-go has no idempotent producer and no transactions.
package bus
