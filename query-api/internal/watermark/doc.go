// Package watermark determines as of when the read models have every published message.
//
// A [Watermark] compares the committed offsets of the consumer groups that build the read models with the ends of their
// topics, every few seconds. Groups commit an offset after its effect is durable. If no message waits, the read models
// are current as of the beginning of the comparison; else as of the oldest message that waits. A message between two
// groups waits for the second one: what is published up to a batch before it may not be visible yet.
//
// While Kafka is unavailable the watermark stays, and its lag grows.
package watermark
