// Package search answers searches of people and of companies (readmodel.SearchCollection). A page goes through these
// steps:
//
//  1. Parse and lower (clause): the request becomes nodes (algebra), sort keys and a source filter. Errors are of type
//     [*clause.Error] or those of package cursor.
//  2. Expand (expand.go): fuzzy words, prefixes and patterns become the terms that exist.
//  3. Execute (execute.go): the index (postings) ranks documents as of a snapshot of the table's parts, reading with the
//     statements of planner what it has not read before.
//  4. Render: the documents of the page are read from package readstore, filtered by _source (source.go), and inner hits
//     are added (inner.go).
//
// The statistics and expansions that the order depends on are stored in the cursor, so that a document whose sort
// values do not change is neither shown twice nor left out while records are refreshed.
//
// A query that exceeds a limit returns a [*TooExpensiveError]. A call that misses its deadline for other reasons
// returns an [*OverloadedError], and a table that cannot be searched an [*Unavailable].
package search
