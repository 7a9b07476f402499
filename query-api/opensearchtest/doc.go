// Package opensearchtest indexes search documents in an OpenSearch node of platform/opensearchtest, and searches them: the
// reference of search tests and the baseline of search benchmarks.
package opensearchtest
