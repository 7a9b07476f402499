// Package broker runs an embedded Kafka broker inside the process.
//
// It is kfake of the franz-go project, one node, speaking the Kafka protocol on
// a TCP address, with its log persisted under a data folder. Clients cannot tell
// it from a small Kafka: nothing in the services knows which one they talk to.
//
// # Durability
//
// A produce request and an offset commit are answered after the record batch has
// been handed to the operating system with write(2). Hence:
//
//   - the process dies (kill -9, panic, out of memory): nothing that was
//     acknowledged is lost, also when it dies while it compacts: the files of
//     before are kept until then, and no answer is given meanwhile;
//   - the machine dies (power, kernel): what the operating system had not yet
//     flushed is lost, as with Apache Kafka's default settings on a single node.
//     The next start takes commits back that are behind the end that a partition
//     has then: else groups would pass over the next messages. Config.SyncWrites calls
//     fsync for every batch and closes that gap, at about two thirds of the throughput;
//   - a write fails (the disk is full): the broker stops there, answers nothing
//     any more, and tells its owner by Failed. What it has acknowledged is in its
//     files, and there after the next start;
//   - the disk changes what it holds: a record batch whose checksum is wrong is replaced
//     at the next start by one without records, if anything is behind it. The file as it
//     was is kept in the folder "damaged", for whoever reads the error in the log;
//   - Close flushes and fsyncs everything, and saves what a start cannot read from the
//     log: where a partition begins of whose segment a part is deleted, transactions
//     that are open, sessions of groups. A start after any other end reads the log
//     alone, and takes as much memory as the partitions are large that were written
//     to since the last Close;
//   - files of the log are lost: Start returns a LossError if a partition ends before the end
//     that Close has saved, or lacks a segment. Config.AcceptLoss starts all the same;
//   - messages of topics that nothing tells of, since a file is missing, end a start
//     with ErrIncomplete.
//
// # Compaction and retention
//
// Compaction stops the whole broker while it runs, and keeps the last message of
// a key, which need not be the newest version of what it states. So there is no
// timer for it, and none at start: it happens when Compact is called, by somebody
// who knows that the consumers have caught up. Retention is applied then, too, and by
// Retain, which stops the broker for a moment only and wants a timer of its owner's: to
// topics that set retention.ms or retention.bytes explicitly. Nobody reads what it has
// taken, until a start that reads the log alone: a file, 16 MiB at most, stays on the
// disk until all in it has expired, and such a start begins with the first that is
// there. The next time takes it again. A batch of old times expires with those that
// came before it, not before them. A partition without messages goes on where it ended.
//
// # Connections
//
// A request that is larger than 1 MiB (100 MiB with records), or of a kind that the
// protocol does not have, ends its connection, and so does whatever is not part of
// saying who one is, where there are users, of somebody who has not said it. Produce
// is answered up to version 12, DeleteRecords not at all, and no request creates more
// than 10,000 partitions. A member of a consumer group whose connection ends has its session left, as with
// Apache Kafka.
//
// A record batch is stored when every record in it can be read, as with Apache
// Kafka: else its partition is answered with INVALID_RECORD, or MESSAGE_TOO_LARGE if
// the batch inflates to more than 64 MiB. In topics that are compacted each record must
// have a key. Batches that are on disk already are not
// looked at again.
//
// Users are those of Config.Users, whoever there was when the log was written: each may do
// everything.
//
// Topics are never created by being named: a producer or consumer that names a
// topic that does not exist gets UNKNOWN_TOPIC_OR_PARTITION.
package broker
