// Package queryapi serves the /v1 HTTP API from the read models, and manages the accounts that may
// call it.
//
// [New] builds a [Service]; its Run serves until the context ends. Each replica reads the whole
// compacted account topic, and answers from ClickHouse. Its data directory holds usage events that
// are not yet in Kafka and, without Redis, responses stored for an Idempotency-Key. Balances and
// rate limits are in memory and rebuilt from the ledger. Several replicas share stored responses,
// balances and rate limits through Redis.
//
// [Accounts] creates and changes organizations and API keys by writing to the account topic. A
// replica applies a change as soon as it has read it. Writes are at least once and carry the full
// new state, so repeating one changes nothing.
//
// openapi.yaml is the source of the API: request types, router and the Go client (package client)
// are generated from it with go generate ./...
package queryapi
