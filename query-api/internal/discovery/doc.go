// Package discovery asks the discovery-worker for the other profiles of a
// person, and waits for its answer.
//
// A question is a task on Kafka; the answer is an event that every replica of
// query-api follows without a group, from the end offsets that it took before it
// was ready, so that the replica that asked sees it. Equal
// questions of this replica that are asked at the same time are one task; those
// of several replicas meet at the worker, since tasks are keyed by the account.
//
// Delivery: a task is acknowledged by the brokers before it is waited for. An
// answer may come twice, the first one counts. A caller who leaves does not take
// the task back: what it finds is kept for the next caller (readmodel,
// DiscoveryTable).
package discovery
