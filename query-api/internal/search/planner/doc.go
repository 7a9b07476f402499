// Package planner builds the SQL that search reads with, and computes what scores need. Statements read the posting
// lists of leaves, lengths and columns of parts of a collection's table (leaf.go), the terms of a field
// (dictionary.go), and statistics (stats.go); weights.go has the weights of terms, sort.go the sort keys. The package
// knows nodes and columns, but no clauses.
//
// Every value from a request is a query parameter. All other text comes from the package's constants, the names of
// tables and columns of schemas/readmodel, and the names of clusters and their hosts.
package planner
