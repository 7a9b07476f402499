// Package postings ranks people by lists of who matches the leaves of a query, which it reads of the parts of search_people
// and keeps in memory: words with their frequencies, phrases, patterns, sets, and the columns of numbers. What is inside of
// what, and the scores, it computes itself, by the algebra's nodes and the planner's weights.
//
// A part of a table never changes: inserts and merges make others. What was read of one is good for as long as the part is
// there, so that nothing that is kept can be out of date. [Index.Latest] says which parts there are; an answer is
// good when that was asked after the question came. People who stand in several parts count where their version is
// the newest, as ReplacingMergeTree has it.
//
// What a query had no time to read is read behind it, and lengths of large parts before anybody asks ([Index.Begin]): by
// statements that are [Behind], one at a time, which leave the server to those that somebody waits for. Nothing is promised of
// either; who asks reads what is not there.
//
// What is kept is bounded by Config.MaxBytes; what was used longest ago goes first. A query that it does not know how to
// answer, or tables whose parts it cannot see, as those of a cluster, are ErrUnsupported: SQL answers those.
package postings
