// Package clickhouse opens connections to ClickHouse, distinguishes transient from permanent errors and applies schema
// migrations. The only tables it knows are its own, muster_migrations and muster_migrations_lock.
//
// The same code serves the embedded engine and an external server or cluster: clickhouse-go/v2 over http, https or the
// native protocol, depending on the DSN.
//
// Delivery: an insert is acknowledged only after it is durable on the server (async_insert is pinned to 0; if the
// server's profile overrides that, the insert waits). A failed insert may or may not have taken effect. It is retried
// with the same rows in the same order and the same insert_deduplication_token, which identifies the source of the rows
// (bus.Batch's Token) and not the attempt. The server then drops the duplicate within its deduplication window, but
// correctness must not depend on that: rows are keyed and versioned.
package clickhouse
