// Package queryapi serves the /v1 interface over the read models, and holds the
// operations on the accounts that may call it.
//
// [New] builds a [Service], its Run serves until its context ends. Accounts come
// from the compacted account topic, of which every replica follows all, and
// answers from ClickHouse. What a replica keeps itself are the usage events that
// Kafka does not have yet and, without Redis, stored answers, in its data folder,
// and balances and rates in memory, which are made again of the ledger. Several
// replicas share answers, balances and rates through Redis.
//
// [Accounts] creates and changes organizations and API keys by writing to the
// account topic; a change is effective on a replica as soon as that has read it.
// Writes are at least once and state what holds afterwards, so that a repeated
// one changes nothing.
//
// openapi.yaml is the source of the interface: request types, router and the Go
// client (package client) are generated from it with go generate ./...
package queryapi
