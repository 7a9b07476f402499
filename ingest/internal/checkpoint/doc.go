// Package checkpoint stores the progress of ingest runs on disk, so that a stopped run can resume,
// however it was stopped.
//
// Each run has a directory with its parameters (its files and how they are recognized), the
// acknowledged position of each file, and the outcome counts of the records up to there.
//
// # Guarantee
//
// [Writer.Advance] appends to a journal with a single write and buffers nothing: its data survives
// kill -9. A truncated last line is ignored. After a crash of the machine the journal may lack its
// end, and the brokers may lack messages that it describes: the generation then differs
// (dedup.Store), and the run restarts from the beginning. A run belongs to one process at a time,
// by a lock that ends with the process.
package checkpoint
