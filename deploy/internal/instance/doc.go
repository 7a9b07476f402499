// Package instance finds a running muster by its data directory.
//
// `muster up` writes DATA_DIR/standalone.json. The other commands read the addresses of
// Kafka, ClickHouse and the HTTP servers from it, so that an operator passes only the
// data directory. Environment variables override the file, and are enough without it.
package instance
