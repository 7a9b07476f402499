// Package standalone runs the whole platform in one process, on one data
// directory: `muster up`.
//
// It selects the engines. Without CLICKHOUSE_DSN and KAFKA_BROKERS it starts the
// embedded ones, ClickHouse as its only child process and Kafka in-process; with them
// it uses the external servers. The services are the same in both cases.
//
// A data directory is served by one process at a time. A new run continues from the
// state of the previous one, also after kill -9: topics, read models, accounts, and a
// partially loaded sample.
package standalone
