// Package clickhouse opens connections to ClickHouse, tells transient errors from permanent ones and applies schema
// migrations. It knows no table but its own, muster_migrations and muster_migrations_lock.
//
// One code path serves the embedded engine and a server or cluster: clickhouse-go/v2 over http, https or the native
// protocol, as the DSN says.
//
// Delivery: an insert is acknowledged once it is durable on the server, never before (async_insert is pinned to 0, and
// waits if the server's profile overrides that). An insert that failed may or may not have happened; it is repeated
// with the same rows in the same order and the same insert_deduplication_token, which names what the rows come from
// (bus.Batch's Token) and not the attempt, and lets the server drop the copy while its deduplication window lasts. Correctness must not rest on that: rows are keyed and versioned.
package clickhouse
