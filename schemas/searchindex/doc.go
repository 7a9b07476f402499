// Package searchindex defines the OpenSearch index of person search: names, settings, mapping and documents.
//
// All of it is generated from readmodel.SearchFields, the one table of search fields, so that the embedded executor and
// OpenSearch search the same fields. A document has the values of the person's row of search_people: the tokens of a
// text, which schemas/analysis has split, joined by spaces and indexed with the white-space analyzer, its whole value,
// numbers, booleans and lists of elements. Both executors thus agree about what a word is. The source is not stored.
//
// Indexes are named <prefix>people-<id>. One of them is live: it has the alias <prefix>people, which searches read.
// Each has an alias of its own for writes, so that a write never creates an index.
package searchindex
