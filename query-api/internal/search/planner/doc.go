// Package planner makes SQL of the algebra: what a query needs to know of the
// collection (statistics), which people match and in which order (rank), and
// which elements of a result matched (inner hits). It knows nodes and columns,
// never clauses.
//
// Every value that comes from a request is a query parameter. Text comes from
// the package's own constants and from the names of columns in
// schemas/readmodel, nothing else.
package planner
