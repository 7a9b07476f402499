// Package search answers person search: it reads a query of Elasticsearch's
// language (clause), makes SQL of it (planner), ranks the people who match on
// narrow columns, and then fetches the documents of one page.
//
// Where the tables are this server's own, people are ranked by what is kept in memory of their parts (postings, kept.go), and
// what follows is asked of ClickHouse only where that cannot.
//
// A page is read by SQL in at most four statements: fields and terms that scores need
// (kept for a while), ranks with the total (which comes with the terms where those
// are counted), documents. What a page's
// order depends on beside the people themselves travels in the cursor, so that
// nobody whose sort values stay is shown twice or left out while records are
// being refreshed.
//
// Every statement runs within limits of time, memory and rows; a query that
// exceeds one is refused with a [*Budget]. Input errors are of type
// [*clause.Error] or one of package cursor's.
package search
