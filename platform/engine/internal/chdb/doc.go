// Package chdb binds the C interface of libchdb, the ClickHouse engine as a
// shared library, without cgo.
//
// Contract: a process loads the library once ([Open]) and uses one storage
// path. A [Conn] runs one statement at a time; different connections run
// concurrently. Handles returned by the library are freed by their Close
// methods, which must be called exactly once, by the goroutine that uses the
// handle. Closing the last connection stops the engine; it is not started again
// in the same process. The library's own chdb_shutdown is not used: with tables
// it reports threads that hang, and the end of the process does its work.
//
// Signals: loading the library and connecting replace signal handlers that the
// Go runtime needs (faults turned into panics, preemption). Open and Connect
// put the runtime's handlers back.
package chdb
