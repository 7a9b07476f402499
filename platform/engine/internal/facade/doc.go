// Package facade serves ClickHouse's HTTP interface over libchdb.
//
// It speaks what clickhouse-go, curl and other HTTP clients of ClickHouse use:
// queries in the body, in the URL or in a form; settings and param_ values;
// every format; streaming results and inserts; external tables; sessions;
// compression; ClickHouse's exception codes, statuses and headers.
//
// The facade owns what libchdb lacks: users (a service user who may do
// everything, and an analyst who may only read tables), a bounded number of
// statements at a time, cancellation when the client goes away, and the limits
// of a ClickHouse server on URLs and fields, so that a request that passes here
// passes on a server.
//
// Delivery guarantee: the response to an INSERT is sent after the engine wrote
// the rows' parts to the file system. They survive the death of this process
// (kill -9), and a power loss if the table has fsync_after_insert and
// fsync_part_directory. Of others that may take what the operating system had not
// yet written, as on a ClickHouse server.
package facade
