// Package sizing says how much hardware a number of people needs, by arithmetic
// from measured bytes and rates. Its tables are those of deploy/docs/sizing.md;
// the test writes them, and finds every measured figure in
// deploy/docs/benchmarks.md again.
package sizing
