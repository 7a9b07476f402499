// Command bench compares muster with named alternatives on one machine, in one run, and
// prints ratios: `make bench`.
//
// Everything runs on loopback, with time limits, in a data directory that is kept, so that
// the data is loaded only once. Each part prints what it reads, the number of rows, and the
// method; deploy/docs/benchmarks.md has the figures of a run.
package main
