// Package facade serves ClickHouse's HTTP interface with libchdb.
//
// It supports what clickhouse-go, curl and other HTTP clients of ClickHouse use: queries in the body, in the URL or in
// a form; settings and param_ values; all formats; streaming results and inserts; external tables; sessions;
// compression; ClickHouse's exception codes, statuses and headers.
//
// The facade implements what libchdb lacks: users (a service user with all rights and read-only analysts), a limit on
// concurrent statements, cancellation when the client disconnects, and a ClickHouse server's limits on URLs and fields,
// so that a request that works here also works on a server.
//
// Delivery guarantee: the response to an INSERT is sent after the engine has written the parts to the file system. They
// survive the death of this process (kill -9). They survive a power loss if the table has fsync_after_insert and
// fsync_part_directory; without these settings, data that the operating system has not flushed is lost, as on a
// ClickHouse server.
package facade
