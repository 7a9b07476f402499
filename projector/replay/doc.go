// Package replay rebuilds read models while the projector and the API keep running.
//
// [Tables] rebuilds tables from the topics in shadow tables, compares these with the live tables and exchanges them.
// [Answers] rebuilds the answers of code-host accounts from the tables. [DropRetired] drops the tables that replays
// have replaced, [Abort] discards an unfinished replay.
//
// No answer goes back to an older version and none is missing meanwhile. A replay that was killed is resumed by the
// next one ([Answers] starts over). Replays and migrations exclude each other. Rejected messages, tombstones and
// touches are not published: the live projector publishes them.
package replay
