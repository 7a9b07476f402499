// Package record is the contract of what crawlers hand in: the kinds of
// records, how each is decoded and checked, its identity, its version and the
// topic it travels on (records.md).
//
// One registry, [Definitions], is what ingest, topic creation and the projector
// read. A kind is one Go file with its checks, one line in the registry, a JSON
// Schema in jsonschema/ and at least one example in testdata/.
//
// [Decode] turns one JSON object into a [Record] or says, as an [*Invalid],
// which field is wrong and why. It is pure, so ingest and projector get the same
// identity, version and hash from the same bytes, and from the bytes that ingest
// published. Unknown fields are kept and take part in the hash.
package record
