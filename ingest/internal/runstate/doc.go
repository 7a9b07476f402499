// Package runstate keeps, on disk, how far the runs of ingest came, so that a run
// that was stopped goes on where it stopped, however it was stopped.
//
// Its one job is a folder for each run with what the run is (its files, and how
// they are recognized), how far each of them is acknowledged, and the counts of
// what became of the records up to there.
//
// # Guarantee
//
// [Handle.Advance] appends to a journal with one write and nothing in memory: what
// it has returned from is known after kill -9. A last line that was half written is
// left out. After a crash of the machine the journal may lack its end, and the brokers
// may lack what it says: the generation is another one then (versions.Store), and the
// run begins again. A run belongs to one process at a time, by a lock that ends with the
// process.
package runstate
