// Package standalone runs the whole platform in one process, on one data
// folder: `muster up`.
//
// It is the one place that chooses engines. Without CLICKHOUSE_DSN and
// KAFKA_BROKERS it starts the embedded ones, ClickHouse as its one child process
// and Kafka inside; with them it uses those servers, and the services cannot tell
// the difference.
//
// A data folder is served by one process at a time. Whatever a run leaves behind,
// also after kill -9, the next one takes up: topics, read models, accounts, and a
// sample that was not loaded to its end.
package standalone
