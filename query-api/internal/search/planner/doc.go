// Package planner makes the SQL that search reads with, and has what scores are made of: statements that read the
// posting lists of leaves, lengths and columns of the parts of search_people (leaf.go), terms of a field
// (dictionary.go), and statistics (stats.go); the weights of terms (weights.go) and the sort keys (sort.go). It knows
// nodes and columns, never clauses.
//
// Every value that comes from a request is a query parameter. Text comes from the package's own constants, from the
// names of columns in schemas/readmodel, and from the names of clusters and their hosts.
package planner
