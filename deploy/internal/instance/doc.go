// Package instance finds a running muster by its data directory.
//
// The process that serves a data directory holds a lock on DATA_DIR/lock, and `muster up` writes
// DATA_DIR/standalone.json when it is ready. The other commands read the addresses of Kafka, ClickHouse and the HTTP
// servers from it while the lock is held, so that an operator passes only the data directory. Environment variables
// override the file, and are enough without it.
package instance
