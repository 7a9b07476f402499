// Package clause reads Elasticsearch's query language and lowers it to the
// algebra. Nothing else knows the language: each clause family has a file that
// lowers its JSON, and one line in the table of clauses, which also decides
// which parameters exist and makes the page of the documentation.
//
// Whatever is not understood is an [*Error] with the JSON path of what is
// wrong: an unknown clause, parameter or field names the nearest known one, a
// clause that is not supported is refused by name. Nothing is ignored in
// silence. Lowering is bounded: depth, number of clauses, terms, length of
// patterns (rulings.md, Search).
package clause
