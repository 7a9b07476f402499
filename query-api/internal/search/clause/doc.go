// Package clause parses Elasticsearch's query DSL and lowers it to the nodes of package algebra. No other package
// knows the DSL: each family of clauses has a file that lowers its JSON, and a row in the table of clauses
// ([Clauses]), which also defines the parameters and generates the documentation ([Page]).
//
// Invalid input is an [*Error] with the JSON path of the problem. An unknown clause, parameter or field is reported
// with the closest known name, an unsupported clause by its name. Nothing is ignored silently. Lowering is bounded:
// depth, number of clauses and terms, length of patterns (rulings.md, Search).
package clause
