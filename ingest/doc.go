// Package ingest is the way in: it takes what crawlers produced and publishes
// it, checked and in order, on the topics of records.
//
// [Files] is one run over files or standard input (`muster ingest`); [Service]
// is the part of the platform that listens for records. Both put the same record
// on the same topic under the same key.
//
// # What becomes of a line
//
// Every line that is not blank is one record of the run's kind. It is published
// on the kind's topic, with the records split off from it on theirs, or it is
// published with reason and place on the topic of rejected records. It never
// stops the stream. So counts reconcile, per kind (records.md, rule 6):
//
//	read + split = published + rejected (+ unfinished, when the run was cut short)
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
// stored. Running it again from the beginning changes no answer: records are
// idempotent by identity and version.
package ingest
