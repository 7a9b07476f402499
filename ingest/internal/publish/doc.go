// Package publish writes messages to Kafka in order per key, with bounded memory, and reports which are stored.
//
// A [Batch] is spread over lanes by message key. Each lane writes one group of messages at a time
// and continues when all of it is acknowledged. So messages of one key are stored in publishing
// order, whatever fails in between, while lanes write concurrently.
//
// Delivery is at least once: a batch completes without error only after every in-sync replica has
// each of its messages. Transient failures are retried until the context ends; an outage of the
// brokers causes backpressure up to the reader. A retry may store a message twice. It may store
// messages in the wrong order only if a broker continues a timed-out request or a writer's context
// has ended: see bus.WriteAll.
//
// Deduplication (records.md, rule 5): with [Options.Store] each record is compared with the last
// published state of its identity, which no other lane or process can publish at the same time. The
// state is recorded after the record is acknowledged: see [Outcome].
//
// A message that the brokers will never accept stops the publisher: this package must not drop
// data. A record that is too large for its topic is replaced by a rejected record if the batch has
// a function for that, and a rejected record that is too large is truncated.
package publish
