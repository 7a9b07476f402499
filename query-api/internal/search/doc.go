// Package search executes person searches: it validates a query in Elasticsearch's query DSL (package clause), ranks
// the matching people, and fetches the documents of one page.
//
// If the tables are on one server, the in-memory index ranks (package postings). Queries that the index cannot answer,
// and all queries on a cluster, are ranked with SQL (package planner), in at most four statements: absent terms,
// statistics for scores with the total, ranks, documents.
//
// What the order of a page depends on, besides the people, is stored in the cursor. A person whose sort values do not
// change is returned once by a walk over all pages, also while records are refreshed.
//
// Each statement has limits of time, memory and rows; a query that exceeds one fails with a [TooExpensiveError]. A
// search that misses its deadline for other reasons fails with an [OverloadedError]. Errors of the request are a
// [clause.Error] or errors of package cursor.
package search
