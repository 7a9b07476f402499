// Package discovery requests the other profiles of a person from discovery-worker, and waits for
// the result.
//
// A request is a task on Kafka. The result is an event that every replica of query-api follows
// without a consumer group, from the end offsets taken before the replica was ready, so that the
// requesting replica sees it. Concurrent requests for the same account share one task within a
// replica; those of several replicas are merged by the worker, since tasks are keyed by account.
//
// Delivery: the brokers acknowledge a task before it is waited for. A result may arrive twice; the
// first one counts. A client that leaves does not cancel the task: its result is stored for the
// next call (readmodel, DiscoveryTable). Results of queries are for their callers only.
//
// Feedback on matches is published to its own topic, and acknowledged before the call ends.
package discovery
