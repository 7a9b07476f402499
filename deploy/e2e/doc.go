// Package e2e tests the product from outside: the muster binary is built once and run as
// an operator runs it, on its embedded engines, with temporary data directories and free
// ports. Responses of the API are compared with package oracle, which computes them from
// the records and schemas/MAPPING.md alone.
//
// MUSTER_E2E_PEOPLE is the number of people in the large data set (default 20,000, with
// -short 2,000). MUSTER_E2E_SEED is the random seed; a failing test prints it.
package e2e
