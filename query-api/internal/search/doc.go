// Package search answers person search. A page goes through these steps:
//
//  1. Parse and lower (clause): the request becomes nodes (algebra), sort keys and a source filter. Errors are of type
//     [*clause.Error] or those of package cursor.
//  2. Expand (expand.go): fuzzy words, prefixes and patterns become the terms that exist.
//  3. Execute (execute.go): the index (postings) ranks people as of a snapshot of the table's parts, reading with the
//     statements of planner what it has not read before.
//  4. Render: the documents of the page are read from package readstore, filtered by _source (source.go), and inner hits
//     are added (inner.go).
//
// What the order depends on beside the people themselves travels in the cursor, so that a person whose sort values stay
// is neither shown twice nor left out while records are refreshed.
//
// A query that takes more than a query may is a [*TooExpensiveError]. A call that is not answered before its deadline
// for other reasons is a [*OverloadedError], and a table that cannot be searched is an [*Unavailable].
package search
