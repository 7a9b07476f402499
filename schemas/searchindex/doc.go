// Package searchindex defines the OpenSearch index of search: names, settings, mappings and documents.
//
// All of it is generated from readmodel.SearchCollection, the one table of search fields, so that the embedded executor
// and OpenSearch search the same fields. A document has the values of a row of the collection's table: the tokens of a
// text, which schemas/analysis has split, joined by spaces and indexed with the white-space analyzer, its whole value,
// numbers, booleans and lists of elements. Both executors thus agree about what a word is. The source is not stored.
//
// Indexes are named <prefix><collection>-<id>. One of each collection is live: it has the alias <prefix><collection>,
// which searches read.
// Each has an alias of its own for writes, so that a write never creates an index.
package searchindex
