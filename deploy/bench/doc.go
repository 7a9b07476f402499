// Command bench measures muster against named alternatives on one machine, in
// one run, and prints ratios: `make bench`.
//
// Everything runs on loopback, bounded in time, in a data folder that is kept,
// so that the world is loaded only once. Each part states what it reads, how
// many rows there are, and how it was asked; deploy/docs/benchmarks.md has the
// figures of a run.
package main
