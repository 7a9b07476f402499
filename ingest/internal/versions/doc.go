// Package versions remembers, on disk, the last published version and content
// hash of every identity, so that ingest can tell a record that is new from one
// that was published before (records.md, rule 5).
//
// Its one job is a table from identity to version and hash that holds a hundred
// million entries, costs about a microsecond a record, needs memory only for what
// is being looked at, and may be used by several processes at a time: a run of
// `muster ingest` beside the HTTP push of a running platform. A [Tx] holds the
// identities that it names, against all other processes, from looking them up
// until what was decided is published and noted; so one identity's versions are
// published in order whoever publishes them.
//
// # On disk
//
// Entries of 36 bytes stand in pages of 1 KiB, found by a hash of the identity, in
// 32 files that grow one at a time. Files of releases without mapping revisions are rewritten
// when they are first used. Every entry carries a checksum: one that was
// half written counts as missing. Nothing of the entries is synchronized to the disk.
//
// # Guarantee
//
// An entry is written only after the brokers have acknowledged what it says. What
// is lost, by a crash of the machine or by an operator who deletes the folder, is
// published again, which changes no answer. What is remembered although the
// brokers no longer have it would be worse: [Store.Bind] forgets everything when
// the topics are not those that the entries speak of, and gives what follows a new
// [Store.Generation], so that the same holds of what is noted elsewhere.
//
// A machine that stops without warning is such a case: the end of a broker's log on it may
// be gone, and entries that say what stood there may be on the disk. So [Tx.Used] notes, on
// the disk, the start of the machine before the first entry is written, [Store.Bind] takes
// that back with the ends of the topics that it notes, and finds it after another start
// if that did not come about. Where nobody says which start it is, each process counts
// as one.
package versions
