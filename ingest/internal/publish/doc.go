// Package publish brings messages to Kafka, in order for each key, with bounded
// memory, and says which have arrived.
//
// Its one job is the way from a [Batch] in memory to the brokers'
// acknowledgement. Messages are spread over lanes by their key; each lane writes
// one group of messages at a time and goes on when all of it is acknowledged. So
// messages of one key are stored in the order in which they were published,
// whatever fails in between, while lanes write beside one another.
//
// Delivery. At least once: a batch is settled as stored only after every in-sync
// replica has each of its messages. Failures that may pass are retried for as
// long as the context lasts (an outage of the brokers stops the flow, and
// backpressure stops the reading). A retry may store a message twice, in the wrong
// order only where a broker goes on with a request of before, or a writer whose
// context has ended: see bus.WriteAll.
//
// Refreshes (records.md, rule 5). With [Options.Versions] each record is compared
// with what is known of its identity, while no other lane or process can publish
// that identity, and noted as known once it is acknowledged: see [Outcome].
//
// A message that the brokers will never take stops the publisher: whether it may
// be lost is nobody's to decide here. Of a record that is too large for its topic the
// letter is published in its place, if the batch says how it is made; a letter that is
// too large is shortened.
package publish
