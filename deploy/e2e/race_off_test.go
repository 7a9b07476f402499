//go:build !race

package e2e_test

// comparedOf: every record is compared field for field.
const comparedOf = 1
