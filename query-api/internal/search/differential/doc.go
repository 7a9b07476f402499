// Package differential holds the tests that compare search with others that answer the same questions: the same
// generated people in both, random queries, equal totals, people and order.
//
// The evaluator judges in every run of the tests. OpenSearch judges under the build tag opensearch, as in
// `make test-search`: MUSTER_TEST_SEARCH is how many queries, MUSTER_TEST_SEARCH_SEED draws others, and
// MUSTER_TEST_SEARCH_WITHOUT names clauses and parameters ("match.fuzziness") that are left out, separated by commas. That
// needs Java 17 and Maven (package opensearch).
package differential
