// Package rejected publishes the messages that the projector cannot process to the topic of rejected records.
//
// A [Publisher] publishes the position of each message and the reason, at least once: a repeated batch publishes
// events with the same ids. Events that the brokers refuse are logged with their positions; all other failures are
// returned, so that the caller repeats the batch.
package rejected
