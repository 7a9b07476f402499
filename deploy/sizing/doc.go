// Package sizing computes the hardware for a number of people from measured sizes and
// rates. The tests generate the tables of deploy/docs/sizing.md, and verify that every
// measured figure is in deploy/docs/benchmarks.md.
package sizing
