// Package engine runs ClickHouse without a ClickHouse server: libchdb, the
// engine as a shared library, in a child process that serves ClickHouse's HTTP
// interface on loopback.
//
// Its parts: [EnsureLibrary] finds or fetches the library; [RunChild] is the
// body of the child process; [Start] supervises the child from the parent, restarts
// it when it dies, and stops it. Everything else speaks to it as to any
// ClickHouse server, with an HTTP DSN.
//
// Delivery guarantee: a response to an INSERT means that the rows are in the
// file system. They survive the death of the child, of the parent and of both
// (kill -9). Only of a table that sets fsync_after_insert and fsync_part_directory
// are they synced to disk before: of others a power loss may take what the operating
// system had not yet written, which is ClickHouse's default as well. The read models
// set both: the offsets that are committed after an insert are in a file of another
// process, or on another machine, and survive without the rows.
//
// One process at a time uses a data folder; a second one waits for it and then
// gives up with an error.
package engine
