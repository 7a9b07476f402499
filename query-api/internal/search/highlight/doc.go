// Package highlight marks the words of a document that a query looks for.
//
// It reads the query as it was parsed and the document as it is returned, so that all executors mark the same words:
// those of clauses that may match, also in filters, but not of those in must_not. Fragments begin and end at sentences
// or words; they are not those of Elasticsearch's highlighters.
package highlight
