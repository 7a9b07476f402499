// Package postings ranks people, or companies, with an in-memory index of their table: posting lists of the leaves of a
// query, with frequencies, lengths of texts, and columns of values. It computes nesting and scores itself, from the
// algebra's nodes and the planner's weights.
//
// Parts of a table are immutable, so cached data never becomes stale; [Index.Latest] returns a snapshot of the current
// parts. If a profile is in several parts, its newest version counts, as in ReplacingMergeTree. On a cluster of one
// shard, the parts are those of one replica; several shards are [Unavailable].
//
// What a query had no time to read is read afterwards, and lengths of large parts before the first query
// ([Index.WarmUp]): by background statements ([IsBackground]), one at a time, which yield to those of calls.
//
// The cache is bounded by Config.MaxBytes, with LRU eviction. A query that needs more is [TooLarge]. A table that does
// not fit is [Unavailable].
package postings
