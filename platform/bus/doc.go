// Package bus is muster's Kafka client, built on kafka-go.
//
// There are two ways to consume:
//
//   - [BatchConsumer] is for bulk projection. One batch spans all partitions of this process. Offsets are committed
//     after the handler returned nil, which means that its effect is durable.
//   - [Subscriber] is for tasks and events, one message at a time, with Watermill's router. Offsets are committed up to
//     the first message that is not acked.
//
// [Follow] reads whole (compacted) topics without a group. [Publisher] is Watermill's; [NewWriter] and [WriteAll] are
// for bulk ingest.
//
// # Delivery
//
// Delivery is at least once. Writes are acknowledged by all in-sync replicas; a retried write may be stored twice. A
// consumer that dies or loses a partition between effect and commit receives the messages again. Messages of one key
// are delivered in the order of their acknowledgement, except with Subscriber.MaxInFlight above one.
//
// A corrupt record batch (wrong checksum, invalid records, or more than 64 MiB decompressed) is fetched again a few
// times and then skipped. This is logged as an error with the offsets, and counted in records_lost_total of a
// BatchConsumer. If its header is corrupt as well, one batch may be logged in several parts. A batch that is truncated
// by a corrupt length is not skipped.
//
// # Memory
//
// Fetched records are decoded in chunks of about 1 MiB, including overhead. While a chunk waits for the consumer, its
// partition retains that chunk and up to 4 MiB of fetched and decompressed bytes for the following ones. If these are
// larger they are fetched again, and a chunk has up to 16 MiB. Decoding takes up to about 100 MiB for each partition,
// even for a small fetch.
//
// # Transactions
//
// All readers of this package deliver only committed messages. They skip aborted messages and transaction markers;
// offsets advance past them. Messages after an open transaction are delivered when it ends, and count as lag until
// then.
//
// # Limits
//
// Batches of formats before Kafka 0.11 are neither read nor skipped: their partition stalls with an error in the log.
// kafka-go has no idempotent producer and no transactions.
package bus
