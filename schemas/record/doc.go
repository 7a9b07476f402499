// Package record defines the records that crawlers deliver: their kinds, decoding, validation, identity,
// version and topics (records.md).
//
// [Definitions] is the registry that ingest, topic creation and the projector use. A kind has one Go file
// with its validation, one line in the registry, a JSON Schema in jsonschema/ and at least one example in
// testdata/.
//
// [Decode] converts one JSON object to a [Record], or returns a [*ValidationError] that names the invalid field and
// the reason. It is pure: ingest and projector get the same identity, version and hash from the same bytes,
// and from the bytes that ingest published. Unknown fields are kept and are part of the hash.
package record
