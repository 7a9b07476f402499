// Package projector maintains the read models in ClickHouse.
//
// A [Projector] runs the consumers of the record topics and of the events, and the builders of answers, until its
// context ends. Its parts are packages:
//
//   - project: rows of records and events
//   - answers: one row for each code-host account with everything that the API returns for it
//   - linked: what person search reads of the account that a network person is linked with
//   - erasure: deletion of erased people, and the state of requests
//   - replay: rebuilding tables while the API keeps serving
//   - migrations: creating and updating tables, on every node of a cluster
//
// Data flows from project to answers, by touches on a topic. The eraser and replays are started separately.
//
// # Delivery
//
// At least once, idempotent by key: offsets are committed after rows are durable, and the newest version of a row
// wins. The packages' documentation has the details.
package projector
