// Package chdb binds the C interface of libchdb, the ClickHouse engine as a shared library, without cgo.
//
// A process loads the library once ([Open]) and uses one storage path. A [Conn] runs one statement at a time;
// different connections run concurrently. Handles returned by the library are freed by their Close methods, which must
// be called exactly once, by the goroutine that uses the handle. Closing the last connection stops the engine; it
// cannot be started again in the same process. chdb_shutdown is not called: with tables it reports hanging threads,
// and the end of the process has the same effect.
//
// Loading the library and connecting replace signal handlers that the Go runtime requires (faults turned into panics,
// preemption). Open and Connect restore the runtime's handlers.
package chdb
