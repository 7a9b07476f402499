// Package e2e tests the product from outside: it builds the muster binary once and runs it as an operator does, with
// embedded engines, temporary data directories and free ports. It compares responses of the API with package oracle,
// which computes them from the records and schemas/MAPPING.md alone.
//
// MUSTER_E2E_PEOPLE is the number of people in the large data set (default 20,000, with -short 2,000). MUSTER_E2E_SEED
// is the random seed; a failing test prints it.
package e2e
