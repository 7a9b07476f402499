//go:build !race

package e2e_test

// comparedOf is 1: every record is compared field by field.
const comparedOf = 1
