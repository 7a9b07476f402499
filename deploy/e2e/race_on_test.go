//go:build race

package e2e_test

// comparedOf: under the race detector, where the oracle is many times slower,
// one record in so many is compared field for field; of the others only whose
// they are. The detector has nothing to find in the oracle, and cannot see into
// the binary under test.
const comparedOf = 5
