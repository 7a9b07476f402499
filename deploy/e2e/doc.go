// Package e2e tests the product from outside: the muster binary is built once
// and run as an operator runs it, on its embedded engines, with temporary data
// folders and free ports. What the API answers is compared with package
// oracle, which computes it from the records and schemas/MAPPING.md alone.
//
// MUSTER_E2E_PEOPLE sets how many people the large world has (default 20,000,
// with -short 2,000). MUSTER_E2E_SEED sets the seed of everything that is
// drawn; a failing test prints it.
package e2e
