// Package postings ranks people by an in-memory index of search_people: lists of who matches the leaves of a query,
// with frequencies, lengths of texts, and columns of values. What is inside of what, and the scores, it computes
// itself, by the algebra's nodes and the planner's weights.
//
// A part of a table never changes: inserts and merges make others. What was read of one is good for as long as the part
// is there, so that nothing that is cached can be out of date. [Index.Latest] returns a snapshot of the parts that are
// there. People who stand in several parts count where their version is the newest, as ReplacingMergeTree has it. On a
// cluster the parts are those of one replica of each shard.
//
// What a query had no time to read is read after it, and lengths of large parts before the first query ([Index.Begin]):
// by statements that are [Behind], one at a time, which leave the server to those that a call waits for.
//
// What is cached is bounded by Config.MaxBytes; what was used longest ago goes first. A query that needs more is
// [TooLarge]. A table that cannot be held is [Unavailable].
package postings
