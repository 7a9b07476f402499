// Package bulk runs jobs: an upload of up to 100,000 rows, each answered and charged like a call of its own.
//
// A job is rows of the table bulk_rows (readmodel.BulkTable), all immutable: its description, its chunks of 100 rows
// as uploaded, and, when a chunk is answered, the same chunk again with a greater version together with its answers.
// The status of a job is derived from these rows, so every replica reports the same one, and nothing has to be updated
// when a replica dies. The content is encrypted with a key of query-api; the projector recognizes the answers about
// erased people by keyed hashes.
//
// A job is accepted by one message on event.TopicBulkJobTask, published when all its rows are stored. The replica that
// receives it keeps at most a window of chunk tasks on event.TopicBulkChunkTask, so that jobs share the replicas
// evenly, until all chunks are answered; then it publishes the webhook and acknowledges the message. If it dies,
// another one continues from the table.
//
// Delivery: both consumers are at least once. The first stored answer of a chunk counts. Its rows are charged from
// what is stored, each under the job and its number, so that repetitions charge nothing twice
// (metering.Meter.ChargeHold). A chunk task is acknowledged after its rows are charged.
//
// A job that is not finished after a day fails; so does one whose organization is deactivated. Jobs expire after seven
// days.
package bulk
