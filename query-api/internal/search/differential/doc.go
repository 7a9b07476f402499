// Package differential holds the tests that compare search with other implementations: the same sample data, random
// queries, equal totals, people and order.
//
// The reference is the evaluator in each run of the tests, and OpenSearch with the build tag opensearch (`make
// test-search`; it needs Java 17 and Maven, see package opensearch). MUSTER_TEST_SEARCH is the number of queries,
// MUSTER_TEST_SEARCH_SEED the seed, and MUSTER_TEST_SEARCH_WITHOUT a comma-separated list of clauses and parameters
// ("match.fuzziness") to omit.
package differential
