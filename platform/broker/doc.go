// Package broker runs an embedded single-node Kafka broker.
//
// It is kfake of the franz-go project, with its log in a data directory and the Kafka protocol on a TCP address. The
// services use it as they use Apache Kafka.
//
// # Durability
//
// A Produce request or an offset commit is acknowledged after write(2) of the batch. Hence:
//
//   - If the process dies (kill -9, panic, out of memory), nothing acknowledged is lost. A compaction is covered too:
//     its input files are backed up until it is complete, and nothing is acknowledged until then.
//   - If the machine crashes (power, kernel), data that the operating system had not flushed is lost, as with Apache
//     Kafka's default settings on a single node. The next start resets committed offsets that are past the end of their
//     partition, so that groups do not skip new messages. Config.SyncWrites calls fsync for each batch and closes that
//     gap, at about two thirds of the throughput.
//   - If a write fails (disk full), the broker stops, sends no more responses and closes the Failed channel. What it
//     has acknowledged is in its files and available after the next start.
//   - If the disk returns corrupt data, the next start replaces a batch with a wrong checksum by an empty batch, unless
//     it is the last one. It copies the original segment to the directory "damaged" and logs an error.
//   - Close flushes and syncs everything, and saves the state that is not in the log: the start offsets of partitions
//     with a partly deleted segment, open transactions and group sessions. A start after any other exit reads only the
//     log, and needs as much memory as the partitions that were written since the last Close.
//   - If files of the log are missing, Start returns a LossError: a partition ends before the end saved by Close, or
//     lacks a segment. Config.AcceptLoss starts all the same.
//   - If there are messages but no topic metadata, Start returns ErrIncomplete.
//
// # Compaction and retention
//
// Compaction pauses the whole broker, and it keeps the last message of a key, which need not be its newest version.
// Therefore it never runs on a timer or at a start, only when Compact is called by a caller who knows that the
// consumers have no lag. Compact also applies retention.
//
// Retain applies only retention and pauses the broker briefly; call it periodically. Retention applies to topics with
// an explicit retention.ms or retention.bytes. Expired messages are no longer served, but a segment file (at most
// 16 MiB) stays on disk until all of it has expired, and a start that reads only the log serves it from its first
// message until the next retention run. A batch with old timestamps expires together with the batches before it, not
// earlier. An empty partition keeps its end offset.
//
// # Connections
//
// A request of more than 1 MiB (100 MiB for Produce) or of an unknown kind closes the connection. If users are
// configured, so does any request other than a login before authentication. Produce is supported up to version 12,
// DeleteRecords is not supported, and one request creates at most 10,000 partitions. If the connection of a group
// member closes, its session continues, as with Apache Kafka.
//
// A record batch is stored if every record in it can be decoded, as with Apache Kafka. Otherwise its partition is
// answered with INVALID_RECORD, or MESSAGE_TOO_LARGE if the batch inflates to more than 64 MiB. Records of compacted
// topics must have a key. Batches that are already on disk are not validated again.
//
// The users are those of Config.Users. Each of them may do everything.
//
// Topics are not auto-created: a request for an unknown topic is answered with UNKNOWN_TOPIC_OR_PARTITION.
package broker
