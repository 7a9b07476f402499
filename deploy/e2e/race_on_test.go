//go:build race

package e2e_test

// comparedOf is the fraction of records that is compared field by field: one in comparedOf. For the others, only the
// owner is compared. The oracle is many times slower under the race detector, which finds nothing there, and cannot
// check the binary under test.
const comparedOf = 5
