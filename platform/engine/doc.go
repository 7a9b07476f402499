// Package engine runs ClickHouse without a ClickHouse server: libchdb, the engine as a shared library, in a child
// process that serves ClickHouse's HTTP interface on loopback.
//
// [EnsureLibrary] finds or downloads the library. [RunChild] is the main function of the child process. [Start] starts
// and supervises the child, restarts it when it dies, and stops it. Clients connect with an HTTP DSN, as to a
// ClickHouse server.
//
// Delivery guarantee: a response to an INSERT means that the rows are in the file system. They survive the death of
// the child, of the parent and of both (kill -9). They are synced to disk only if the table sets fsync_after_insert
// and fsync_part_directory; otherwise a power loss may lose data that the operating system has not flushed, as by
// default in ClickHouse. The read models set both, since offsets are committed after an insert by another process or
// on another machine, and would survive without the rows.
//
// A data directory is used by one process at a time. A second one waits for the lock and then returns an error.
package engine
