// Package dedup stores the last published version and content hash of every identity on disk, so
// that ingest can skip records that were published before (records.md, rule 5).
//
// The table maps an identity to version, revision and hash. It holds a hundred million entries,
// costs about one microsecond per record, and keeps only recently used pages in memory. Several
// processes can use it concurrently: a run of `muster ingest` and the HTTP push of a running
// platform. A [Tx] locks the identities that it names against all other processes, from lookup
// until the decision is published and recorded. So the versions of one identity are published in
// order, whichever process publishes them.
//
// # On disk
//
// Entries of 36 bytes are stored in pages of 1 KiB, addressed by a hash of the identity, in 32
// files that grow independently. Every entry has a checksum; a partially written entry counts as
// missing. Entries are not synced to disk.
//
// # Guarantee
//
// An entry is written only after the brokers have acknowledged the message that it describes. An
// entry that is lost, by a crash of the machine or because an operator deleted the directory, leads
// to a repeated publication, which changes no result. An entry whose message the brokers have lost
// would be worse: [Store.BindCluster] removes all entries if the topics are not those that the
// entries describe, and starts a new [Store.Generation], so that checkpoints elsewhere become
// invalid as well.
//
// A crash of the machine is such a case: the end of a broker's log on it may be lost while the entries for it are on
// disk. So [Tx.MarkUsed] syncs the boot ID of the machine to disk before the first entry is written.
// [Store.BindCluster] clears it when it records new end offsets. If it finds the ID of another boot, no end offsets
// were recorded before the crash. Without a boot ID each process counts as a separate boot.
package dedup
