// Package algebra is what every search query is made of once it is read: about
// a dozen kinds of nodes with the semantics of Elasticsearch 8 (rulings.md,
// Search). Clauses are lowered to nodes; the planner, the evaluator and explain
// know nodes only.
//
// A node matches a document, the root or one element of a nested path, and
// gives a matching one a score of zero or more. Nodes are values that nobody
// changes after they were made.
package algebra
