// Package dsl renders lowered queries and sort keys as OpenSearch's query DSL, over the fields of package searchindex.
//
// A node is rendered as the clause that OpenSearch executes with the Lucene query that the node stands for. Words are
// rendered as they are looked up: the cluster analyzes nothing. Nothing of the caller's JSON is passed on.
//
// A node that OpenSearch 2 has no clause for is an [UnsupportedError].
package dsl
