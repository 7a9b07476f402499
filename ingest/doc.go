// Package ingest validates the records that crawlers produce and publishes them, in order, on the
// record topics.
//
// [Files] is one run over files or standard input (`muster ingest`), [Git] one over git
// repositories, and [Service] accepts records over HTTP. All of them publish the same record to the
// same topic under the same key. [Erase] and [WithdrawErasure] publish erasure requests;
// [ResubmitRejected] and [ResubmitDead] resubmit rejected records and dead letters.
//
// # Record outcomes
//
// Every non-blank line or row is one record of the run's kind, or a source object that a mapping
// converts to records. A record is published to its kind's topic, together with the records
// extracted from it, if its version is newer than the last published version of its identity and
// its content differs. A newer version with the same content is published as a version bump (seen).
// An older version is stale, and so is the same version with different content, unless its mapping
// revision is greater ([Config.Remap]). An invalid record is published with reason and location to
// the topic of rejected records. Records of erased people are dropped. No record stops the stream.
// So counts reconcile, per kind (records.md, rule 6; [Counts]):
//
//	read + split = published + seen + unchanged + stale + rejected + mapped + dropped
//	             (+ unfinished, when the run was cut short)
//
// # Delivery
//
// Delivery is at least once. A record counts as published when every in-sync replica has
// acknowledged it. While brokers are unavailable, reading waits: memory stays bounded and no record
// is lost. Within one run the versions of one identity are published in input order, so compaction
// retains the last one read. A retry may duplicate a message but never reorders.
//
// An interrupted run publishes what it has read, waits for the acknowledgments, and reports for
// each file the position up to which everything is stored. It resumes there ([Config]). Running it
// again from the beginning changes no result: records are idempotent by identity and version.
package ingest
