// Package nativetest gives an embedded engine the native protocol of a
// ClickHouse server, as far as another engine's Distributed tables speak it to
// their shards: so that tests can put engines side by side as a cluster.
//
// Contract: a [Server] stands before one engine and hands its HTTP interface
// what an initiator asks: queries, with the tables that come with them, inserts,
// and the state of tables. It speaks an old revision of the protocol (without
// trace context, secrets, sparse columns), uncompressed: the initiator's
// definition of the cluster has <compression>false</compression>.
//
// The engine as a library runs a query to its end and never to the middle, which
// an initiator asks for when it has to merge what several shards found. So the
// query is changed to one whose end is that middle: sorted rows get the columns
// that they are sorted by, calls of aggregate functions become those of their
// State forms, and columns get the names that the initiator's planner has for
// them, which EXPLAIN tells. A query that cannot be changed so is refused with
// an exception that says why, instead of being answered wrongly.
package nativetest
