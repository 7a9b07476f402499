// Package ingest is the way in: it takes what crawlers produced and publishes
// it, checked and in order, on the topics of records.
//
// [Files] is one run over files or standard input (`muster ingest`), [Git] one over
// repositories; [Service] is the part of the platform that listens for records.
// All put the same record on the same topic under the same key. [Erase] and
// [WithdrawErasure] write who is to be forgotten; [ResubmitRejected] and
// [ResubmitDead] bring in again what was given up.
//
// # What becomes of a line
//
// Every line or row that is not blank is one record of the run's kind, or an object
// of which a mapping makes records. A record is published on the kind's topic, with
// the records split off from it on theirs, unless what is known of its identity says
// that it brings nothing: the newest version with other content is published, one
// with the same content is noted as seen, an older one is stale. So is one of the same version
// and other content, unless its mapping revision is greater ([Config.Remap]). An invalid record is
// published with reason and place on the topic of rejected records, and who was
// erased is dropped. Nothing stops the stream. So counts reconcile, per kind
// (records.md, rule 6; [Counts]):
//
//	read + split = published + seen + unchanged + stale + rejected + mapped + dropped
//	             (+ unfinished, when the run was cut short)
//
// # Delivery
//
// At least once. A record counts as published when every in-sync replica has it.
// Brokers that are away stop the flow and nothing else: reading waits, memory
// stays bounded, nothing is lost. Within one run the versions of one identity are
// published in the order of the input, so that the message compaction keeps is
// the last one read. A retry may store a message again, never out of order.
//
// A run that is interrupted publishes what it has read, waits for the
// acknowledgements, and reports for each file the place up to which everything is
// stored. It goes on from there ([Config]), and running it again from the beginning
// changes no answer: records are idempotent by identity and version.
package ingest
