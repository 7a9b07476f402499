// Package searchtest generates random search requests, and compares two engines that execute them.
//
//   - [Generator] generates queries over the clauses and parameters of Elasticsearch's query DSL that [Options] allow. A
//     query is built around one of the documents: its constants are words and values of that document. The same seed and
//     documents give the same queries.
//   - [Compare] compares a result with the reference: total, people, order by score or sort keys except for ties.
//   - [Shrink] reduces a failing query.
//   - [Coverage] counts the clauses and parameters of queries.
//
// It is for tests only.
package searchtest
