// Package erasure deletes the stored data of erased people and reports the state of requests.
//
// An [Eraser] compares all stored rows with the suppression set, writes tombstones, deletes what matches, rewrites the
// files and verifies that nothing is left. A [Filter] drops the records of erased people before they are stored.
// [Requests] reads the log of requests with their states.
//
// # Delivery
//
// An eraser is stateless. Its work is idempotent and repeated until it succeeds, also after a crash: the status of a
// request is published at least once, and only after the deletion it reports. Rows that a replay, a delayed batch or
// another writer adds later are found by the next sweep or by the final scan.
//
// Deletions name rows by hashes only, because ClickHouse stores the statements of mutations. The key of the
// suppression set does not leave the process.
package erasure
