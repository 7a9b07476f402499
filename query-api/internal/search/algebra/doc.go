// Package algebra defines the nodes of a parsed search query: about a dozen kinds with the semantics of Elasticsearch 8
// (rulings.md, Search). Package clause lowers clauses to nodes; the planner, the evaluator and explain read nodes only.
//
// A node matches a document, the root or a nested document of one path, and scores a match with 0 or more. Nodes are
// immutable.
package algebra
