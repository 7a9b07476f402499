// Package instance knows a running muster by its data folder.
//
// `muster up` writes DATA_DIR/standalone.json; every other command reads it to
// find the Kafka brokers, the ClickHouse address and the HTTP addresses, so that
// an operator names only the data folder. Environment variables override what
// the file says, and suffice without it.
package instance
