// Package searchtest makes random search requests, and compares two engines that answer them.
//
//   - [NewGenerator] draws queries over every clause and parameter of Elasticsearch's query language that
//     [Options] allow. A query is built around one of the documents: its constants are words and values of that
//     document, so that what it asks for exists. The same seed and documents give the same queries.
//   - [Compare] holds an answer against the judge's: total, people, order by score or sort keys, ties aside.
//   - [Shrink] makes a query that fails smaller while it fails.
//   - [Coverage] counts what the queries used.
//
// It is for tests only.
package searchtest
