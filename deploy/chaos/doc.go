// Command chaos shows that nothing is lost and nothing doubled while the
// pipeline is being broken: `make chaos SEEDS=20`.
//
// Each seed draws four faults. It starts a broker in this process behind
// Toxiproxy, an engine, projectors and ingest runs as processes of their own, of
// the program that is released, and feeds an invented world through them while
// the faults happen. A fault that never took effect fails the seed. Then the
// faults end, the stream drains, and the invariants are checked: every record
// that an ingest run acknowledged is there in its newest version, once; every
// table equals one that an undisturbed projector makes of the same topics; the
// newest versions outlive compaction, those of what others than ingest wrote by way of a replay; no committed offset is ahead of what was
// inserted; what was rejected is what was injected as poison.
//
// `make chaos-clocks` runs the same with a program whose wall clocks step every
// two seconds: ingest runs, projectors and the engine's own process then read
// times that go back and forth by up to a month, as servers do whose clocks are
// set (ClickHouse itself, which is no Go, keeps its clock).
//
// With -apache each seed's broker is Apache Kafka, behind Toxiproxy and a tap that
// knows requests to append; in the place of refusing requests it is killed and
// started on its storage again. It is not compacted, nor replayed from then.
//
// Twenty seeds from 1 on hold every fault and every kill point at least three
// times; the table at the end counts them.
package main
