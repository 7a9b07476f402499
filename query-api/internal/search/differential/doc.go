// Package differential holds the tests that compare search with OpenSearch: the same generated people in both, random
// queries, equal totals, people and order.
//
// They run when MUSTER_TEST_SEARCH says how many queries, as `make test-search` does; without it the package has no
// tests. MUSTER_TEST_SEARCH_SEED draws other queries, MUSTER_TEST_SEARCH_WITHOUT names clauses and parameters
// ("match.fuzziness") that are left out, separated by commas. They need Java 17 and Maven (package opensearch).
package differential
