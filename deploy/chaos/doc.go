// Command chaos verifies that the pipeline loses and duplicates nothing under faults:
// `make chaos SEEDS=20`.
//
// Each seed draws four faults. It starts a broker in this process behind Toxiproxy, and
// an engine, projectors and ingest runs as child processes of the release binary, and
// feeds synthetic data through them while the faults happen. A fault that had no effect
// fails the seed. After the faults the stream drains, and the invariants are checked:
//
//   - every record that an ingest run acknowledged is visible in its newest version, once;
//   - every table equals a projection of the same topics without faults;
//   - the newest versions survive compaction, those written by other producers through a
//     replay;
//   - no committed offset is ahead of the inserted rows;
//   - exactly the injected poison was rejected.
//
// `make chaos-clocks` does the same with a binary whose wall clocks jump every two
// seconds by up to a month, back and forth, as when an operator sets the clock: in ingest
// runs, projectors and the engine's own process, but not in ClickHouse itself.
//
// With -apache the broker of each seed is Apache Kafka, behind Toxiproxy and a proxy that
// detects append requests. Instead of rejecting requests, it is killed and restarted on
// its storage. There is no compaction and no replay then.
//
// 20 consecutive seeds have every fault and every kill point at least three times; the
// table at the end has the counts.
package main
