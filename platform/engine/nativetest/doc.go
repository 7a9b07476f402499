// Package nativetest provides the native protocol of a ClickHouse server for embedded engines, as far as Distributed
// tables of another engine use it, so that tests can form a cluster of engines.
//
// A [Server] serves one engine and forwards requests of an initiator to its HTTP interface: queries with their external
// tables, inserts, and table status. It supports an old revision of the protocol (without trace context, secrets and
// sparse columns), uncompressed: the cluster definition must have <compression>false</compression>.
//
// The engine as a library can run a query only to the end, but an initiator requests an intermediate stage if it has
// to merge the results of several shards. So the query is rewritten to one whose result equals that stage: sorted rows
// get their sort columns, aggregate functions are replaced by their State form, and columns get the names that the
// initiator's planner uses, which are read from EXPLAIN. A query that cannot be rewritten is rejected with an
// exception.
package nativetest
